"""A row of the table of APIs, and what its handlers are made from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct

from kraft.metadata.broker_configs import TopicDefaultsInEffect
from kraft.metadata.config_decisions import NodeConfigs
from kraft.metadata.group_configs import GroupDefaults
from kraft.metadata.image import MetadataImage
from kraft.metadata.topic_decisions import ControllerDefaults
from kraft.model.errors import Refusal
from kraft.rpc.call import Call
from kraft.runtime.entropy import Entropy
from kraft.server.config.keys import BY_NAME
from kraft.server.config.node_config import NodeConfig
from kraft.server.coordinator.internal_topic import InternalTopic
from kraft.server.handlers.broker_handlers import GroupHandlers
from kraft.server.handlers.decisions import Decisions
from kraft.server.handlers.features import FeaturesOfOthers
from kraft.server.handlers.forwarding import Forwarder
from kraft.server.handlers.producer_ids import ProducerIdHandler
from kraft.server.handlers.transactions import TransactionsHandler
from kraft.server.handlers.txn_markers import TxnMarkersHandler
from kraft.server.replica.log_directories import LogDirectories
from kraft.server.replica.partitions import Partitions
from kraft.server.replica.replica_mover import ReplicaMover
from kraft.wire.api_keys import ApiKey
from kraft.wire.api_versions import advertised_versions
from kraft.wire.versions import NO_VERSION, Versions

Request = TypeVar("Request")
Response = TypeVar("Response")

Handler = Callable[[Request], Awaitable[Response]]
"""Answers a request, or raises Refusal to refuse it as a whole."""


class DecidedBy(Enum):
    BROKER = "the broker that is asked"
    LEADER = "the leader of each partition"
    COORDINATOR = "the coordinator of the group or transactional id"
    CONTROLLER = "the active controller, to which brokers forward"


class VisibleTo(Enum):
    ANYBODY = "clients and nodes"
    NODES = "nodes of this cluster only"


class Resource(Enum):
    """What a permission is for, with Kafka's names. Of a cluster there is one; the others are named in the request."""

    CLUSTER = "cluster"
    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional id"


class Operation(Enum):
    """What a permission allows, with Kafka's names."""

    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"
    CLUSTER_ACTION = "cluster action"
    DESCRIBE_CONFIGS = "describe configs"
    ALTER_CONFIGS = "alter configs"
    IDEMPOTENT_WRITE = "idempotent write"


class Permission(NamedTuple):
    """What a caller needs. Nothing enforces it yet."""

    operation: Operation
    resource: Resource


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

    directories: LogDirectories
    mover: ReplicaMover
    """Those of replicas between the directories."""

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


class ControllerSide(Side, frozen=True, kw_only=True):
    """What the handlers of a controller are made from."""

    decisions: Decisions
    entropy: Entropy
    features_of_others: FeaturesOfOthers

    def new_topic_defaults(self, image: MetadataImage) -> ControllerDefaults:
        """Return what a topic has that its request leaves open."""
        topics = self.config.topics
        return ControllerDefaults(
            partitions=topics.partitions,
            replication_factor=topics.replication_factor,
            configs=self.topic_defaults(image),
        )


class Api(Struct, Generic[Request, Response], frozen=True, kw_only=True):
    """An API: Kafka's, ours over gRPC, or both with the same messages and the same handler."""

    key: ApiKey | None = None
    """Its key in Kafka's protocol; None if only gRPC has it."""

    call: Call[Request, Response] | None = None
    """Its gRPC call; None if only Kafka's protocol has it."""

    decided_by: DecidedBy
    handler: Callable[[BrokerSide], Callable[..., Awaitable[Response]]]
    """Returns the handler of a broker. If the controller decides, that forwards."""

    takes_context: bool = False
    """The handler also gets a RequestContext: the decision depends on the version, or on who asks."""

    at_controller: Callable[[ControllerSide], Handler[Request, Response]] | None = None
    """Returns the handler of a controller, which serves the gRPC call to other nodes. None: controllers have none."""

    needs: tuple[Permission, ...]
    """Those for the kinds of resources that a request names; empty if anybody may call it."""

    visible_to: VisibleTo = VisibleTo.ANYBODY
    """Nodes prove over gRPC that they belong to the cluster: to Kafka's clients, what only nodes see is refused."""

    # --- what only Kafka's protocol does ---

    refused: Callable[[Request, Refusal], Response] | None = None
    """Returns the response to a refused request. None: its `error_code` and `error_message` say it."""

    from_version: Callable[[Request, int], Request] | None = None
    """Returns the request that one of an older version means, if it is not just one with fewer fields."""

    to_version: Callable[[Request, Response, int], Response] | None = None
    """Returns what a client of an older version expects, if it is not just a response with fewer fields."""

    @property
    def versions(self) -> Versions:
        """The versions that Kafka's clients see."""
        return NO_VERSION if self.key is None else advertised_versions(self.key)
