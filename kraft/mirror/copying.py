"""Copies the partitions of one shard: batches as they are stored, and in the same transaction how far they go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from kraft.client.aio import Consumer, Producer
from kraft.client.model.errors import LogTruncated, PartitionUnreadable
from kraft.client.sans_io.batches import StoredBatch
from kraft.client.sans_io.copied_batch import StoredRun
from kraft.log.format.record_batch import build_column_batch, is_copyable, read_header
from kraft.log.format.record_codec import RecordColumns
from kraft.mirror.positions import key_of, value_of
from kraft.mirror.throttle import Throttle
from kraft.mirror.translation import PartitionState, Run, runs_of
from kraft.model.errors import ErrorCode, InvalidBatch, KraftError, Refusal
from kraft.model.ids import TopicPartition

ROUND_BYTES_MAX: Final = 32 * 1024 * 1024
"""A round ends with this many bytes, however short it was."""

_TIMEOUT_PART: Final = 4
"""A round takes records for this part of transaction.timeout.ms at most: what is sent has to be stored in the rest."""

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


class PartitionStops(KraftError):
    """One partition cannot be copied as it is; the others of its shard can."""

    def __init__(self, partition: TopicPartition, reason: str) -> None:
        super().__init__(reason)
        self.partition = partition


_OF_THE_PARTITION: Final = frozenset(
    {
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    }
)
"""Refusals of the target that would be the same for these records of this topic again."""


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
        check: Callable[[Mapping[TopicPartition, PartitionState]], Awaitable[None]],
    ) -> None:
        """`place` is the shard's partition of the positions topic.

        `check` is called before each commit, and raises if a topic of these states is no longer the one that it was.
        """
        self._consumer = consumer
        self._producer = producer
        self._place = place
        self._throttle = throttle
        self._counts = counts
        self._check = check
        timeout_ms = producer.settings.transaction_timeout_ms // _TIMEOUT_PART
        self._interval_s = (
            min(commit_interval_ms, timeout_ms) if self._is_transactional else commit_interval_ms
        ) / 1_000
        self.round_bytes = ROUND_BYTES_MAX
        """A round ends with this many."""

        self._left: list[StoredBatch] = []
        """Read, and not sent in the round before."""

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

    async def assign(self, targets: Mapping[TopicPartition, TopicPartition]) -> None:
        """Copy these partitions; each has a state."""
        await self._producer.find_topics({target.topic for target in targets.values()})
        self._targets = dict(targets)
        self._consumer.assign(targets)
        self._left = []
        for partition in targets:
            state = self.states[partition]
            self._consumer.seek_in_epoch(partition, state.next_offset, state.leader_epoch)

    async def begin_at(self, states: Mapping[TopicPartition, PartitionState]) -> None:
        """Commit states that are not those of the last commit, before records follow.

        So that both the status and the next start see what retention took, what another mirror had brought, and that
        a partition without records is followed.
        """
        changed = {each: state for each, state in states.items() if state != self.states.get(each)}
        if changed:
            await self._check(changed)
            if self._is_transactional:
                await self._producer.begin_transaction()
            await self._keep(changed)

    async def round(self, stopped: asyncio.Event) -> bool:
        """Copy what comes within the commit interval, and commit it; False if nothing came. Raises PartitionStops."""
        batches = self._left or await self._polled(POLL_MS)
        if not batches:
            return False
        if self._is_transactional:
            await self._producer.begin_transaction()
        ends_s = asyncio.get_running_loop().time() + self._interval_s
        reached = {each: (self.states[each].next_offset, self.states[each].leader_epoch) for each in self._targets}
        sent: list[_Sent] = []
        size_bytes = 0
        while True:
            for number, batch in enumerate(batches):
                if size_bytes >= self.round_bytes:
                    batches = batches[number:]
                    break
                start, _ = reached[batch.partition]
                # Between two calls a batch may be fetched again, after a leader has changed.
                if batch.next_offset > start:
                    sent += await self._send(batch, start)
                    reached[batch.partition] = batch.next_offset, batch.header.leader_epoch
                    size_bytes += batch.size_bytes
            else:
                batches = []
            left_s = ends_s - asyncio.get_running_loop().time()
            if left_s <= 0 or size_bytes >= self.round_bytes or stopped.is_set():
                break
            batches = await self._polled(max(1, int(left_s * 1_000)))
        self._left = batches
        await self._commit(sent, reached)
        self._counts.bytes += size_bytes
        self._counts.rounds += 1
        await self._throttle.used(size_bytes, stopped)
        return True

    async def _polled(self, timeout_ms: int) -> list[StoredBatch]:
        try:
            return await self._consumer.poll_stored(timeout_ms)
        except LogTruncated as error:
            raise PartitionStops(error.partition, f"the source lost records that were mirrored: {error.what}") from None
        except PartitionUnreadable as error:
            raise PartitionStops(error.partition, f"the source: {error}") from None

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
        try:
            stored = await self._producer.send_stored(target, batch)
        except InvalidBatch as error:
            raise PartitionStops(batch.partition, f"the source has a corrupt batch: {error.message}") from None
        return [_Sent(batch.partition, offsets, batch.timestamp_ms, stored)]

    async def _commit(self, sent: list[_Sent], reached: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Wait until the records are stored, and commit them with how far they go: next offset and leader epoch."""
        runs: dict[TopicPartition, list[Run]] = {}
        times_ms: dict[TopicPartition, int] = {}
        for each in sent:
            runs.setdefault(each.source, []).extend(_runs(each.offsets, await self._stored(each)))
            times_ms[each.source] = each.timestamp_ms
        changed: dict[TopicPartition, PartitionState] = {}
        for partition, (next_offset, epoch) in reached.items():
            state = self.states[partition]
            if next_offset != state.next_offset:
                its_runs, time_ms = runs.get(partition, ()), times_ms.get(partition, 0)
                changed[partition] = state.advanced(next_offset, its_runs, time_ms, epoch)
        await self._check(changed)
        await self._keep(changed)
        self._counts.records += sum(len(each.offsets) for each in sent)

    async def _keep(self, changed: Mapping[TopicPartition, PartitionState]) -> None:
        """Commit these states, with what was sent before them."""
        for partition, state in changed.items():
            topic, number = self._place.topic, self._place.partition
            await self._producer.send(topic, value_of(state), key=key_of(partition), partition=number)
        if self._is_transactional:
            await self._producer.commit_transaction()
        else:
            await self._producer.flush()
        self.states.update(changed)

    async def _stored(self, sent: _Sent) -> list[StoredRun]:
        try:
            return await sent.stored
        except Refusal as refusal:
            if refusal.error_code not in _OF_THE_PARTITION:
                raise
            raise PartitionStops(sent.source, f"the target refuses its records: {refusal}") from None


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
