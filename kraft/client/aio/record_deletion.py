"""Deletes the oldest records of partitions at their leaders, with retries when a leadership moved."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from kraft.client.cluster.any_broker import NoBrokerReachable
from kraft.client.cluster.attempts import Attempts
from kraft.client.cluster.connections import Connections
from kraft.client.cluster.metadata_cache import MetadataCache
from kraft.client.cluster.offset_lookup import no_such_partition
from kraft.client.sans_io.backoff import Backoff
from kraft.model.errors import ErrorCode, Refusal, error_code
from kraft.model.ids import TopicPartition
from kraft.rpc.calls import DELETE_RECORDS
from kraft.rpc.peers import Unreachable
from kraft.runtime.clock import Clock
from kraft.wire.schema.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic

LowWatermarks = dict[TopicPartition, int]

REPLICAS_GRACE_MS = 500
"""A leader's timeout for its replicas is shorter than the request's by this, so that its error still arrives."""

_REASONS: Final = {
    ErrorCode.OFFSET_OUT_OF_RANGE: "the offset is above the high watermark",
    ErrorCode.POLICY_VIOLATION: "the topic has cleanup.policy=compact; add delete to it before deleting records",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "the topic is internal: only brokers write to it and delete its records",
    ErrorCode.REQUEST_TIMED_OUT: "timed out before every in-sync replica deleted its records; the remaining replicas "
    "will still delete them",
}
"""Meanings of the error codes, which come without a text."""


class RecordDeletion:
    """Sends DeleteRecords to the leaders. A retry is harmless: below the log start there is nothing to delete."""

    def __init__(
        self, connections: Connections, metadata: MetadataCache, backoff: Backoff, clock: Clock, request_timeout_ms: int
    ) -> None:
        self._connections = connections
        self._metadata = metadata
        self._backoff = backoff
        self._clock = clock
        self._request_timeout_ms = request_timeout_ms

    async def delete(self, before_offsets: Mapping[TopicPartition, int], timeout_ms: int) -> LowWatermarks:
        """Delete the records and return the low watermark of each partition. All partitions are tried before a raise.

        A missing topic or partition is an error before anything is deleted. Raises NoBrokerReachable with the leader's
        address, or a Refusal with the partition.
        """
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        await self._metadata.require({partition.topic for partition in before_offsets}, timeout_ms)
        for partition in before_offsets:
            count = self._metadata.partition_count(partition.topic)
            if count is not None and not 0 <= partition.partition < count:
                raise no_such_partition(partition, count)
        done: LowWatermarks = {}
        failed: dict[TopicPartition, Refusal] = {}
        attempts = Attempts(self._backoff, self._clock, deadline_ms)
        while True:
            left = {each: offset for each, offset in before_offsets.items() if each not in done and each not in failed}
            troubles = await self._ask_leaders(left, done, failed, deadline_ms)
            if not troubles:
                break
            trouble = next(iter(troubles.values()))
            if not attempts.may_follow(trouble):
                _raise(trouble, timeout_ms)
            self._metadata.request_refresh()
            await attempts.pause()
        for refusal in failed.values():
            raise refusal
        return {partition: done[partition] for partition in before_offsets}

    async def _ask_leaders(
        self,
        left: Mapping[TopicPartition, int],
        done: LowWatermarks,
        failed: dict[TopicPartition, Refusal],
        deadline_ms: int,
    ) -> dict[TopicPartition, Exception]:
        """Ask every leader once; add to `done` and `failed`, and return the errors of those to retry."""
        troubles: dict[TopicPartition, Exception] = {}
        by_leader: dict[str, dict[TopicPartition, int]] = {}
        for partition, offset in left.items():
            leader = self._metadata.leader(partition)
            if leader is None:
                troubles[partition] = self._metadata.no_leader(partition)
                continue
            by_leader.setdefault(leader.address, {})[partition] = offset
        answers = await asyncio.gather(
            *(self._ask(address, asked, deadline_ms) for address, asked in by_leader.items())
        )
        for answer in answers:
            for partition, outcome in answer.items():
                if isinstance(outcome, int):
                    done[partition] = outcome
                elif isinstance(outcome, Refusal) and not outcome.error_code.retriable:
                    failed[partition] = outcome
                else:
                    troubles[partition] = outcome
        return troubles

    async def _ask(
        self, address: str, asked: Mapping[TopicPartition, int], deadline_ms: int
    ) -> dict[TopicPartition, int | Exception]:
        left_ms = max(1, min(self._request_timeout_ms, deadline_ms - self._clock.monotonic_ms()))
        request = DeleteRecordsRequest(topics=_topics(asked), timeout_ms=max(1, left_ms - REPLICAS_GRACE_MS))
        try:
            response = await self._connections.peer(address).call(DELETE_RECORDS, request, left_ms / 1000)
        except Unreachable as error:
            return dict.fromkeys(asked, error)
        except Refusal as refusal:
            return {each: Refusal(refusal.error_code, _named(each, refusal.message)) for each in asked}
        outcomes: dict[TopicPartition, int | Exception] = {}
        for topic in response.topics:
            for result in topic.partitions:
                partition = TopicPartition(topic.name, result.partition_index)
                if (code := error_code(result.error_code)) is ErrorCode.NONE:
                    outcomes[partition] = result.low_watermark
                else:
                    outcomes[partition] = Refusal(code, f"{partition}: {_REASONS.get(code, code.name)}")
        return outcomes


def _topics(before_offsets: Mapping[TopicPartition, int]) -> tuple[DeleteRecordsTopic, ...]:
    topics: dict[str, list[DeleteRecordsPartition]] = {}
    for partition, offset in before_offsets.items():
        wanted = DeleteRecordsPartition(partition_index=partition.partition, offset=offset)
        topics.setdefault(partition.topic, []).append(wanted)
    return tuple(DeleteRecordsTopic(name=topic, partitions=tuple(wanted)) for topic, wanted in topics.items())


def _named(partition: TopicPartition, message: str) -> str:
    """Return the message with the partition, unless it names it or its topic."""
    is_named = str(partition) in message or f"'{partition.topic}'" in message
    return message if is_named else f"{partition}: {message}"


def _raise(trouble: Exception, timeout_ms: int) -> None:
    if isinstance(trouble, Unreachable):
        raise NoBrokerReachable({trouble.address: trouble.reason}, timeout_ms)
    raise trouble
