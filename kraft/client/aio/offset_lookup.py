"""Looks up offsets at the leaders of partitions, with retries when a leadership moved."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from kraft.client.any_broker import ATTEMPT_MAX_MS, NoBrokerReachable
from kraft.client.metadata_cache import MetadataCache
from kraft.client.ports import Connections
from kraft.client.sans_io.backoff import Backoff
from kraft.client.values import FoundOffset
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.model.list_offsets import ListOffsetsPartition, ListOffsetsRequest
from kraft.rpc.calls import LIST_OFFSETS
from kraft.rpc.peers import Unreachable
from kraft.runtime.clock import Clock


class OffsetLookup:
    """Sends ListOffsets to the leaders. Has no state of its own, so calls may run at the same time."""

    def __init__(self, connections: Connections, metadata: MetadataCache, backoff: Backoff, clock: Clock) -> None:
        self._connections = connections
        self._metadata = metadata
        self._backoff = backoff
        self._clock = clock

    async def find(
        self, timestamps_ms: Mapping[TopicPartition, int], timeout_ms: int
    ) -> dict[TopicPartition, FoundOffset]:
        """Return each partition's first record at or after the timestamp, which may be special (EARLIEST_TIMESTAMP).

        Raises NoBrokerReachable with the leader's address, or a Refusal with the partition, when the timeout passes.
        """
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        for topic in {partition.topic for partition in timestamps_ms}:
            await self._metadata.topic(topic, max(1, deadline_ms - self._clock.monotonic_ms()))
        found: dict[TopicPartition, FoundOffset] = {}
        failures = 0
        while True:
            missing = {each: time_ms for each, time_ms in timestamps_ms.items() if each not in found}
            troubles = await self._ask_leaders(missing, found, deadline_ms)
            if not troubles:
                return found
            failures += 1
            delay_ms = self._backoff.delay_ms(failures)
            if self._clock.monotonic_ms() + delay_ms >= deadline_ms:
                trouble = next(iter(troubles.values()))
                if isinstance(trouble, Unreachable):
                    raise NoBrokerReachable({trouble.address: trouble.reason}, timeout_ms)
                raise trouble
            self._metadata.request_refresh()
            await asyncio.sleep(delay_ms / 1000)

    async def _ask_leaders(
        self,
        missing: dict[TopicPartition, int],
        found: dict[TopicPartition, FoundOffset],
        deadline_ms: int,
    ) -> dict[TopicPartition, Exception]:
        """Ask every leader once; add to `found` and return the errors of those to retry."""
        troubles: dict[TopicPartition, Exception] = {}
        by_leader: dict[str, list[ListOffsetsPartition]] = {}
        for partition, timestamp_ms in missing.items():
            self._check_exists(partition)
            leader = self._metadata.leader(partition)
            if leader is None:
                troubles[partition] = Refusal(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader")
                continue
            asked = ListOffsetsPartition(
                topic=partition.topic,
                partition=partition.partition,
                timestamp_ms=timestamp_ms,
                current_leader_epoch=leader.epoch,
            )
            by_leader.setdefault(leader.address, []).append(asked)
        answers = await asyncio.gather(
            *(self._ask(address, asked, deadline_ms) for address, asked in by_leader.items())
        )
        for answer in answers:
            for partition, outcome in answer.items():
                if isinstance(outcome, FoundOffset):
                    found[partition] = outcome
                else:
                    troubles[partition] = outcome
        return troubles

    async def _ask(
        self, address: str, asked: list[ListOffsetsPartition], deadline_ms: int
    ) -> dict[TopicPartition, FoundOffset | Exception]:
        left_ms = max(1, min(ATTEMPT_MAX_MS, deadline_ms - self._clock.monotonic_ms()))
        try:
            request = ListOffsetsRequest(partitions=asked)
            response = await self._connections.peer(address).call(LIST_OFFSETS, request, left_ms / 1000)
        except Unreachable as error:
            return {TopicPartition(each.topic, each.partition): error for each in asked}
        outcomes: dict[TopicPartition, FoundOffset | Exception] = {}
        epochs = {TopicPartition(each.topic, each.partition): each.current_leader_epoch for each in asked}
        for result in response.partitions:
            partition = TopicPartition(result.topic, result.partition)
            refusal = Refusal(result.error_code, f"{partition}: {result.error_message or result.error_code.name}")
            if result.error_code is ErrorCode.NONE:
                outcomes[partition] = FoundOffset(
                    result.offset, result.timestamp_ms, result.leader_epoch, epochs[partition]
                )
            elif result.error_code.retriable:
                outcomes[partition] = refusal
            else:
                raise refusal
        return outcomes

    def _check_exists(self, partition: TopicPartition) -> None:
        count = self._metadata.partition_count(partition.topic)
        if count is not None and not 0 <= partition.partition < count:
            raise no_such_partition(partition, count)


def no_such_partition(partition: TopicPartition, count: int) -> Refusal:
    """Return the error for a partition number that the topic does not have."""
    return Refusal(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"topic {partition.topic!r} has partitions 0 to {count - 1}, not {partition.partition}",
    )
