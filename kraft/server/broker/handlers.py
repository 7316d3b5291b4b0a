"""Assembly: the handlers of all APIs, as both kinds of listeners serve them."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property

from kraft.model import requests as values
from kraft.model.broker_requests import BrokerAddress
from kraft.rpc.cluster_services import ReplicationService
from kraft.rpc.services import AdminHandlers, AdminService, BrokerHandlers, BrokerService, ClusterAdminHandlers
from kraft.server.broker.logs import BrokerLogs
from kraft.server.broker.metadata import BrokerMetadata
from kraft.server.broker.replicas import BrokerReplicas
from kraft.server.broker.world import BrokerWorld
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.values import CONTROLLER, GRPC
from kraft.server.handlers.alter_replica_log_directories import AlterReplicaLogDirectoriesHandler
from kraft.server.handlers.brokers import BrokersHandler
from kraft.server.handlers.client_quotas import ClientQuotasHandler
from kraft.server.handlers.configs import AlterConfigsHandler
from kraft.server.handlers.delete_records import DeleteRecordsHandler
from kraft.server.handlers.describe_configs import DescribeConfigsHandler
from kraft.server.handlers.describe_log_directories import DescribeLogDirectoriesHandler
from kraft.server.handlers.describe_producers import DescribeProducersHandler
from kraft.server.handlers.describe_topics import describe_topics
from kraft.server.handlers.features import FeaturesHandler
from kraft.server.handlers.fetch import FetchHandler
from kraft.server.handlers.list_offsets import ListOffsetsHandler
from kraft.server.handlers.metadata import MetadataHandler
from kraft.server.handlers.offset_for_leader_epoch import OffsetForLeaderEpochHandler
from kraft.server.handlers.partition_changes import PartitionChangesHandler
from kraft.server.handlers.plain_records import PlainRecordsHandler
from kraft.server.handlers.produce import ProduceHandler
from kraft.server.handlers.producer_ids import ProducerIdHandler
from kraft.server.handlers.quorum import QuorumHandler
from kraft.server.handlers.replica_fetch import ReplicaFetchHandler
from kraft.server.handlers.topics import TopicsHandler
from kraft.server.kafka_listener.apis.fetch import WAITING_PARTITIONS_MAX
from kraft.server.kafka_listener.fetch_sessions import FETCH_SESSION_ID_MAX, FetchSessions
from kraft.server.kafka_listener.kafka_admin_apis import KafkaAdminHandlers
from kraft.server.kafka_listener.kafka_apis import KafkaSurroundings, PartitionHandlers, kafka_apis
from kraft.server.kafka_listener.requests import Api
from kraft.server.loop.budget import Budget
from kraft.server.loop.slow_reads import SlowReads
from kraft.server.replica.waiting_appends import WaitingAppends
from kraft.wire.api_keys import ApiKey


class ApiHandlers:
    def __init__(
        self,
        config: NodeConfig,
        world: BrokerWorld,
        metadata: BrokerMetadata,
        logs: BrokerLogs,
        replicas: BrokerReplicas,
    ) -> None:
        self._config = config
        self._world = world
        self._metadata = metadata
        self._logs = logs
        self._replicas = replicas
        self.waiting_appends = WaitingAppends()
        # What clients ask for and takes long to read: look-ups by time, plain records.
        self._read_thread = ThreadPoolExecutor(1, thread_name_prefix="slow-reads")
        self._slow_reads = SlowReads(self._read_thread)
        self._fetch_sessions = FetchSessions(
            lambda: 1 + int.from_bytes(world.entropy.bytes(4), "big") % FETCH_SESSION_ID_MAX
        )
        self._waiting_fetches = Budget(WAITING_PARTITIONS_MAX)

    def grpc_services(self) -> tuple[BrokerService, AdminService, ReplicationService]:
        """What the GRPC listener serves."""
        return (
            BrokerService(self.broker),
            AdminService(self.admin),
            ReplicationService(ReplicaFetchHandler(self._logs.partitions).handle),
        )

    def kafka_apis(self, listener: str) -> Mapping[ApiKey, Api]:
        """What a listener of Kafka's protocol serves: the same for all but the addresses that clients are told."""
        return kafka_apis(
            replace(self.broker, metadata=self._metadata_handler(listener).handle),
            self.admin,
            self._kafka_admin(),
            self._partitions,
            KafkaSurroundings(
                broker_id=self._config.node_id,
                listener=listener,
                image=self._metadata.image,
                fenced_lately=self._metadata.fenced_lately.brokers,
                monotonic_ms=self._world.clock.monotonic_ms,
                sessions=self._fetch_sessions,
                waiting_fetches=self._waiting_fetches,
            ),
        )

    def close_threads(self) -> None:
        self._read_thread.shutdown(cancel_futures=True)

    # --- what brokers answer themselves ----------------------------------------------------------------------

    @cached_property
    def _partitions(self) -> PartitionHandlers:
        partitions = self._logs.partitions
        return PartitionHandlers(
            produce=ProduceHandler(partitions, self.waiting_appends),
            fetch=FetchHandler(partitions),
            offset_for_leader_epoch=OffsetForLeaderEpochHandler(partitions),
        )

    @cached_property
    def broker(self) -> BrokerHandlers:
        partitions, metadata = self._logs.partitions, self._metadata
        produce, fetch = self._partitions.produce, self._partitions.fetch
        plain_records = PlainRecordsHandler(produce, fetch, self._slow_reads, self._world.clock.wall_ms)
        producer_ids = ProducerIdHandler(metadata.registration, metadata.controllers)
        return BrokerHandlers(
            produce=produce.handle,
            fetch=fetch.handle,
            produce_records=plain_records.produce,
            fetch_records=plain_records.fetch,
            metadata=self._metadata_handler(GRPC).handle,
            list_offsets=ListOffsetsHandler(partitions, self._slow_reads).handle,
            offset_for_leader_epoch=self._partitions.offset_for_leader_epoch.handle,
            delete_records=DeleteRecordsHandler(partitions, self._logs.maintenance.records_deleted).handle,
            init_producer_id=producer_ids.handle,
        )

    def _metadata_handler(self, listener: str) -> MetadataHandler:
        metadata = self._metadata
        return MetadataHandler(
            metadata.loader, metadata.controllers, self._config.topics, listener, metadata.lost_leaders.replaced
        )

    def _kafka_admin(self) -> KafkaAdminHandlers:
        partitions, directories, image = self._logs.partitions, self._logs.directories, self._metadata.image
        alter_directories = AlterReplicaLogDirectoriesHandler(directories, partitions, self._replicas.moves)
        return KafkaAdminHandlers(
            alter_replica_log_directories=alter_directories.handle,
            describe_log_directories=DescribeLogDirectoriesHandler(directories, partitions).handle,
            describe_producers=DescribeProducersHandler(partitions, image).handle,
            configs_in_effect=DescribeConfigsHandler(self._config, image).in_effect_on_topic,
            voters=[
                (voter.node_id, BrokerAddress(listener=CONTROLLER, host=voter.host, port=voter.port))
                for voter in self._config.quorum.voters
            ],
        )

    # --- what goes on to the active controller ---------------------------------------------------------------

    @cached_property
    def admin(self) -> AdminHandlers:
        config, loader, controllers = self._config, self._metadata.loader, self._metadata.controllers
        topics = TopicsHandler(loader, controllers, deletion_enabled=config.topics.deletion_enabled)
        alter_configs = AlterConfigsHandler(loader, controllers, config.settings, config.topics.configs)
        partition_changes = PartitionChangesHandler(loader, controllers, config.settings, config.topics.configs)
        return AdminHandlers(
            create_topics=topics.create,
            delete_topics=topics.delete,
            describe_topics=self._describe_topics,
            describe_configs=DescribeConfigsHandler(config, self._metadata.image).handle,
            incremental_alter_configs=alter_configs.handle,
            describe_quorum=QuorumHandler(controllers).describe,
            cluster=self._cluster_admin(),
            partitions=partition_changes.handlers(),
        )

    def _cluster_admin(self) -> ClusterAdminHandlers:
        loader, controllers = self._metadata.loader, self._metadata.controllers
        brokers = BrokersHandler(loader, controllers)
        features = FeaturesHandler(loader, controllers)
        quotas = ClientQuotasHandler(loader, controllers)
        return ClusterAdminHandlers(
            describe_brokers=brokers.describe,
            fence_broker=brokers.fence,
            unfence_broker=brokers.unfence,
            unregister_broker=brokers.unregister,
            describe_features=features.describe,
            update_features=features.update,
            describe_client_quotas=quotas.describe,
            alter_client_quotas=quotas.alter,
        )

    async def _describe_topics(self, request: values.DescribeTopicsRequest) -> values.DescribeTopicsResponse:
        return describe_topics(self._metadata.image(), request)
