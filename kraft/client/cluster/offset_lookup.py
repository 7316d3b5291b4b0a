"""Looks up offsets at the leaders of partitions, with retries when a leadership moved."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import TypeAlias, TypeVar

from kraft.client.cluster.any_broker import ATTEMPT_MAX_MS, timed_out
from kraft.client.cluster.attempts import Attempts
from kraft.client.cluster.connections import Connections
from kraft.client.cluster.metadata_cache import MISSING_TOPIC_GRACE_MS, MetadataCache
from kraft.client.model.values import FoundOffset
from kraft.client.sans_io.backoff import Backoff
from kraft.model.errors import ErrorCode, Refusal, error_code
from kraft.model.ids import TopicPartition
from kraft.model.list_offsets import READ_COMMITTED
from kraft.rpc.calls import LIST_OFFSETS
from kraft.rpc.peers import Unreachable
from kraft.runtime.clock import Clock
from kraft.wire.schema.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

Outcome: TypeAlias = FoundOffset | Refusal | Unreachable
Result = TypeVar("Result")


class OffsetLookup:
    """Sends ListOffsets to the leaders. Has no state of its own, so calls may run at the same time."""

    def __init__(
        self, connections: Connections, metadata: MetadataCache, backoff: Backoff, clock: Clock, reads_committed: bool
    ) -> None:
        """With `reads_committed`, the last stable offset is the end of a partition."""
        self._connections = connections
        self._metadata = metadata
        self._backoff = backoff
        self._clock = clock
        self._isolation_level = READ_COMMITTED if reads_committed else 0

    async def find(
        self, timestamps_ms: Mapping[TopicPartition, int], timeout_ms: int
    ) -> dict[TopicPartition, FoundOffset]:
        """Return each partition's first record at or after the timestamp, which may be special (EARLIEST_TIMESTAMP).

        Raises NoBrokerReachable with the leader's address, or a Refusal with the partition: at once if retries do not
        end it, otherwise when the timeout passes.
        """
        found: dict[TopicPartition, FoundOffset] = {}
        async with aclosing(self.find_each(timestamps_ms, timeout_ms)) as outcomes:
            async for partition, outcome in outcomes:
                if not isinstance(outcome, FoundOffset):
                    raise outcome
                found[partition] = outcome
        return found

    async def find_each(
        self, timestamps_ms: Mapping[TopicPartition, int], timeout_ms: int
    ) -> AsyncGenerator[tuple[TopicPartition, Outcome], None]:
        """Yield what `find` returns or raises for each partition; one without a leader does not delay the others.

        Raises Unreachable, or a Refusal, if no broker answers for any.
        """
        began_ms = self._clock.monotonic_ms()
        deadline_ms = began_ms + timeout_ms
        refused = await self._metadata.look_up({partition.topic for partition in timestamps_ms}, timeout_ms)
        missing: dict[TopicPartition, int] = {}
        for partition, timestamp_ms in timestamps_ms.items():
            if (refusal := refused.get(partition.topic)) is not None:
                yield partition, refusal
            else:
                missing[partition] = timestamp_ms
        attempts = Attempts(self._backoff, self._clock, deadline_ms)
        while missing:
            may_be_new = self._clock.monotonic_ms() < began_ms + MISSING_TOPIC_GRACE_MS
            final, passing = await self._ask_leaders(missing, deadline_ms, may_be_new=may_be_new)
            for partition, outcome in final.items():
                del missing[partition]
                yield partition, outcome
            if not missing:
                return
            if not attempts.may_follow(next(iter(passing.values()))):
                for partition, error in passing.items():
                    yield partition, timed_out(error, timeout_ms)
                return
            self._metadata.request_refresh()
            await attempts.pause()

    async def _ask_leaders(
        self, missing: Mapping[TopicPartition, int], deadline_ms: int, *, may_be_new: bool
    ) -> tuple[dict[TopicPartition, Outcome], dict[TopicPartition, Refusal | Unreachable]]:
        """Ask every leader once. Return the final outcomes, and the errors of those to retry.

        Partitions that the metadata lacks are among the latter if they `may_be_new`.
        """
        final: dict[TopicPartition, Outcome] = {}
        passing: dict[TopicPartition, Refusal | Unreachable] = {}
        by_leader: dict[str, dict[TopicPartition, ListOffsetsPartition]] = {}
        for partition, timestamp_ms in missing.items():
            count = self._metadata.partition_count(partition.topic)
            leader = self._metadata.leader(partition)
            if count is not None and not 0 <= partition.partition < count:
                self._metadata.any_broker.ask_another()
                (passing if may_be_new else final)[partition] = no_such_partition(partition, count)
            elif leader is None:
                refusal = self._metadata.refusal_of(partition.topic) or self._metadata.no_leader(partition)
                is_gone = refusal.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                (final if is_gone and not may_be_new else passing)[partition] = refusal
            else:
                by_leader.setdefault(leader.address, {})[partition] = ListOffsetsPartition(
                    partition_index=partition.partition, current_leader_epoch=leader.epoch, timestamp=timestamp_ms
                )
        answers = await asyncio.gather(
            *(self._ask(address, asked, deadline_ms) for address, asked in by_leader.items())
        )
        sort_out(answers, final, passing)
        return final, passing

    async def _ask(
        self, address: str, asked: Mapping[TopicPartition, ListOffsetsPartition], deadline_ms: int
    ) -> dict[TopicPartition, Outcome]:
        """Return an outcome for each partition, whatever the leader answers."""
        left_ms = max(1, min(ATTEMPT_MAX_MS, deadline_ms - self._clock.monotonic_ms()))
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for partition, wanted in asked.items():
            topics.setdefault(partition.topic, []).append(wanted)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=self._isolation_level,
            topics=tuple(ListOffsetsTopic(name=name, partitions=tuple(each)) for name, each in topics.items()),
        )
        try:
            response = await self._connections.peer(address).call(LIST_OFFSETS, request, left_ms / 1000)
        except Unreachable as error:
            return dict.fromkeys(asked, error)
        except Refusal as refusal:
            return {each: Refusal(refusal.error_code, f"{each}: {refusal.message}") for each in asked}
        outcomes: dict[TopicPartition, Outcome] = dict.fromkeys(
            asked, Unreachable(address, "its response lacks the partition")
        )
        for topic in response.topics:
            for result in topic.partitions:
                partition, code = TopicPartition(topic.name, result.partition_index), error_code(result.error_code)
                if partition not in asked:
                    continue
                if code is not ErrorCode.NONE:
                    outcomes[partition] = Refusal(code, f"an offset of {partition} could not be looked up")
                else:
                    epoch = asked[partition].current_leader_epoch
                    outcomes[partition] = FoundOffset(result.offset, result.timestamp, result.leader_epoch, epoch)
        return outcomes


def sort_out(
    answers: Iterable[Mapping[TopicPartition, Result | Refusal | Unreachable]],
    final: dict[TopicPartition, Result | Refusal | Unreachable],
    passing: dict[TopicPartition, Refusal | Unreachable],
) -> None:
    """Add each outcome that leaders answered to the final ones, or to those to retry."""
    for answer in answers:
        for partition, outcome in answer.items():
            if isinstance(outcome, Unreachable) or (isinstance(outcome, Refusal) and outcome.error_code.retriable):
                passing[partition] = outcome
            else:
                final[partition] = outcome


def no_such_partition(partition: TopicPartition, count: int) -> Refusal:
    """Return the error for a partition number that the topic does not have."""
    return Refusal(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"topic {partition.topic!r} has partitions 0 to {count - 1}, not {partition.partition}",
    )
