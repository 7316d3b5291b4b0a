"""Assembly: the handlers of all APIs, for both kinds of listeners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

from msgspec.structs import replace

from kraft.metadata.topic_names import check_not_internal
from kraft.metadata.users import NO_USERS, Users
from kraft.model.callbacks import Callback
from kraft.rpc.call import ServedCall
from kraft.rpc.cluster_calls import REPLICA_FETCH
from kraft.rpc.services import Service
from kraft.server.access.asker import Askers, askers_of
from kraft.server.access.data_audit import DataAudits, data_audits
from kraft.server.apis import serving
from kraft.server.apis.broker_side import BrokerSide
from kraft.server.broker.audit import BrokerAudit
from kraft.server.broker.client_logins import ClientLogins
from kraft.server.broker.coordinators import BrokerCoordinators
from kraft.server.broker.imported_quotas import QuotaImport
from kraft.server.broker.imported_users import UserImport, users_of_file
from kraft.server.broker.logs import BrokerLogs
from kraft.server.broker.metadata import BrokerMetadata
from kraft.server.broker.replicas import BrokerReplicas
from kraft.server.client_metrics.receiving import ClientMetrics
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.values import GRPC
from kraft.server.handlers.append_audit import AppendAuditHandler
from kraft.server.handlers.awaited_replicas import AwaitedReplicasHandler
from kraft.server.handlers.broker_handlers import OperatorHandlers, RecordHandlers
from kraft.server.handlers.describe_clients import DescribeClientsHandler
from kraft.server.handlers.fetch import FetchHandler
from kraft.server.handlers.forwarding import Forwarder
from kraft.server.handlers.plain_records import PlainRecordsHandler
from kraft.server.handlers.produce import ProduceHandler
from kraft.server.handlers.produce_verification import ProduceVerification
from kraft.server.handlers.producer_ids import ProducerIdHandler
from kraft.server.handlers.quorum import QuorumHandler
from kraft.server.identity.world import NodeWorld
from kraft.server.kafka_listener.apis.fetch import WAITING_PARTITIONS_MAX
from kraft.server.kafka_listener.fetch_sessions import FETCH_SESSION_ID_MAX, FetchSessions, SharedFetches
from kraft.server.kafka_listener.request_times import CallTimes
from kraft.server.kafka_listener.requests import Api
from kraft.server.loop.budget import Budget
from kraft.server.loop.slow_reads import SlowReads
from kraft.server.loop.threads import shut_down
from kraft.server.loop.throttling import Throttling
from kraft.server.replica.waiting_appends import WaitingAppends
from kraft.wire.api_keys import ApiKey


class BrokerApis:
    def __init__(
        self,
        config: NodeConfig,
        world: NodeWorld,
        coordinators: BrokerCoordinators,
        metadata: BrokerMetadata,
        logs: BrokerLogs,
        replicas: BrokerReplicas,
        waiting_appends: WaitingAppends,
    ) -> None:
        self._config = config
        self._world = world
        self._metadata = metadata
        self._logs = logs
        self._replicas = replicas
        self._coordinators = coordinators
        self._waiting_appends = waiting_appends
        self._users = NO_USERS
        self._askers = askers_of(config.access, metadata.image)
        if self._askers is not None:
            coordinators.groups.show_topics(self._askers.of_groups.describable)
        self.throttling = Throttling(world.clock.monotonic_ms, config.quota_windows.client_quotas())
        self.call_times = CallTimes()
        self.clients = DescribeClientsHandler()
        self._push_thread = ThreadPoolExecutor(1, thread_name_prefix="client-metrics")
        self.client_metrics = ClientMetrics(
            metadata.image,
            self._push_thread,
            world.clock.monotonic_ms,
            config.metrics.telemetry_bytes_max,
            is_received=config.metrics.address is not None,
        )
        self._when_users_change: list[Callback] = []
        self._audit_appends = AppendAuditHandler(self._produce_handler(_any_topic), world.clock.wall_ms)
        self.audit = BrokerAudit(config, world, metadata, self._audit_appends)
        # For clients' long reads: look-ups by time, of aborted transactions, plain records.
        self._read_thread = ThreadPoolExecutor(1, thread_name_prefix="slow-reads")
        self._slow_reads = SlowReads(self._read_thread)
        self._kafka_fetches = SharedFetches(
            FetchSessions(lambda: 1 + int.from_bytes(world.entropy.bytes(4), "big") % FETCH_SESSION_ID_MAX),
            Budget(WAITING_PARTITIONS_MAX),
            world.clock.monotonic_ms,
        )

    def grpc_services(self) -> list[Service]:
        """Return the services of the GRPC listener."""
        return [Service(*self.grpc_calls())]

    def grpc_calls(self) -> list[ServedCall]:
        return serving.grpc_calls(self._side, self.call_times)

    def replica_fetch(self) -> ServedCall:
        """Return the exchange that followers use, on connections of their own where they can."""
        return serving.grpc_call(REPLICA_FETCH, self._side, self.call_times)

    def kafka_apis(self, listener: str) -> Mapping[ApiKey, Api]:
        """Return the APIs of a Kafka listener: the same for all, except for the addresses in their responses."""
        apis: dict[ApiKey, Api] = {}
        side = replace(
            self._side,
            listener=listener,
            askers=self._askers_at(listener),
            data_audits=self._data_audits_at(listener),
            listed_though_fenced=self._metadata.fenced_lately.brokers,
            served_keys=apis.keys(),
        )
        apis.update(serving.kafka_apis(side))
        return apis

    @cached_property
    def logins(self) -> ClientLogins:
        return ClientLogins(self._config, self._world, lambda: self._users, self.audit.note)

    @property
    def fetches(self) -> SharedFetches:
        """Sessions and waiting partitions of the fetches of Kafka's clients."""
        return self._kafka_fetches

    def user_import(self) -> UserImport:
        return UserImport(users_of_file(self._config), self._forwarder, self._world.entropy)

    def quota_import(self) -> QuotaImport:
        return QuotaImport(self._config.default_quotas, self._forwarder)

    def when_users_change(self, users_changed: Callback) -> None:
        """Call this whenever users of the metadata have changed."""
        self._when_users_change.append(users_changed)

    def users_changed(self, users: Users) -> None:
        """Log clients in as these users from now on."""
        self._users = users
        for users_changed in self._when_users_change:
            users_changed()

    async def close_threads(self) -> None:
        self.logins.close()
        await shut_down(self._read_thread, self._push_thread, drops_waiting=True)
        await self.audit.close()

    def _askers_at(self, listener: str) -> Askers | None:
        if self._askers is None or self.audit.note is None:
            return self._askers
        return self._askers.told_to(self.audit.note, listener)

    def _data_audits_at(self, listener: str) -> DataAudits:
        image, now_ms = self._metadata.image, self._world.clock.monotonic_ms
        return data_audits(
            self._config.audit, self.audit.note, listener, lambda name: image().topic(name) is not None, now_ms
        )

    @cached_property
    def _side(self) -> BrokerSide:
        config, metadata, transactions = self._config, self._metadata, self._coordinators.transactions
        return BrokerSide(
            config=config,
            topic_defaults=config.topic_defaults(),
            image=metadata.image,
            index=metadata.published_index,
            served_keys=serving.KAFKA_KEYS,
            entropy=self._world.entropy,
            askers=self._askers_at(GRPC),
            audit=self.audit.note,
            data_audits=self._data_audits_at(GRPC),
            audit_topic=self.audit.topic,
            audit_appends=self._audit_appends,
            forwarder=self._forwarder,
            partitions=self._logs.partitions,
            slow_reads=self._slow_reads,
            directories=self._logs.directories,
            mover=self._replicas.mover,
            leader_throttle=self._replicas.throttles.leader,
            shortage_of=self._logs.disk_space.shortage,
            sync_s=self._logs.syncer.latest_s,
            awaited_replicas=self._awaited_replicas,
            records_deleted=self._logs.maintenance.records_deleted,
            controllers=metadata.controllers,
            operators=OperatorHandlers(
                quorum=QuorumHandler(metadata.controllers, config.node_id, self._world.clock.wall_ms),
                clients=self.clients,
            ),
            client_metrics=self.client_metrics,
            listener=GRPC,
            internal_topics=self._coordinators.topics,
            known_to_lead=self._replicas.leader_checks.known_to_lead,
            groups=self._coordinators.group_handlers(),
            records=self._record_handlers(),
            kafka_fetches=self._kafka_fetches,
            throttling=self.throttling,
            transactions=transactions.handler,
            markers=transactions.markers,
            producer_ids=ProducerIdHandler(transactions.producer_ids, transactions.coordinators),
        )

    @cached_property
    def _forwarder(self) -> Forwarder:
        return Forwarder(self._metadata.loader, self._metadata.controllers)

    @cached_property
    def _awaited_replicas(self) -> AwaitedReplicasHandler:
        return AwaitedReplicasHandler(self._logs.partitions, self._replicas.lagging_followers.awaited_by_produce)

    def _produce_handler(self, check_topic: Callable[[str], None]) -> ProduceHandler:
        partitions = self._logs.partitions
        verification = ProduceVerification(
            partitions,
            self._coordinators.transactions.verifier.verify,
            is_enabled=self._config.transaction_verification.enabled,
        )
        return ProduceHandler(partitions, self._waiting_appends, verification, self._awaited_replicas, check_topic)

    def _record_handlers(self) -> RecordHandlers:
        produce = self._produce_handler(check_not_internal)
        fetch = FetchHandler(self._logs.partitions, self._slow_reads)
        return RecordHandlers(
            produce=produce,
            fetch=fetch,
            plain=PlainRecordsHandler(produce, fetch, self._slow_reads, self._world.clock.wall_ms),
        )


def _any_topic(_: str) -> None:
    """Brokers write to internal topics."""
