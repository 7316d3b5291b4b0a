"""FindCoordinator: the brokers that coordinate groups and transactions, from the metadata that this broker has applied.

A group belongs to the partition of `__consumer_offsets` that its id selects, a transactional id to one of
`__transaction_state`. It is coordinated where that is led.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from kraft.coordinator.group_partition import partition_of
from kraft.coordinator.groups.limits import group_id_error
from kraft.coordinator.transactions.refusals import id_error
from kraft.metadata.image import MetadataImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.find_coordinator import (
    Coordinator,
    CoordinatorType,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kraft.rpc.call import Served
from kraft.rpc.group_calls import FIND_COORDINATOR
from kraft.server.coordinator.internal_topic import InternalTopic
from kraft.server.loop.turns import Turns

KEYS_AT_ONCE: Final = 500
"""Keys looked up before other tasks have their turn."""


class FindCoordinatorHandler:
    """Answers the clients of `listener` with that listener's addresses."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        listener: str,
        topics: Mapping[CoordinatorType, InternalTopic],
        known_to_lead: Callable[[Iterable[str]], Awaitable[None]],
    ) -> None:
        """`topics` have the state of each type of coordinators, and are created when one is looked for.

        `known_to_lead` waits briefly until the leaders of these topics have answered, or those lost are replaced.
        """
        self._image = image
        self._listener = listener
        self._topics = topics
        self._known_to_lead = known_to_lead

    async def handle(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        """Return the coordinator of each key, or its error code."""
        if (topic := self._topics.get(request.key_type)) is not None:
            await self._known_to_lead((topic.name,))
        turns, found = Turns(KEYS_AT_ONCE), []
        for key in request.keys:
            try:
                found.append(self._find(request.key_type, key))
            except Refusal as refusal:
                found.append(Coordinator(key=key, error_code=refusal.error_code, error_message=refusal.message))
            await turns.done_with_id(key)
        return FindCoordinatorResponse(coordinators=tuple(found))

    def _find(self, key_type: CoordinatorType, key: str) -> Coordinator:
        internal = self._topics.get(key_type)
        if internal is None:
            problem = f"coordinators of type {key_type.name.lower()} are not supported yet"
            raise Refusal(ErrorCode.INVALID_REQUEST, problem)
        refusal = group_id_error(key) if key_type is CoordinatorType.GROUP else id_error(key)
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
        return Coordinator(key=key, node_id=leader_id, host=endpoint.host, port=endpoint.port)

    def served(self) -> list[Served]:
        return [FIND_COORDINATOR.served_by(self.handle)]
