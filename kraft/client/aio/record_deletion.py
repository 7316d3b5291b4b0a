"""Deletes the oldest records of partitions at their leaders, with retries when a leadership moved."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from kraft.client.cluster.any_broker import timed_out
from kraft.client.cluster.attempts import Attempts
from kraft.client.cluster.connections import Connections
from kraft.client.cluster.metadata_cache import MISSING_TOPIC_GRACE_MS, MetadataCache
from kraft.client.cluster.offset_lookup import no_such_partition, sort_out
from kraft.client.sans_io.backoff import Backoff
from kraft.model.errors import ErrorCode, KraftError, Refusal, error_code
from kraft.model.ids import TopicPartition
from kraft.rpc.calls import DELETE_RECORDS
from kraft.rpc.peers import Unreachable
from kraft.runtime.clock import Clock
from kraft.wire.schema.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic

Outcome: TypeAlias = int | Refusal | Unreachable

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

    async def delete(
        self, before_offsets: Mapping[TopicPartition, int], timeout_ms: int
    ) -> dict[TopicPartition, int | KraftError]:
        """Delete the records and return the low watermark of each partition, or its error: a Refusal that names it, or
        NoBrokerReachable with its leader's address. Raises Unreachable, or a Refusal, if no broker answers for any.
        """
        began_ms = self._clock.monotonic_ms()
        deadline_ms = began_ms + timeout_ms
        ended = await self._missing(before_offsets, timeout_ms)
        attempts = Attempts(self._backoff, self._clock, deadline_ms)
        while left := {each: offset for each, offset in before_offsets.items() if each not in ended}:
            may_come = self._clock.monotonic_ms() < began_ms + MISSING_TOPIC_GRACE_MS
            passing = await self._ask_leaders(left, ended, deadline_ms, may_come=may_come)
            if not passing:
                break
            if not attempts.may_follow(next(iter(passing.values()))):
                ended |= {partition: timed_out(error, timeout_ms) for partition, error in passing.items()}
                break
            self._metadata.request_refresh()
            await attempts.pause()
        return {partition: ended[partition] for partition in before_offsets}

    async def _missing(self, partitions: Iterable[TopicPartition], timeout_ms: int) -> dict[TopicPartition, Outcome]:
        """Return the errors of those that do not exist."""
        partitions = list(partitions)
        refused = await self._metadata.look_up({partition.topic for partition in partitions}, timeout_ms)
        missing: dict[TopicPartition, Outcome] = {}
        for partition in partitions:
            count = self._metadata.partition_count(partition.topic)
            if (refusal := refused.get(partition.topic)) is not None:
                missing[partition] = _of(partition, refusal)
            elif count is not None and not 0 <= partition.partition < count:
                missing[partition] = no_such_partition(partition, count)
        return missing

    async def _ask_leaders(
        self,
        left: Mapping[TopicPartition, int],
        ended: dict[TopicPartition, Outcome],
        deadline_ms: int,
        *,
        may_come: bool,
    ) -> dict[TopicPartition, Refusal | Unreachable]:
        """Ask every leader once; add to `ended`, and return the errors of those to retry.

        A topic that was deleted since it was looked up is among the latter if it `may_come` again.
        """
        passing: dict[TopicPartition, Refusal | Unreachable] = {}
        by_leader: dict[str, dict[TopicPartition, int]] = {}
        for partition, offset in left.items():
            leader = self._metadata.leader(partition)
            if leader is not None:
                by_leader.setdefault(leader.address, {})[partition] = offset
            elif (refusal := self._metadata.refusal_of(partition.topic)) is None:
                passing[partition] = self._metadata.no_leader(partition)
            else:
                is_gone = refusal.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                (ended if is_gone and not may_come else passing)[partition] = _of(partition, refusal)
        answers = await asyncio.gather(
            *(self._ask(address, asked, deadline_ms) for address, asked in by_leader.items())
        )
        sort_out(answers, ended, passing)
        return passing

    async def _ask(
        self, address: str, asked: Mapping[TopicPartition, int], deadline_ms: int
    ) -> dict[TopicPartition, Outcome]:
        left_ms = max(1, min(self._request_timeout_ms, deadline_ms - self._clock.monotonic_ms()))
        request = DeleteRecordsRequest(topics=_topics(asked), timeout_ms=max(1, left_ms - REPLICAS_GRACE_MS))
        try:
            response = await self._connections.peer(address).call(DELETE_RECORDS, request, left_ms / 1000)
        except Unreachable as error:
            return dict.fromkeys(asked, error)
        except Refusal as refusal:
            return {each: Refusal(refusal.error_code, _named(each, refusal.message)) for each in asked}
        lacking = Unreachable(address, "its response lacks the partition")
        outcomes: dict[TopicPartition, Outcome] = dict.fromkeys(asked, lacking)
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


def _of(partition: TopicPartition, refusal: Refusal) -> Refusal:
    return Refusal(refusal.error_code, f"{partition}: {refusal.message}")


def _named(partition: TopicPartition, message: str) -> str:
    """Return the message with the partition, unless it names it or its topic."""
    is_named = str(partition) in message or f"'{partition.topic}'" in message
    return message if is_named else f"{partition}: {message}"
