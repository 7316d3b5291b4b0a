"""The broker role of a node: everything between the listeners and the logs, wired together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final
from uuid import UUID

import structlog

from kraft.log.disk import Disk
from kraft.metadata.broker_configs import (
    CLEANER_BACKOFF,
    CLEANER_IO,
    SCRUB_IO,
    TopicDefaultsInEffect,
    dynamic_configs,
)
from kraft.metadata.image import MetadataImage
from kraft.metadata.records import Endpoint
from kraft.model import requests as values
from kraft.model.broker_requests import BrokerAddress
from kraft.model.ids import BrokerEpoch, BrokerId, TopicPartition
from kraft.quorum.snapshots import SnapshotStore
from kraft.rpc.cluster_peers import ReplicationPeer
from kraft.rpc.cluster_services import ReplicationService
from kraft.rpc.peers import Connections
from kraft.rpc.services import AdminHandlers, AdminService, BrokerHandlers, BrokerService, ClusterAdminHandlers
from kraft.runtime.clock import Clock
from kraft.runtime.entropy import Entropy
from kraft.server.broker.lifecycle import BrokerIdentity, BrokerLifecycle
from kraft.server.cluster.controller_client import ControllerClient
from kraft.server.cluster.fenced_lately import FencedLately
from kraft.server.cluster.lost_leaders import LostLeaders
from kraft.server.cluster.metadata_loader import MetadataLoader
from kraft.server.cluster.metadata_snapshots import MetadataSnapshots, SnapshotPolicy
from kraft.server.config.values import CONTROLLER, GRPC, Durability, NodeConfig, host_and_port
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
from kraft.server.identity.credentials import NodeCredentials
from kraft.server.identity.storage import NodeStorage
from kraft.server.kafka_listener.fetch_sessions import FETCH_SESSION_ID_MAX, FetchSessions
from kraft.server.kafka_listener.kafka_admin_apis import KafkaAdminHandlers
from kraft.server.kafka_listener.kafka_apis import KafkaSurroundings, PartitionHandlers, kafka_apis
from kraft.server.kafka_listener.requests import Api
from kraft.server.loop.slow_reads import SlowReads
from kraft.server.replica.failures import ReplicaFailures
from kraft.server.replica.fetcher import ReplicaFetcher
from kraft.server.replica.high_watermarks import HighWatermarks
from kraft.server.replica.isr_proposals import IsrProposals
from kraft.server.replica.log_directories import LogDirectories
from kraft.server.replica.log_syncer import LogSyncer
from kraft.server.replica.moves import ReplicaMoves
from kraft.server.replica.partition import PartitionSurroundings
from kraft.server.replica.partitions import Partitions
from kraft.server.replica.publisher import ReplicaPublisher
from kraft.server.replica.removals import ReplicaRemovals
from kraft.server.replica.store import PartitionStore
from kraft.server.replica.waiting_appends import WaitingAppends
from kraft.server.upkeep.disk_space import DiskSpace
from kraft.server.upkeep.maintenance import LogMaintenanceTasks
from kraft.wire.api_keys import ApiKey

log = structlog.get_logger()

REPLICATION_TICK_S: Final = 0.25

METADATA_SNAPSHOTS: Final = "__cluster_metadata/broker"
"""In `metadata.log.dir`; a controller in the same process has its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerWorld:
    """What a broker is given of the world outside."""

    clock: Clock
    entropy: Entropy
    disk: Disk
    credentials: NodeCredentials
    fatal: Callable[[str], None]
    """Ends the node, with one line that says why."""


