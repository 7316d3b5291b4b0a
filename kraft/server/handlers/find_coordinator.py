"""FindCoordinator: the brokers that coordinate groups and transactions, from the metadata that this broker has applied.

A group belongs to the partition of `__consumer_offsets` that its id selects, a transactional id to one of
`__transaction_state`. It is coordinated where that is led.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraft.coordinator.group_partition import partition_of
from kraft.coordinator.groups.limits import group_id_error
from kraft.coordinator.transactions.refusals import id_error
from kraft.metadata.image import CurrentImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.find_coordinator import CoordinatorType
from kraft.server.cluster.leader_checks import KnownToLead
from kraft.server.coordinator.internal_topic import InternalTopic
from kraft.server.loop.turns import Turns
from kraft.wire.declaration import replace
from kraft.wire.schema.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

_MANY_FROM: Final = 4
"""First version with several keys (KIP-699)."""

_NO_ERROR: Final = "NONE"
"""The message of a response in versions 1 to 3 without an error, as in Kafka."""

KEYS_AT_ONCE: Final = 500
"""Keys looked up before other tasks have their turn."""


class FindCoordinatorHandler:
    """Answers the clients of `listener` with that listener's addresses."""

    def __init__(
        self, image: CurrentImage, listener: str, topics: Mapping[int, InternalTopic], known_to_lead: KnownToLead
    ) -> None:
        """`topics` have the state of each CoordinatorType, and are created when one is looked for."""
        self._image = image
        self._listener = listener
        self._topics = topics
        self._known_to_lead = known_to_lead

    async def handle(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        """Return the coordinator of each key, or its error code."""
        if (topic := self._topics.get(request.key_type)) is not None:
            await self._known_to_lead((topic.name,))
        turns, found = Turns(KEYS_AT_ONCE), []
        for key in request.coordinator_keys:
            try:
                found.append(self._find(request.key_type, key))
            except Refusal as refusal:
                found.append(refused_key(key, refusal))
            await turns.done_with_id(key)
        return FindCoordinatorResponse(coordinators=tuple(found))

    def _find(self, key_type: int, key: str) -> Coordinator:
        internal = self._topics.get(key_type)
        if internal is None:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"coordinators of type {_name(key_type)} are not supported")
        refusal = group_id_error(key) if key_type == CoordinatorType.GROUP else id_error(key)
        if refusal is not None:
            raise refusal
        image = self._image()
        topic = image.topic(internal.name)
        if topic is None:
            internal.create()
            raise internal.missing()
        number = partition_of(key, len(topic.partitions))
        leader_id = topic.partitions[number].leader
        leader = next((broker for broker in image.alive_brokers() if broker.broker_id == leader_id), None)
        endpoint = None if leader is None else leader.endpoint(self._listener)
        if endpoint is None:
            missing = "no leader" if leader is None else f"a leader without a listener {self._listener}"
            problem = f"{internal.name}-{number} has {missing}; retry"
            raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, problem)
        return Coordinator(
            key=key,
            node_id=leader_id,
            host=endpoint.host,
            port=endpoint.port,
            error_code=ErrorCode.NONE,
            error_message="",
        )


def refused_key(key: str, refusal: Refusal) -> Coordinator:
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=refusal.error_code, error_message=refusal.message
    )


def _name(key_type: int) -> str:
    return CoordinatorType(key_type).name.lower() if key_type in list(CoordinatorType) else str(key_type)


# --- Kafka's protocol --------------------------------------------------------------------------------------------


def from_version(request: FindCoordinatorRequest, version: int) -> FindCoordinatorRequest:
    """Return the request with its only key among the keys, where a version has one."""
    return request if version >= _MANY_FROM else replace(request, coordinator_keys=(request.key,))


def to_version(_: FindCoordinatorRequest, found: FindCoordinatorResponse, version: int) -> FindCoordinatorResponse:
    """Return the only coordinator in the response itself, where a version has one."""
    if version >= _MANY_FROM:
        return found
    (only,) = found.coordinators
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message or _NO_ERROR,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )
