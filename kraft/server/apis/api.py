"""A row of the table of APIs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from enum import Enum
from typing import Any, Generic, TypeVar

from msgspec import Struct

from kraft.rpc.call import AnyCall, Handler
from kraft.server.access.data_audit import Uses
from kraft.server.access.guard import Guard, Permission
from kraft.server.apis.audited import Audited
from kraft.server.apis.broker_side import BrokerSide
from kraft.server.apis.mutations import Mutations
from kraft.server.apis.sides import ControllerSide, Side
from kraft.server.kafka_listener.handled import FromVersion, Misdirected, Refused, ToVersion
from kraft.server.kafka_listener.requests import Api as KafkaApi
from kraft.wire.api_keys import ApiKey
from kraft.wire.api_versions import advertised_versions
from kraft.wire.versions import NO_VERSION, Versions

Request = TypeVar("Request")
Response = TypeVar("Response")


AtController = Callable[[ControllerSide], Handler[Request, Response]]
"""Returns the handler of a controller."""


class DecidedBy(Enum):
    BROKER = "the broker that is asked"
    LEADER = "the leader of each partition"
    COORDINATOR = "the coordinator of the group or transactional id"
    CONTROLLER = "the active controller, to which brokers forward"


class VisibleTo(Enum):
    ANYBODY = "clients and nodes"
    NODES = "nodes of this cluster only"


class Api(Struct, Generic[Request, Response], frozen=True, kw_only=True):
    """An API: Kafka's, ours over gRPC, or both with the same messages and the same handler."""

    key: ApiKey | None = None
    """Its key in Kafka's protocol; None if only gRPC has it."""

    call: AnyCall | None = None
    """Its gRPC call; None if only Kafka's protocol has it."""

    decided_by: DecidedBy
    handler: Callable[[BrokerSide], Callable[..., Awaitable[Response]]]
    """Returns the handler of a broker. If the controller decides, that forwards."""

    takes_context: bool = False
    """The handler also gets a RequestContext: the decision depends on the version, or on who asks."""

    at_controller: AtController[Request, Response] | None = None
    """Returns the handler of a controller, which serves the gRPC call to other nodes. None: controllers have none."""

    needs: tuple[Permission, ...]
    """Those for the kinds of resources that a request names; empty if anybody may call it."""

    guard: Callable[[Side], Guard] | None = None
    """Returns what asks whether the caller may. None: a request needs all of `needs`, for the cluster, or for the
    resources that its fields name."""

    audited: Audited | None = None
    """What the audit says of each call. None: administrators change nothing with it, and only refusals are noted."""

    uses: Uses | None = None
    """How it uses data, which the audit says where that is wanted. None: it uses none that anybody wants to know of."""

    mutations: Mutations[Any, Any] | None = None
    """What the quota of changes to topics counts. None: the API changes none."""

    visible_to: VisibleTo = VisibleTo.ANYBODY
    """Nodes prove over gRPC that they belong to the cluster: to Kafka's clients, what only nodes see is refused."""

    # --- what only Kafka's protocol does ---

    misdirected: Callable[[BrokerSide], Misdirected[Response]] | None = None
    """Returns what tells the partitions of a response that other brokers lead. A connection on which a request for
    these is only repeated is closed (docs/adr/0045)."""

    kafka_handler: Callable[[BrokerSide], KafkaApi] | None = None
    """Returns what answers Kafka's messages, where the handler takes and gives values of its own (ADR 53), and then
    does all that follows here.
    """

    refused: Refused[Request, Response] | None = None
    """None: `error_code` and `error_message` of the response say it."""

    from_version: FromVersion[Request] | None = None
    """None: it is just one with fewer fields."""

    to_version: ToVersion[Request, Response] | None = None
    """None: it is just a response with fewer fields."""

    reused_for: Callable[[BrokerSide, Request], Hashable | None] | None = None
    """Returns what the response depends on besides the request's version and the metadata: as long as that is equal,
    an encoded response is sent again. None: this request's is not.
    """

    @property
    def name(self) -> str:
        """Kafka's name of it, such as CreateTopics, or that of the call."""
        if self.key is not None:
            return self.key.name.title().replace("_", "")
        return "" if self.call is None else self.call.name

    @property
    def versions(self) -> Versions:
        """The versions that Kafka's clients see."""
        return NO_VERSION if self.key is None else advertised_versions(self.key)
