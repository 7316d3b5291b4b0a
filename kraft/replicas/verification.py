"""Compares the replicas of partitions up to where all of them are committed, and says which one differs, and where.

The leader's replica is the reference; without it, the first that can be read. Two replicas that differ are no proof of
which one is right.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from msgspec import Struct

from kraft.client.aio import Admin
from kraft.log.format.record_batch import BatchHeader
from kraft.model.errors import ErrorCode, InvalidBatch, KraftError, Refusal
from kraft.model.ids import TopicPartition
from kraft.model.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from kraft.replicas.batches import SAME, Comparison, compared
from kraft.replicas.reading import BrokerReads, ReadSettings, ReplicaReader
from kraft.wire.schema.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

PARTITIONS_AT_ONCE: Final = 4
STARTS_MAX: Final = 20
"""How often the beginning may move, because a replica has deleted what was to be read."""

Progress: TypeAlias = Callable[[int], None]
"""Gets the number of offsets that were compared or left out."""


class Choice(Struct, frozen=True, kw_only=True):
    """What is compared: a topic by name, or topics whose whole names match, or all; of these one partition, or all."""

    topic: str | None = None
    pattern: re.Pattern[str] | None = None
    partition: int | None = None
    from_timestamp_ms: int = EARLIEST_TIMESTAMP


class Replica(Struct, frozen=True, kw_only=True):
    """What was found out about one replica."""

    broker_id: int
    result: str
    """`reference`, `same`, `different`, `behind`, `not read`, or `alone` if there is none to compare it with."""

    log_start: int
    high_watermark: int
    compared_to: int
    """Offset up to which it was compared, excluded."""

    difference: Comparison = SAME
    reason: str = ""
    """Why it was not read to the end."""


class PartitionReport(Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    start: int
    end: int
    records: int
    """Records of the reference that were compared."""

    replicas: list[Replica]

    @property
    def is_verified(self) -> bool:
        """True if all replicas were read and none differs; one that is behind is verified as far as it is."""
        return not any(each.result in ("different", "not read") for each in self.replicas)


class Chosen(Struct, frozen=True, kw_only=True):
    """The chosen partitions as the cluster describes them, with their first and last offsets."""

    addresses: dict[int, str]
    partitions: dict[TopicPartition, MetadataResponsePartition]
    starts: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]
    compacted: frozenset[str]
    notes: list[str]

    @property
    def offsets(self) -> int:
        return sum(max(0, self.ends.get(each, 0) - self.starts.get(each, 0)) for each in self.partitions)


async def chosen(admin: Admin, choice: Choice) -> Chosen:
    """Find out what is to be compared. Raises KraftError, for example if there is no such topic."""
    cluster = await admin.describe_cluster(topics=None if choice.topic is None else [choice.topic])
    topics = _topics(cluster, choice)
    if not topics:
        raise KraftError("no topic matches: nothing to compare")
    partitions = {
        TopicPartition(topic.name or "", each.partition_index): each
        for topic in topics
        for each in topic.partitions
        if choice.partition in (None, each.partition_index)
    }
    if not partitions:
        raise KraftError(f"there is no partition {choice.partition} of {', '.join(each.name or '' for each in topics)}")
    notes: list[str] = []
    starts = await _offsets(admin, partitions, choice.from_timestamp_ms)
    ends = await _offsets(admin, partitions, LATEST_TIMESTAMP)
    if choice.from_timestamp_ms != EARLIEST_TIMESTAMP:
        # Without a leader nobody knows where to begin; where no record is as late, nothing is compared.
        partitions = {each: found for each, found in partitions.items() if each in starts}
        starts = {each: offset if offset >= 0 else ends.get(each, 0) for each, offset in starts.items()}
    return Chosen(
        addresses={each.node_id: f"{each.host}:{each.port}" for each in cluster.brokers},
        partitions=dict(sorted(partitions.items())),
        starts=starts,
        ends=ends,
        compacted=await _compacted(admin, sorted({each.topic for each in partitions}), notes),
        notes=notes,
    )


def _topics(cluster: MetadataResponse, choice: Choice) -> list[MetadataResponseTopic]:
    if choice.topic is not None:
        for each in cluster.topics:
            if each.error_code != ErrorCode.NONE:
                code = ErrorCode(each.error_code)
                raise Refusal(code, f"topic {choice.topic!r} {_words(code, each.error_message)}")
        return list(cluster.topics)
    return [
        each
        for each in cluster.topics
        if each.error_code == ErrorCode.NONE
        and (choice.pattern is None or choice.pattern.fullmatch(each.name or "") is not None)
    ]


def _words(code: ErrorCode, message: str | None) -> str:
    return "does not exist" if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else message or code.name


async def _offsets(
    admin: Admin, partitions: Collection[TopicPartition], timestamp_ms: int
) -> dict[TopicPartition, int]:
    """Return what leaders say; a partition without an answer is left out."""
    with suppress(KraftError):
        found = await admin.list_offsets(dict.fromkeys(partitions, timestamp_ms))
        return {each: outcome.offset for each, outcome in found.items() if not isinstance(outcome, KraftError)}
    return {}


async def _compacted(admin: Admin, topics: Sequence[str], notes: list[str]) -> frozenset[str]:
    try:
        configs = await admin.describe_configs_of_topics(topics)
    except KraftError as error:
        notes.append(f"cleanup.policy is not known, so records that compaction removed count as missing: {error}")
        return frozenset()
    return frozenset(
        topic
        for topic, found in configs.items()
        if any(each.name == "cleanup.policy" and "compact" in (each.value or "") for each in found)
    )


async def reports(
    admin: Admin, what: Chosen, settings: ReadSettings, progress: Progress
) -> AsyncIterator[PartitionReport]:
    """Yield the report of each partition, in their order. Each broker that stops answering costs one timeout."""
    silent: dict[int, str] = {}
    free = asyncio.Semaphore(PARTITIONS_AT_ONCE)

    async def report(partition: TopicPartition) -> PartitionReport:
        async with free:
            reads = BrokerReads(admin, what.addresses, settings, silent)
            try:
                return await _Partition(reads, what, partition, progress).report()
            finally:
                await reads.close()

    tasks = [asyncio.ensure_future(report(each)) for each in what.partitions]
    try:
        for task in tasks:
            yield await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Partition:
    """The comparison of one partition."""

    def __init__(self, reads: BrokerReads, what: Chosen, partition: TopicPartition, progress: Progress) -> None:
        described = what.partitions[partition]
        self._partition = partition
        self._is_compacted = partition.topic in what.compacted
        self._progress = progress
        self._leader_id = described.leader_id
        # The reference first.
        ids = sorted(described.replica_nodes, key=lambda each: each != described.leader_id)
        self._readers = [ReplicaReader(reads, each, partition) for each in ids]
        self._start = max(0, what.starts.get(partition, 0))
        self._position = self._start
        self._end = self._start
        self._starts = 0
        self._records = 0
        self._differences = dict.fromkeys(ids, SAME)
        self._compared_to: dict[int, int] = {}
        self._reference_id = -1

    async def report(self) -> PartitionReport:
        await self._begin_all(self._start)
        known = [each for each in self._readable() if each.high_watermark >= 0]
        if known:
            self._reference_id, self._end = known[0].broker_id, max(self._position, known[0].high_watermark)
        while self._position < self._end and len(active := self._active()) > 1:
            await asyncio.gather(*(each.fill(self._end) for each in active))
            if any(each.is_past for each in active):
                await self._begin_all(max(each.log_start for each in active))
            else:
                self._compare(self._active())
        return PartitionReport(
            topic=self._partition.topic,
            partition=self._partition.partition,
            start=self._start,
            end=self._end,
            records=self._records,
            replicas=[self._replica(each) for each in sorted(self._readers, key=lambda each: each.broker_id)],
        )

    def _readable(self) -> list[ReplicaReader]:
        return [each for each in self._readers if not each.failure]

    def _active(self) -> list[ReplicaReader]:
        """Return the readers that can be compared at the position; the first one is the reference."""
        return [each for each in self._readable() if not (each.is_behind and not each.batches)]

    async def _begin_all(self, offset: int) -> None:
        """Begin at this offset, or, where a replica has deleted it, at the first that all have."""
        while True:
            readers = self._readable()
            await asyncio.gather(*(each.begin(offset) for each in readers))
            later = max((each.log_start for each in readers if each.is_past), default=offset)
            self._progress(min(offset, max(self._end, self._position)) - self._position)
            if self._position == self._start:
                self._start = offset
            self._position = offset
            if later == offset:
                return
            offset = later
            self._starts += 1
            if self._starts > STARTS_MAX:
                for each in readers:
                    each.failure = each.failure or "records were deleted faster than they could be read"
                return

    def _compare(self, active: Sequence[ReplicaReader]) -> None:
        """Compare what all of them cover, and go on behind it."""
        for each in active:
            if each.has_hole and not each.batches and not self._is_compacted:
                each.failure = f"its broker sent no records from offset {self._position} on, below its high watermark"
        active = [each for each in active if not each.failure]
        if len(active) < 2:
            return
        end = min(each.covered_end(self._end) for each in active)
        reference, *others = active
        for each in others:
            try:
                found = compared(reference.batches, each.batches, self._position, end, is_compacted=self._is_compacted)
            except InvalidBatch as error:
                each.failure = f"it or broker {reference.broker_id} has bytes that are no records: {error.message}"
                continue
            self._differences[each.broker_id] += found
            self._compared_to[each.broker_id] = end
        self._records += sum(_records_below(header, end) for header, _ in reference.batches)
        self._compared_to[reference.broker_id] = end
        for each in active:
            each.drop_below(end)
        self._progress(end - self._position)
        self._position = end

    def _replica(self, reader: ReplicaReader) -> Replica:
        difference, compared_to = self._differences[reader.broker_id], self._compared_to.get(reader.broker_id)
        reason = reader.failure
        if reader.failure:
            result = "not read"
        elif difference.first_offset is not None:
            result = "different"
        elif len(self._readable()) == 1:
            result = "alone"
        elif reader.broker_id == self._reference_id:
            result = "reference"
        elif reader.high_watermark < self._end:
            result = "behind"
        else:
            result = "same"
        if not reason and reader.high_watermark < self._end:
            reason = f"{self._end - max(0, reader.high_watermark):,} offsets behind {self._end:,}"
        return Replica(
            broker_id=reader.broker_id,
            result=result,
            log_start=reader.log_start,
            high_watermark=reader.high_watermark,
            compared_to=self._start if compared_to is None else compared_to,
            difference=difference,
            reason=reason,
        )


def _records_below(header: BatchHeader, end: int) -> int:
    """Return how many records the batch has; a batch that goes on behind `end` counts there."""
    return header.record_count if header.next_offset <= end else 0
