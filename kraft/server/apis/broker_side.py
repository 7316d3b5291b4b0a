"""What the handlers of a broker are made from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kraft.model.callbacks import Callback
from kraft.server.access.audit import Audit
from kraft.server.access.data_audit import DataAudits
from kraft.server.apis.sides import Side
from kraft.server.client_metrics.receiving import ClientMetrics
from kraft.server.cluster.controller_client import ControllerClient
from kraft.server.cluster.fenced_lately import ListedBrokers
from kraft.server.cluster.leader_checks import KnownToLead
from kraft.server.config.values import GRPC
from kraft.server.coordinator.internal_topic import InternalTopic
from kraft.server.handlers.append_audit import AppendAuditHandler
from kraft.server.handlers.awaited_replicas import AwaitedReplicasHandler
from kraft.server.handlers.broker_handlers import GroupHandlers, OperatorHandlers, RecordHandlers
from kraft.server.handlers.describe_log_directories import ShortageOf, SyncTime
from kraft.server.handlers.forwarding import Forwarder
from kraft.server.handlers.producer_ids import ProducerIdHandler
from kraft.server.handlers.transactions import TransactionsHandler
from kraft.server.handlers.txn_markers import TxnMarkersHandler
from kraft.server.kafka_listener.fetch_sessions import SharedFetches
from kraft.server.loop.slow_reads import SlowReads
from kraft.server.loop.throttling import Throttling
from kraft.server.replica.log_directories import LogDirectories
from kraft.server.replica.partitions import Partitions
from kraft.server.replica.replica_mover import ReplicaMover
from kraft.server.replica.replication_throttles import LeaderThrottle
from kraft.wire.api_keys import ApiKey


class BrokerSide(Side, frozen=True, kw_only=True):
    """What the handlers of a broker are made from."""

    forwarder: Forwarder
    partitions: Partitions
    """The replicas here."""

    slow_reads: SlowReads
    """For clients' look-ups by time."""

    directories: LogDirectories
    mover: ReplicaMover
    """Those of replicas between the directories."""

    leader_throttle: LeaderThrottle
    shortage_of: ShortageOf
    sync_s: SyncTime
    awaited_replicas: AwaitedReplicasHandler
    records_deleted: Callback
    """Called after DeleteRecords, so that whole segments can be removed at once."""

    transactions: TransactionsHandler
    """One for all listeners: it lets long patterns of one client at a time have a turn."""

    markers: TxnMarkersHandler
    producer_ids: ProducerIdHandler
    controllers: ControllerClient
    operators: OperatorHandlers
    audit: Audit | None = None
    """None: nothing is audited."""

    data_audits: DataAudits
    """What notes uses of data at the listener, by their kind."""

    audit_topic: InternalTopic | None = None
    """None: audit lines of this broker are not in a topic."""

    audit_appends: AppendAuditHandler
    client_metrics: ClientMetrics
    listener: str
    """Name of the listener, whose addresses are in answers."""

    listed_though_fenced: ListedBrokers = tuple
    served_keys: Collection[ApiKey] = ()
    """Keys of all APIs of Kafka's listener: complete once their handlers are made."""

    internal_topics: Mapping[int, InternalTopic]
    """Those of the coordinators, by CoordinatorType."""

    known_to_lead: KnownToLead
    groups: GroupHandlers
    records: RecordHandlers
    kafka_fetches: SharedFetches
    throttling: Throttling
    """Quotas of clients, and those that wait because of one."""

    def controller_for_clients(self, brokers: Iterable[int]) -> int:
        """Return the active controller, -1 for none. Kafka's clients send what it decides to it: they are given a
        broker that forwards, the controller's own, or else this one.
        """
        active_id = self.controllers.active_id
        return active_id if self.listener == GRPC or active_id in brokers else self.config.node_id