class BrokerNode:
    def __init__(self, config: NodeConfig, storage: NodeStorage, world: BrokerWorld) -> None:
        self._config = config
        self._world = world
        self._not_closed = {str(each.path) for each in storage.directories if not each.closed_cleanly}
        self._connections = Connections(world.credentials.dial_broker)
        self._controller_connections = Connections(world.credentials.dial_controller)
        self._partitions = Partitions(self._exists)
        # Opens logs, and renames those that are deleted. Syncs have threads of their own, and so has the removal of
        # what was deleted, so that none of them waits for another.
        self._store_thread = ThreadPoolExecutor(1, thread_name_prefix="log-store")
        self._removal_thread = ThreadPoolExecutor(1, thread_name_prefix="log-removal")
        # Replicas that move from one log directory to another.
        self._move_thread = ThreadPoolExecutor(1, thread_name_prefix="log-move")
        # The scrub, and whatever is being compacted.
        self._upkeep_threads = ThreadPoolExecutor(
            1 + config.log_maintenance.cleaner_threads, thread_name_prefix="log-upkeep"
        )
        self._waiting_appends = WaitingAppends()
        # What clients ask for and takes long to read: look-ups by time, plain records.
        self._read_thread = ThreadPoolExecutor(1, thread_name_prefix="slow-reads")
        self._slow_reads = SlowReads(self._read_thread)
        self._topic_defaults = TopicDefaultsInEffect(config.settings, config.topics.configs, str(config.node_id))
        self._directories = _log_directories(config, storage)
        self._syncer = LogSyncer(self._directories.online)
        self._disk_space = DiskSpace(world.disk, config.log_maintenance.free_space_bytes_min, world.clock.monotonic_ms)
        self._maintenance = LogMaintenanceTasks(
            partitions=self._partitions,
            disk=world.disk,
            disk_space=self._disk_space,
            config=config.log_maintenance,
            wall_ms=world.clock.wall_ms,
            worker_threads=self._upkeep_threads,
            store_thread=self._store_thread,
        )
        self._controllers = ControllerClient(config.quorum.voters, config.node_id, self._controller_connections)
        self._lifecycle = BrokerLifecycle(
            self._identity(storage),
            self._controllers,
            heartbeat_interval_s=config.broker.heartbeat_interval_ms / 1_000,
            session_timeout_s=config.broker.session_timeout_ms / 1_000,
        )
        self._isr_proposals = IsrProposals(config.node_id, self._broker_epoch, self._controllers, world.fatal)
        store = PartitionStore(
            world.disk,
            self._directories,
            closed_cleanly=[str(directory.path) for directory in storage.directories if directory.closed_cleanly],
        )
        self._failures = ReplicaFailures(
            broker_id=config.node_id,
            broker_epoch=self._broker_epoch,
            partitions=self._partitions,
            directories=self._directories,
            indispensable=str(config.metadata_log_dir) if config.is_controller else None,
            store=store,
            executor=self._store_thread,
            controllers=self._controllers,
            fatal=world.fatal,
        )
        self._removals = ReplicaRemovals(
            disk=world.disk,
            directories=self._directories,
            thread=self._removal_thread,
            directory_failed=self._failures.directory_failed,
        )
        self._publisher = ReplicaPublisher(
            broker_id=config.node_id,
            broker_epoch=self._broker_epoch,
            partitions=self._partitions,
            store=store,
            directories=self._directories,
            failures=self._failures,
            removals=self._removals,
            executor=self._store_thread,
            defaults=config.topics.configs,
            high_watermarks=HighWatermarks(world.disk, self._directories.online),
            surroundings=self._surroundings(),
            make_fetcher=self._make_fetcher,
            fatal=world.fatal,
        )
        self._moves = ReplicaMoves(
            partitions=self._partitions,
            directories=self._directories,
            store=store,
            disk=world.disk,
            store_thread=self._store_thread,
            copy_thread=self._move_thread,
            admit=self._disk_space.admit,
            directory_failed=self._failures.directory_failed,
            moved=self._publisher.checkpoint,
            draw_move_id=lambda: world.entropy.bytes(16).hex(),
        )
        self._fenced_lately = FencedLately(world.clock.monotonic_ms)
        self._loader = MetadataLoader(
            storage.cluster_id,
            config.node_id,
            self._controllers,
            self._publish,
            is_current=self._lifecycle.is_registered_in,
        )
        self._lost_leaders = LostLeaders(world.clock.monotonic_ms, self._loader.until)
        self._snapshots = self._metadata_snapshots(storage)

    # --- services --------------------------------------------------------------------------------------------

    def services(self) -> tuple[BrokerService, AdminService, ReplicationService]:
        """What the GRPC listener serves."""
        return (
            BrokerService(self._broker_handlers),
            AdminService(self._admin_handlers),
            ReplicationService(ReplicaFetchHandler(self._partitions).handle),
        )

    def kafka_apis(self, listener: str) -> Mapping[ApiKey, Api]:
        """What a listener of Kafka's protocol serves: the same for all but the addresses that clients are told."""
        metadata = self._metadata_handler(listener)
        return kafka_apis(
            replace(self._broker_handlers, metadata=metadata.handle),
            self._admin_handlers,
            self._kafka_admin_handlers(),
            self._partition_handlers,
            KafkaSurroundings(
                broker_id=self._config.node_id,
                listener=listener,
                image=lambda: self._loader.image,
                fenced_lately=self._fenced_lately.brokers,
                monotonic_ms=self._world.clock.monotonic_ms,
                sessions=self._fetch_sessions,
            ),
        )

    @cached_property
    def _fetch_sessions(self) -> FetchSessions:
        return FetchSessions(lambda: 1 + int.from_bytes(self._world.entropy.bytes(4), "big") % FETCH_SESSION_ID_MAX)

    def _kafka_admin_handlers(self) -> KafkaAdminHandlers:
        describe_configs = DescribeConfigsHandler(self._config, lambda: self._loader.image)
        return KafkaAdminHandlers(
            alter_replica_log_directories=AlterReplicaLogDirectoriesHandler(
                self._directories, self._partitions, self._moves
            ).handle,
            describe_log_directories=DescribeLogDirectoriesHandler(self._directories, self._partitions).handle,
            describe_producers=DescribeProducersHandler(self._partitions, lambda: self._loader.image).handle,
            configs_in_effect=describe_configs.in_effect_on_topic,
            voters=[
                (voter.node_id, BrokerAddress(listener=CONTROLLER, host=voter.host, port=voter.port))
                for voter in self._config.quorum.voters
            ],
        )

    @cached_property
    def _partition_handlers(self) -> PartitionHandlers:
        return PartitionHandlers(
            produce=ProduceHandler(self._partitions, self._waiting_appends),
            fetch=FetchHandler(self._partitions),
            offset_for_leader_epoch=OffsetForLeaderEpochHandler(self._partitions),
        )

    @cached_property
    def _broker_handlers(self) -> BrokerHandlers:
        produce, fetch = self._partition_handlers.produce, self._partition_handlers.fetch
        plain_records = PlainRecordsHandler(produce, fetch, self._slow_reads, self._world.clock.wall_ms)
        return BrokerHandlers(
            produce=produce.handle,
            fetch=fetch.handle,
            produce_records=plain_records.produce,
            fetch_records=plain_records.fetch,
            metadata=self._metadata_handler(GRPC).handle,
            list_offsets=ListOffsetsHandler(self._partitions, self._slow_reads).handle,
            offset_for_leader_epoch=self._partition_handlers.offset_for_leader_epoch.handle,
            delete_records=DeleteRecordsHandler(self._partitions, self._maintenance.records_deleted).handle,
            init_producer_id=ProducerIdHandler(self._config.node_id, self._broker_epoch, self._controllers).handle,
        )

    @cached_property
    def _admin_handlers(self) -> AdminHandlers:
        topics = TopicsHandler(self._loader, self._controllers, deletion_enabled=self._config.topics.deletion_enabled)
        alter_configs = AlterConfigsHandler(
            self._loader, self._controllers, self._config.settings, self._config.topics.configs
        )
        partition_changes = PartitionChangesHandler(
            self._loader, self._controllers, self._config.settings, self._config.topics.configs
        )
        return AdminHandlers(
            create_topics=topics.create,
            delete_topics=topics.delete,
            describe_topics=self._describe_topics,
            describe_configs=DescribeConfigsHandler(self._config, lambda: self._loader.image).handle,
            incremental_alter_configs=alter_configs.handle,
            describe_quorum=QuorumHandler(self._controllers).describe,
            cluster=self._cluster_admin_handlers(),
            partitions=partition_changes.handlers(),
        )

    def _cluster_admin_handlers(self) -> ClusterAdminHandlers:
        brokers = BrokersHandler(self._loader, self._controllers)
        features = FeaturesHandler(self._loader, self._controllers)
        quotas = ClientQuotasHandler(self._loader, self._controllers)
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

    def _metadata_handler(self, listener: str) -> MetadataHandler:
        return MetadataHandler(
            self._loader, self._controllers, self._config.topics, listener, self._lost_leaders.replaced
        )

    async def _describe_topics(self, request: values.DescribeTopicsRequest) -> values.DescribeTopicsResponse:
        return describe_topics(self._loader.image, request)

    def _exists(self, partition: TopicPartition) -> bool:
        topic = self._loader.image.topic(partition.topic)
        return topic is not None and partition.partition in topic.partitions

    # --- life ------------------------------------------------------------------------------------------------

    async def run(self, listen: Callable[[], Awaitable[None]]) -> None:
        """Serves until cancelled. Raises BrokerRefused and StorageError.

        Calls `listen` when the broker has caught up with the metadata and opened its logs: nobody is answered from
        before that, and the controller puts the broker into service only after it.
        """
        if self._snapshots is not None:
            self._loader.start_from(await self._snapshots.load_or_begin_anew())
        await self._moves.finish_interrupted()
        async with asyncio.TaskGroup() as tasks:
            # The long part of a start needs no controller, and waits for none.
            tasks.create_task(self._publisher.logs_opened_ahead.open(self._loader.current_image().image))
            await self._lifecycle.register()
            if self._snapshots is not None:
                tasks.create_task(self._snapshots.run())
            tasks.create_task(self._syncer.run())
            tasks.create_task(self._failures.run())
            tasks.create_task(self._removals.run())
            tasks.create_task(self._loader.run())
            tasks.create_task(self._maintenance.run())
            tasks.create_task(self._tick())
            tasks.create_task(self._checkpoint())
            await self._loader.is_acting.wait()
            tasks.create_task(self._moves.run())
            await listen()
            tasks.create_task(self._lifecycle.keep_alive(self._loader))
            tasks.create_task(self._lifecycle.attend())

    async def hand_on_leaderships(self) -> None:
        """The first half of a graceful stop: while `run` goes on, others take over what this broker leads."""
        if self._config.broker.controlled_shutdown_enabled and self._lifecycle.broker_epoch >= 0:
            await self._lifecycle.shut_down(self._published_index)

    async def close(self) -> None:
        """The second half, after `run` was cancelled: every log is closed durably."""
        await self._isr_proposals.close()
        # Before the logs are closed: a sync under way may fail, and then its log is not closed in order. What is left
        # of a change, whose steps the syncer runs, is made when its log is closed.
        self._syncer.close()
        await self._publisher.close()
        await self._publisher.checkpoint()
        await self._waiting_appends.close()
        if self._snapshots is not None:
            await self._snapshots.write()
            self._snapshots.close()
        self._store_thread.shutdown()
        self._removal_thread.shutdown()
        self._move_thread.shutdown()
        self._moves.close()
        self._upkeep_threads.shutdown()
        self._read_thread.shutdown(cancel_futures=True)
        await self._connections.close()
        await self._controller_connections.close()

    @property
    def log_directories_closed(self) -> tuple[str, ...]:
        """Those in which, after `close`, every log is closed in order: not one that has failed.

        Nor one that was not closed in order before, when this process never came to open what is in it.
        """
        opened = self._loader.is_acting.is_set()
        return tuple(each for each in self._directories.online if opened or each not in self._not_closed)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(REPLICATION_TICK_S)
            for partition in self._partitions:
                partition.tick()

    async def _checkpoint(self) -> None:
        while True:
            await asyncio.sleep(self._config.replication.high_watermark_checkpoint_interval_ms / 1_000)
            await self._publisher.checkpoint()

    # --- small parts -----------------------------------------------------------------------------------------

    def _metadata_snapshots(self, storage: NodeStorage) -> MetadataSnapshots | None:
        """None when their directory could not be used at the start: then all metadata is fetched anew."""
        config = self._config
        if config.metadata_log_dir in storage.unusable:
            return None
        return MetadataSnapshots(
            SnapshotStore(self._world.disk, str(config.metadata_log_dir / METADATA_SNAPSHOTS)),
            self._loader,
            policy=SnapshotPolicy(
                entry_bytes_between=config.quorum.snapshot_entry_bytes_between,
                interval_ms=config.quorum.snapshot_interval_ms,
            ),
            cluster_id=storage.cluster_id,
            monotonic_ms=self._world.clock.monotonic_ms,
            failed=self._metadata_directory_failed,
        )

    def _metadata_directory_failed(self, reason: str) -> None:
        directory = str(self._config.metadata_log_dir)
        if self._directories.is_online(directory):
            self._failures.directory_failed(directory, reason)
        elif directory not in self._directories.offline:
            # It holds nothing but the metadata, and there is no other for that.
            self._world.fatal(reason)

    async def _publish(self, before: MetadataImage, after: MetadataImage) -> None:
        if after.broker_configs is not before.broker_configs:
            self._publisher.use_defaults(self._topic_defaults(after))
            self._reconfigure_maintenance(after)
        await self._publisher.publish(before, after)
        # Last, however long the others took: clients see the broker fenced from here on.
        self._fenced_lately.published(before, after)

    def _reconfigure_maintenance(self, image: MetadataImage) -> None:
        dynamic, static = dynamic_configs(image, str(self._config.node_id)), self._config.log_maintenance
        self._maintenance.reconfigure(
            cleaner_backoff_ms=int(dynamic.get(CLEANER_BACKOFF, static.cleaner_backoff_ms)),
            cleaner_io_max=int(dynamic.get(CLEANER_IO, static.cleaner_io_bytes_per_second_max)),
            scrub_io_max=int(dynamic.get(SCRUB_IO, static.scrub_io_bytes_per_second_max)),
        )

    def _is_active(self, broker_id: BrokerId) -> bool:
        return self._loader.image.is_active(broker_id)

    def _broker_epoch(self) -> BrokerEpoch:
        return self._lifecycle.broker_epoch

    def _published_index(self) -> int:
        return self._loader.published_index

    def _identity(self, storage: NodeStorage) -> BrokerIdentity:
        return BrokerIdentity(
            cluster_id=storage.cluster_id,
            broker_id=self._config.node_id,
            incarnation_id=UUID(bytes=self._world.entropy.bytes(16), version=4),
            endpoints=tuple(
                Endpoint(listener=listener.name, host=listener.host, port=listener.port)
                for listener in self._config.advertised_listeners
            ),
            rack=self._config.rack,
            directory_ids=tuple(directory.directory_id for directory in storage.directories),
            # A process that is killed loses nothing, but the whole machine may have gone with it.
            may_have_lost_records=self._config.log.durability is Durability.PAGE_CACHE and bool(self._not_closed),
        )

    def _surroundings(self) -> PartitionSurroundings:
        return PartitionSurroundings(
            broker_id=self._config.node_id,
            replica_lag_time_max_ms=self._config.replication.lag_time_max_ms,
            off_loop=True,
            sync_before_ack=self._config.log.durability is Durability.FSYNC,
            monotonic_ms=self._world.clock.monotonic_ms,
            wall_ms=self._world.clock.wall_ms,
            request_sync=self._syncer.request,
            admit=self._disk_space.admit,
            propose_isr=self._isr_proposals.propose,
            directory_failed=self._failures.partition_directory_failed,
            replica_is_rotten=self._failures.replica_is_rotten,
            is_active=self._is_active,
        )

    def _make_fetcher(self, leader_id: BrokerId) -> ReplicaFetcher:
        return ReplicaFetcher(
            broker_id=self._config.node_id,
            broker_epoch=self._broker_epoch,
            leader_id=leader_id,
            peer=lambda: self._replication_peer(leader_id),
            partitions=self._partitions,
            config=self._config.replication,
            lost=self._lost_leaders.lost,
            found=self._lost_leaders.found,
        )

    def _replication_peer(self, broker_id: BrokerId) -> ReplicationPeer | None:
        """The broker at the address under which it is registered now."""
        registration = self._loader.image.broker(broker_id)
        endpoint = None if registration is None else registration.endpoint(GRPC)
        if endpoint is None:
            return None
        address = host_and_port(endpoint.host, endpoint.port)
        return ReplicationPeer(address, self._connections.channel(address))


def _log_directories(config: NodeConfig, storage: NodeStorage) -> LogDirectories:
    unusable = {
        str(directory): reason for directory, reason in storage.unusable.items() if directory in config.log_dirs
    }
    return LogDirectories([str(directory.path) for directory in storage.directories], unusable)
