"""Calls about partitions to the brokers that lead them, or to one broker, with retries when a leadership moved."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Generic, TypeAlias, TypeVar

from msgspec import Struct, field

from kraft.client.cluster.any_broker import ATTEMPT_MAX_MS, NoBrokerReachable, timed_out
from kraft.client.cluster.attempts import Attempts
from kraft.client.cluster.connections import Connections, PeerNode
from kraft.client.cluster.metadata_cache import MISSING_TOPIC_GRACE_MS, MetadataCache
from kraft.client.sans_io.backoff import Backoff
from kraft.metadata.metadata_requests import metadata_of
from kraft.model.errors import ErrorCode, Refusal, error_code
from kraft.model.ids import TopicPartition
from kraft.rpc.peers import Unreachable
from kraft.runtime.clock import Clock
from kraft.wire.schema.metadata import MetadataResponse, MetadataResponseTopic

Item = TypeVar("Item")

Ask: TypeAlias = Callable[
    [PeerNode, Sequence[TopicPartition], float], Awaitable[Mapping[TopicPartition, Item | Refusal]]
]
"""Sends one request about partitions; takes the timeout in seconds. Raises Refusal or Unreachable."""

PARTITIONS_AT_ONCE: Final = 500
"""Partitions in one request."""


class _Attempt(Struct, Generic[Item]):
    """Outcome of one attempt."""

    final: dict[TopicPartition, Item | Refusal] = field(default_factory=dict)
    passing: dict[TopicPartition, Refusal | Unreachable] = field(default_factory=dict)
    """Errors of the partitions to try again."""


class LeaderCalls:
    """Has no state of its own, so calls may run at the same time."""

    def __init__(self, connections: Connections, metadata: MetadataCache, backoff: Backoff, clock: Clock) -> None:
        self._connections = connections
        self._metadata = metadata
        self._backoff = backoff
        self._clock = clock

    async def of_each(
        self, partitions: Iterable[TopicPartition], ask: Ask[Item], timeout_ms: int, broker_id: int | None = None
    ) -> dict[TopicPartition, Item | Refusal | NoBrokerReachable]:
        """Return what the leader of each partition answers, or what this broker answers, or the partition's error.

        Raises BROKER_NOT_AVAILABLE for a broker that is not in service, NoBrokerReachable if none returns the metadata.
        """
        began_ms = self._clock.monotonic_ms()
        deadline_ms = began_ms + timeout_ms
        asked = list(dict.fromkeys(partitions))
        outcomes: dict[TopicPartition, Item | Refusal | NoBrokerReachable] = {}
        attempts = Attempts(self._backoff, self._clock, deadline_ms)
        while missing := [each for each in asked if each not in outcomes]:
            topics = sorted({each.topic for each in missing})
            cluster = await self._metadata.fetch(metadata_of(topics), self._left_ms(deadline_ms))
            attempt = await self._attempt(cluster, missing, ask, deadline_ms, broker_id)
            outcomes.update(attempt.final)
            for partition, error in attempt.passing.items():
                until_ms = began_ms + MISSING_TOPIC_GRACE_MS if _is_missing(error) else deadline_ms
                if not attempts.may_follow(error, until_ms):
                    outcomes[partition] = timed_out(error, timeout_ms)
            if len(outcomes) < len(asked):
                await attempts.pause()
        return {each: outcomes[each] for each in asked}

    async def _attempt(
        self,
        cluster: MetadataResponse,
        missing: Sequence[TopicPartition],
        ask: Ask[Item],
        deadline_ms: int,
        broker_id: int | None,
    ) -> _Attempt[Item]:
        addresses = {each.node_id: f"{each.host}:{each.port}" for each in cluster.brokers}
        if broker_id is not None and broker_id not in addresses:
            raise Refusal(ErrorCode.BROKER_NOT_AVAILABLE, f"there is no broker {broker_id} in service")
        topics = {each.name: each for each in cluster.topics}
        attempt: _Attempt[Item] = _Attempt()
        by_address: dict[str, list[TopicPartition]] = {}
        for partition in missing:
            leader_id = _leader(topics.get(partition.topic), partition)
            if isinstance(leader_id, Refusal):
                (attempt.passing if leader_id.error_code.retriable else attempt.final)[partition] = leader_id
            elif (chosen := leader_id if broker_id is None else broker_id) in addresses:
                by_address.setdefault(addresses[chosen], []).append(partition)
            else:
                attempt.passing[partition] = Refusal(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader")
        answers = await asyncio.gather(*(self._answers(*each, ask, deadline_ms) for each in by_address.items()))
        for partition, outcome in (each for answer in answers for each in answer.items()):
            if isinstance(outcome, Unreachable) or (isinstance(outcome, Refusal) and _is_passing(outcome, broker_id)):
                attempt.passing[partition] = outcome
            else:
                attempt.final[partition] = outcome
        return attempt

    async def _answers(
        self, address: str, partitions: Sequence[TopicPartition], ask: Ask[Item], deadline_ms: int
    ) -> dict[TopicPartition, Item | Refusal | Unreachable]:
        """Return an outcome for each partition, whatever the broker answers."""
        outcomes: dict[TopicPartition, Item | Refusal | Unreachable] = {}
        for start in range(0, len(partitions), PARTITIONS_AT_ONCE):
            some = partitions[start : start + PARTITIONS_AT_ONCE]
            timeout_s = min(ATTEMPT_MAX_MS, self._left_ms(deadline_ms)) / 1000
            try:
                answered = await ask(self._connections.peer(address), some, timeout_s)
            except Unreachable as error:
                # The rest would wait for the same broker.
                return outcomes | dict.fromkeys(partitions[start:], error)
            except Refusal as refusal:
                outcomes |= {each: Refusal(refusal.error_code, _named(each, refusal.message)) for each in some}
            else:
                incomplete = Unreachable(address, "its response lacks the partition")
                outcomes |= {each: answered.get(each, incomplete) for each in some}
        return outcomes

    def _left_ms(self, deadline_ms: int) -> int:
        return max(1, deadline_ms - self._clock.monotonic_ms())


def _leader(topic: MetadataResponseTopic | None, partition: TopicPartition) -> int | Refusal:
    """Return the leader's id, -1 without one; a Refusal for a partition that does not exist or is not known yet."""
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic is None or topic.error_code == unknown:
        return Refusal(unknown, f"topic {partition.topic!r} does not exist")
    if topic.error_code != ErrorCode.NONE:
        code = error_code(topic.error_code)
        return Refusal(code, f"topic {partition.topic!r}: {topic.error_message or code.name}")
    leaders = {each.partition_index: each.leader_id for each in topic.partitions}
    if partition.partition not in leaders:
        last = len(leaders) - 1
        return Refusal(unknown, f"topic {partition.topic!r} has partitions 0 to {last}, not {partition.partition}")
    return leaders[partition.partition]


def _is_missing(error: Refusal | Unreachable) -> bool:
    return isinstance(error, Refusal) and error.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _is_passing(refusal: Refusal, broker_id: int | None) -> bool:
    """Return whether a retry may help. The replicas of a broker that was named stay what they are."""
    is_not_replica = refusal.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    return refusal.error_code.retriable and not (is_not_replica and broker_id is not None)


def _named(partition: TopicPartition, message: str) -> str:
    return message if str(partition) in message else f"{partition}: {message}"
