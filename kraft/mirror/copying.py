"""Copies the partitions of one shard: batches as they are stored, and in the same transaction how far they go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from kraft.client.aio import Consumer, Producer
from kraft.client.sans_io.batches import StoredBatch
from kraft.client.sans_io.copied_batch import StoredRun
from kraft.log.format.record_batch import build_column_batch, is_copyable, read_header
from kraft.log.format.record_codec import RecordColumns
from kraft.mirror.positions import key_of, value_of
from kraft.mirror.throttle import Throttle
from kraft.mirror.translation import PartitionState, Run, runs_of
from kraft.model.ids import TopicPartition

ROUND_BYTES_MAX: Final = 32 * 1024 * 1024
"""A round ends with this many bytes, however short it was."""

POLL_MS: Final = 200

Stored: TypeAlias = asyncio.Future[list[StoredRun]]


class Counts(Struct):
    """What one pair has done in this process, for metrics."""

    records: int = 0
    bytes: int = 0
    rounds: int = 0
    recoded_batches: int = 0
    restarts: int = 0


class _Sent(Struct, frozen=True):
    """A batch on its way to the target."""

    source: TopicPartition
    offsets: range | list[int]
    timestamp_ms: int
    stored: Stored


class ShardCopy:
    """The copies of one shard, from the positions that were read."""

    def __init__(
        self,
        *,
        consumer: Consumer,
        producer: Producer,
        place: TopicPartition,
        states: dict[TopicPartition, PartitionState],
        throttle: Throttle,
        counts: Counts,
        commit_interval_ms: int,
    ) -> None:
        """`place` is the shard's partition of the positions topic."""
        self._consumer = consumer
        self._producer = producer
        self._place = place
        self._throttle = throttle
        self._counts = counts
        self._interval_s = commit_interval_ms / 1_000
        self._targets: dict[TopicPartition, TopicPartition] = {}
        self.states = states
        """By partition of the source, as they are committed."""

    @property
    def _is_transactional(self) -> bool:
        return self._producer.settings.transactional_id is not None

    @property
    def lags(self) -> dict[TopicPartition, int]:
        """Offsets of the source that are not copied yet, as far as they are known."""
        found = {each: self._consumer.lag(each) for each in self._targets}
        return {each: lag for each, lag in found.items() if lag is not None}

    def assign(self, targets: Mapping[TopicPartition, TopicPartition]) -> None:
        """Copy these partitions; each has a state."""
        new = targets.keys() - self._targets.keys()
        self._targets = dict(targets)
        self._consumer.assign(targets)
        for partition in new:
            self._consumer.seek(partition, self.states[partition].next_offset)

    async def round(self, is_over: Callable[[], bool]) -> bool:
        """Copy what comes within the commit interval, and commit it; False if nothing came."""
        batches = await self._consumer.poll_stored(POLL_MS)
        if not batches:
            return False
        if self._is_transactional:
            await self._producer.begin_transaction()
        ends_s = asyncio.get_running_loop().time() + self._interval_s
        reached = {each: self.states[each].next_offset for each in self._targets}
        sent: list[_Sent] = []
        size_bytes = 0
        while True:
            for batch in batches:
                # Between two calls a batch may be fetched again, after a leader has changed.
                if batch.next_offset > reached[batch.partition]:
                    sent += await self._send(batch, reached[batch.partition])
                    reached[batch.partition] = batch.next_offset
                    size_bytes += batch.size_bytes
            left_s = ends_s - asyncio.get_running_loop().time()
            if left_s <= 0 or size_bytes >= ROUND_BYTES_MAX or is_over():
                break
            batches = await self._consumer.poll_stored(max(1, int(left_s * 1_000)))
        await self._commit(sent, reached)
        self._counts.bytes += size_bytes
        self._counts.rounds += 1
        await self._throttle.used(size_bytes)
        return True

    async def _send(self, batch: StoredBatch, start: int) -> list[_Sent]:
        """Send the records of a batch from offset `start` on: as it is stored, if a producer may send that."""
        if batch.is_control or batch.is_aborted or batch.record_count == 0:
            return []
        offsets: range | list[int] = range(batch.base_offset, batch.next_offset)
        if batch.base_offset < start or not is_copyable(batch.header):
            found = _recoded(batch, start)
            if found is None:
                return []
            offsets, batch = found
            self._counts.recoded_batches += 1
        target = self._targets[batch.partition]
        stored = await self._producer.send_stored(target, batch)
        return [_Sent(batch.partition, offsets, batch.timestamp_ms, stored)]

    async def _commit(self, sent: list[_Sent], reached: dict[TopicPartition, int]) -> None:
        """Wait until the records are stored, and commit them with how far they go."""
        runs: dict[TopicPartition, list[Run]] = {}
        times_ms: dict[TopicPartition, int] = {}
        for each in sent:
            runs.setdefault(each.source, []).extend(_runs(each.offsets, await each.stored))
            times_ms[each.source] = each.timestamp_ms
        changed: dict[TopicPartition, PartitionState] = {}
        for partition, next_offset in reached.items():
            state = self.states[partition]
            if next_offset != state.next_offset:
                advanced = state.advanced(next_offset, runs.get(partition, ()), times_ms.get(partition, 0))
                changed[partition] = advanced
        for partition, state in changed.items():
            topic, number = self._place.topic, self._place.partition
            await self._producer.send(topic, value_of(state), key=key_of(partition), partition=number)
        if self._is_transactional:
            await self._producer.commit_transaction()
        else:
            await self._producer.flush()
        self._counts.records += sum(len(each.offsets) for each in sent)
        self.states.update(changed)


def _runs(offsets: range | list[int], stored: list[StoredRun]) -> list[Run]:
    if isinstance(offsets, range):
        return [Run(offsets[first], base, count) for first, count, base in stored if base >= 0]
    return runs_of(offsets, stored)


def _recoded(batch: StoredBatch, start: int) -> tuple[list[int], StoredBatch] | None:
    """Return the records from offset `start` on as a batch of the same codec; None if there are none."""
    columns = batch.records()
    first = next((row for row, offset in enumerate(columns.offsets) if offset >= start), len(columns.offsets))
    offsets = columns.offsets[first:]
    if not offsets:
        return None
    rest = RecordColumns(
        list(range(len(offsets))),
        columns.timestamps_ms[first:],
        columns.keys[first:],
        columns.values[first:],
        columns.headers[first:],
    )
    data = build_column_batch(rest, batch.codec)
    return offsets, replace(batch, header=read_header(data), data=memoryview(data))
