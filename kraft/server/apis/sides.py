"""What the handlers of APIs are made from, at a broker and at a controller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping

from msgspec import Struct

from kraft.metadata.broker_configs import TopicDefaultsInEffect
from kraft.metadata.config_decisions import NodeConfigs
from kraft.metadata.group_configs import GroupDefaults
from kraft.metadata.image import MetadataImage
from kraft.metadata.topic_decisions import ControllerDefaults
from kraft.model.ids import BrokerId, LogDirectory
from kraft.runtime.entropy import Entropy
from kraft.server.config.keys import BY_NAME
from kraft.server.config.node_config import NodeConfig
from kraft.server.coordinator.internal_topic import InternalTopic
from kraft.server.handlers.awaited_replicas import AwaitedReplicasHandler
from kraft.server.handlers.broker_handlers import GroupHandlers, RecordHandlers
from kraft.server.handlers.decisions import Decisions
from kraft.server.handlers.features import FeaturesOfOthers
from kraft.server.handlers.forwarding import Forwarder
from kraft.server.handlers.producer_ids import ProducerIdHandler
from kraft.server.handlers.transactions import TransactionsHandler
from kraft.server.handlers.txn_markers import TxnMarkersHandler
from kraft.server.kafka_listener.fetch_sessions import SharedFetches
from kraft.server.loop.slow_reads import SlowReads
from kraft.server.replica.log_directories import LogDirectories
from kraft.server.replica.partitions import Partitions
from kraft.server.replica.replica_mover import ReplicaMover


class Side(Struct, frozen=True, kw_only=True):
    """What the handlers of a broker and those of a controller are both made from."""

    config: NodeConfig
    topic_defaults: TopicDefaultsInEffect
    image: Callable[[], MetadataImage]
    """The metadata that this broker has applied, or that is committed."""

    index: Callable[[], int]
    """Index of the last entry in it."""

    def node_configs(self, image: MetadataImage) -> NodeConfigs:
        """Return what config alterations are checked together with."""
        return NodeConfigs(
            topics=self.topic_defaults(image),
            settings=self.config.settings,
            keys=BY_NAME,
            groups=GroupDefaults(default=self.config.groups.consumer, bounds=self.config.group_bounds),
        )


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

    shortage_of: Callable[[LogDirectory], str]
    """Returns why appends to a directory are refused; empty while they are not."""

    awaited_replicas: AwaitedReplicasHandler
    records_deleted: Callable[[], None]
    """Called after DeleteRecords, so that whole segments can be removed at once."""

    transactions: TransactionsHandler
    """One for all listeners: it lets long patterns of one client at a time have a turn."""

    markers: TxnMarkersHandler
    producer_ids: ProducerIdHandler
    listener: str
    """Name of the listener, whose addresses are in answers."""

    internal_topics: Mapping[int, InternalTopic]
    """Those of the coordinators, by CoordinatorType."""

    known_to_lead: Callable[[Iterable[str]], Awaitable[None]]
    """Waits briefly until the leaders of these topics have answered, or those lost are replaced."""

    groups: GroupHandlers
    records: RecordHandlers
    kafka_fetches: SharedFetches


class ControllerSide(Side, frozen=True, kw_only=True):
    """What the handlers of a controller are made from."""

    decisions: Decisions
    entropy: Entropy
    features_of_others: FeaturesOfOthers
    has_live_session: Callable[[BrokerId], bool]

    def new_topic_defaults(self, image: MetadataImage) -> ControllerDefaults:
        """Return what a topic has that its request leaves open."""
        topics = self.config.topics
        return ControllerDefaults(
            partitions=topics.partitions,
            replication_factor=topics.replication_factor,
            configs=self.topic_defaults(image),
        )
