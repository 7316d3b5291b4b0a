"""A partition log beside a plain list of its batches, and what a recovery may find after a crash at any moment.

`ModelledLog` uses a real `PartitionLog` on a `SimDisk` as leaders, followers and housekeeping do, and keeps the list.
Before each operation it records what a crash in the middle of it may leave: `expectations`, of which a recovered log
must meet one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Final

import pytest

from kraft.log.append_work import CLIENT, AppendOrigin
from kraft.log.change import run_now
from kraft.log.cleaning.cleaned_segments import CleaningResult, open_cleaned
from kraft.log.cleaning.cleaning_plan import plan_cleaning
from kraft.log.cleaning.compaction import clean
from kraft.log.format.control_record import EndTransactionMarker, MarkerType, build_marker
from kraft.log.format.record_batch import build_batch, read_header, split
from kraft.log.format.record_codec import Record
from kraft.log.group_commit import SyncTicket
from kraft.log.partition_log import PartitionLog
from kraft.log.recovery.producer_state import BATCHES_REMEMBERED
from kraft.log.topic_config import TopicConfig
from kraft.model.errors import Refusal
from kraft.model.ids import LeaderEpoch, Offset
from tests.support.disks.sim_content import CrashMode
from tests.support.disks.sim_disk import SimDisk
from tests.support.log.log_building import DIRECTORY, NOW_MS, ORDERS, newest, offset_at
from tests.support.log.log_expectations import (
    Broken,
    Expectation,
    Stored,
    is_marker,
    meets,
    outcomes,
    records_by_offset,
)
from tests.support.log.transactional_log import COORDINATOR, VERIFIED, committed_records

MAP_BYTES: Final = 1 << 16


def open_log(disk: SimDisk, config: TopicConfig, clean_shutdown: bool = False) -> PartitionLog:
    return PartitionLog.open(disk, DIRECTORY, config, ORDERS, clean_shutdown)


def new_disk(disk: SimDisk | None = None) -> SimDisk:
    """Return a disk with the directory for partitions."""
    disk = disk or SimDisk()
    disk.make_dir(DIRECTORY.rpartition("/")[0])
    disk.sync_dir("")
    return disk


class ModelledLog:
    """The log under test, the list, and after every step the expectations of a recovery."""

    def __init__(self, config: TopicConfig, disk: SimDisk | None = None) -> None:
        self.disk = new_disk(disk)
        self.config = config
        self.now_ms = NOW_MS
        self.epoch = 0
        self.batches: list[Stored] = []
        self.start = 0
        self.end = 0
        self.epochs: list[tuple[int, int]] = []
        self._idempotent: list[Stored] = []
        """Batches with a producer, also those below the log's start: a producer outlives its records."""
        self.next_sequence: dict[int, tuple[int, int]] = {}
        """The epoch and the next sequence of each producer."""
        self.cleaned_end = 0
        self.is_sparse = False
        self.count = 0
        self.ticket: SyncTicket | None = None
        self.to_remove: list[str] = []
        self.durable_end = 0
        self.expectations: tuple[Expectation, ...] = ()
        self._expect(self._expectation())
        self.log = open_log(self.disk, config)

    # --- what a leader does ----------------------------------------------------------------------------------

    def append(self, value_sizes: Sequence[int], batches: int = 1) -> None:
        """Append that many batches in one request."""
        self._append_as_leader([self._batch(value_sizes) for _ in range(batches)])

    def append_idempotent(self, producer_id: int, value_sizes: Sequence[int], bumps_epoch: bool = False) -> None:
        epoch, sequence = self.next_sequence.get(producer_id, (0, 0))
        if bumps_epoch:
            epoch, sequence = epoch + 1, 0
        request = self._batch(value_sizes, producer_id, epoch, sequence)
        self._append_as_leader([request])
        self.next_sequence[producer_id] = (epoch, self.batches[-1].next_sequence)

    def append_transactional(self, producer_id: int, value_sizes: Sequence[int]) -> None:
        """Append a batch to the producer's transaction, which it opens if none is open."""
        epoch, sequence = self.next_sequence.get(producer_id, (0, 0))
        request = self._batch(value_sizes, producer_id, epoch, sequence, transactional=True)
        self._append_as_leader([request], VERIFIED)
        self.next_sequence[producer_id] = (epoch, self.batches[-1].next_sequence)

    def end_transaction(self, producer_id: int, kind: MarkerType) -> None:
        """Append the marker of a producer that has written."""
        if producer_id in self.next_sequence:
            marker = EndTransactionMarker(type=kind, coordinator_epoch=0)
            epoch, _ = self.next_sequence[producer_id]
            self._append_as_leader([build_marker(marker, producer_id, epoch, self.now_ms)], COORDINATOR)

    def retry(self, producer_id: int, age: int) -> None:
        """Send one of a producer's last five batches again: nothing is written.

        If its transaction has ended, it is refused, as the producer may have given its sequence to other records.
        """
        own = [batch for batch in self._idempotent if batch.producer_id == producer_id]
        latest = [batch for batch in own if batch.producer_epoch == own[-1].producer_epoch][-BATCHES_REMEMBERED:]
        batch = latest[-1 - age] if age < len(latest) else None
        if batch is None or batch.base_offset < max(self.start, self.cleaned_end):
            return
        points = self.disk.points
        is_open = any(each.base_offset == batch.base_offset for each in outcomes(self.batches, None))
        if read_header(batch.data).is_transactional and not is_open:
            with pytest.raises(Refusal, match="UNKNOWN_PRODUCER_ID"):
                self.log.append_as_leader(batch.request, LeaderEpoch(self.epoch), self.now_ms, run_now)
            return
        result = self.log.append_as_leader(batch.request, LeaderEpoch(self.epoch), self.now_ms, run_now)
        assert result.duplicate, f"the batch at {batch.base_offset} is not known again"
        assert (result.base_offset, result.last_offset) == (batch.base_offset, batch.next_offset - 1)
        assert self.disk.points == points

    def _append_as_leader(self, requests: Sequence[bytes], origin: AppendOrigin = CLIENT) -> None:
        is_append_time = self.config.uses_append_time
        added = self._place(requests, self.epoch, append_time_ms=self.now_ms if is_append_time else None)
        self._expect(self._expectation(added))
        request = b"".join(requests)
        result = self.log.append_as_leader(request, LeaderEpoch(self.epoch), self.now_ms, run_now, origin=origin)
        assert (result.base_offset, result.last_offset) == (added[0].base_offset, added[-1].next_offset - 1)
        assert not result.duplicate
        self._appended(added)

    def lead_new_epoch(self, step: int = 1) -> None:
        self.epoch += step

    # --- what a follower does --------------------------------------------------------------------------------

    def append_as_follower(self, batch_sizes: Sequence[Sequence[int]], epoch_step: int = 0, hole: int = 0) -> None:
        """Append batches as a leader stored them. With `epoch_step`, the second half has a later epoch; with `hole`,
        that many offsets before it are missing, as after a compaction."""
        half = len(batch_sizes) // 2
        added = self._place([self._batch(sizes) for sizes in batch_sizes[:half]], self.epoch)
        self.epoch += epoch_step
        self.is_sparse = self.is_sparse or hole > 0
        end = (added[-1].next_offset if added else self.end) + hole
        added += self._place([self._batch(sizes) for sizes in batch_sizes[half:]], self.epoch, end)
        self._expect(self._expectation(added))
        try:
            last = self.log.append_as_follower(b"".join(batch.data for batch in added))
        except Refusal:
            # On a full disk some of them may have been written; the follower goes on from there.
            self._appended([batch for batch in added if batch.next_offset <= self.log.log_end_offset])
            raise
        assert last == added[-1].next_offset - 1
        self._appended(added)

    def follow_another_history(self, epoch: int, batch_sizes: Sequence[Sequence[int]]) -> None:
        """Append what the leader wrote next in `epoch`, which may be earlier than an epoch of this replica."""
        assert self.least_epoch_of_a_leader <= epoch <= self.epoch
        if not self.batches and self.epochs and epoch < self.epochs[-1][0]:
            # Nothing that the log held is left; it begins again.
            self.epochs, self._idempotent, self.next_sequence, self.cleaned_end = [], [], {}, 0
            self.is_sparse = False
        self.epoch = epoch
        self.append_as_follower(batch_sizes)

    @property
    def least_epoch_of_a_leader(self) -> int:
        """Return the least epoch of the next record: that of the last record that is kept."""
        return self.epochs[-1][0] if self.batches else 0

    def join_inside_a_batch(self, ahead: int, batch_sizes: Sequence[Sequence[int]]) -> None:
        """Follow a leader whose log starts inside a batch; the follower gets the whole batch."""
        self.begin_anew(self.end + 1 + ahead)
        added = self._place([self._batch([1, *sizes]) for sizes in batch_sizes], self.epoch, self.end - 1)
        first = added[0].base_offset
        self._expect(replace(self._expectation(added), start_least=first, end_least=first))
        assert self.log.append_as_follower(b"".join(batch.data for batch in added)) == added[-1].next_offset - 1
        assert self.log.log_start_offset == self.start
        self._appended(added)

    def truncate_to(self, offset: int) -> None:
        if offset < self.start:
            self.begin_anew(offset)
            return
        least, most = self._ends_of_truncation(offset)
        self.durable_end = min(self.durable_end, least)
        # The batch that contains the log start may be truncated, and the start with it.
        self._expect(replace(self._expectation(), start_least=min(self.start, least)))
        end = self.log.truncate_to(Offset(offset))
        assert least <= end <= max(most, self.start), f"truncated to {end}, outside [{least}, {most}]"
        assert min(self.start, end) <= self.log.log_start_offset <= self.start
        self.start = self.log.log_start_offset
        self._truncated(end)
        self._settle()

    def _ends_of_truncation(self, offset: int) -> tuple[int, int]:
        """Return the bounds of the end of a log that was truncated there; they differ only after a gap."""
        if offset >= self.end:
            return self.end, self.end
        if self.is_sparse:
            return max((batch.next_offset for batch in self.batches if batch.next_offset <= offset), default=0), offset
        end = next(batch.base_offset for batch in self.batches if batch.next_offset > offset)
        return end, end

    def begin_anew(self, offset: int) -> None:
        before = replace(self._expectation(), end_least=self.start, is_going=True)
        after = Expectation(
            batches=(), epochs=(), end_least=offset, start_least=offset, start_most=offset, cleaned_end=0
        )
        self._expect(before, after)
        self.log.truncate_fully_and_start_at(Offset(offset))
        self.start = self.end = self.durable_end = offset
        self.batches, self.epochs, self._idempotent, self.next_sequence, self.cleaned_end = [], [], [], {}, 0
        self.is_sparse = False
        self._settle()

    # --- durability ------------------------------------------------------------------------------------------

    def prepare_sync(self) -> None:
        if self.ticket is None:
            self.ticket = self.log.prepare_sync()

    def run_sync(self) -> None:
        if self.ticket is not None and not self.ticket.has_run:
            self.ticket.run()

    def complete_sync(self) -> None:
        if self.ticket is not None:
            self.run_sync()
            end = min(self.ticket.end_offset, self.end)
            self.log.complete_sync(self.ticket, run_now)
            self.ticket = None
            assert self.log.synced_end_offset >= end
            self._settle()

    def roll(self) -> None:
        run_now(self.log.rolling())
        self._settle()

    def roll_if_due(self, age_ms: int) -> None:
        self.now_ms += age_ms
        run_now(self.log.rolling_if_due(self.now_ms))
        self._settle()

    # --- the start of the log --------------------------------------------------------------------------------

    def advance_log_start(self, offset: int) -> None:
        self._expect(replace(self._expectation(), start_most=offset))
        run_now(self.log.advancing_log_start(Offset(offset)))
        assert self.log.log_start_offset == offset
        self._started_at(offset)

    def apply_retention(self, config: TopicConfig, high_watermark: int) -> None:
        """Apply retention with a configuration of its own."""
        high_watermark = max(self.start, high_watermark)
        before, size_bytes = self.config, self.log.size_bytes
        self.reconfigure(config)
        self._expect(replace(self._expectation(), start_most=high_watermark))
        self.to_remove += run_now(self.log.applying_retention(self.now_ms, Offset(high_watermark)))
        start = self.log.log_start_offset
        assert self.start <= start <= high_watermark
        dropped = records_by_offset([batch for batch in self.batches if batch.next_offset <= start])
        by_size = config.retention_bytes >= 0 and self.log.size_bytes >= min(size_bytes, config.retention_bytes)
        by_age = config.retention_ms >= 0 and all(
            record.timestamp_ms < self.now_ms - config.retention_ms for record in dropped.values()
        )
        assert not dropped or by_size or by_age, f"{len(dropped)} records went too early"
        self._started_at(start)
        self.reconfigure(before)

    def compact(self, config: TopicConfig, high_watermark: int) -> bool:
        """Compact the log; return False if there was nothing to clean."""
        log, directory = self.log, self.log.directory
        upper = log.transactions.last_stable_offset(Offset(high_watermark))
        plan = plan_cleaning(log.segments(), config, log.cleaned_end_offset, upper, self.now_ms)
        if plan is None:
            return False
        producers = log.transactions.kept_batches()
        aborted = log.transactions.aborted_entries(plan.segments[0].base_offset)
        result = clean(self.disk, directory, plan, config, self.now_ms, MAP_BYTES, producers, lambda _: None, aborted)
        stages = self._cleaned_stages(result)
        self._check_cleaned(self.batches, stages[-1], result.end_offset)
        self._expect(*(replace(self._expectation(), batches=stage, cleaned_end=self.end) for stage in stages))
        segments = open_cleaned(self.disk, directory, result, self.config.index_interval_bytes)
        self.to_remove += run_now(log.installing_cleaned(result, segments))
        assert log.cleaned_end_offset == result.end_offset
        self.batches = list(stages[-1])
        self.cleaned_end = result.end_offset
        self.is_sparse = self.is_sparse or bool(result.groups)
        self._settle()
        return True

    def _cleaned_stages(self, result: CleaningResult) -> list[tuple[Stored, ...]]:
        """Return the batches after none, one, two ... of the groups were swapped."""
        stages = [tuple(self.batches)]
        for group in result.groups:
            before = [batch for batch in stages[-1] if batch.next_offset <= group.base_offset]
            behind = [batch for batch in stages[-1] if batch.base_offset >= group.end_offset]
            cleaned = [Stored.written(bytes(batch)) for _, batch in split(self.disk.read_file(group.path))]
            stages.append((*before, *(batch for batch in cleaned if batch.next_offset > self.start), *behind))
        return stages

    def _check_cleaned(self, before: Sequence[Stored], after: Sequence[Stored], end: int) -> None:
        """Check that each key's newest record is left, and no record was changed. Raises Broken."""
        aborted = {batch.base_offset for batch in outcomes(before, MarkerType.ABORT)}
        had = records_by_offset(
            [batch for batch in before if batch.base_offset not in aborted and not is_marker(batch)]
        )
        kept = records_by_offset(
            [batch for batch in after if batch.base_offset not in aborted and not is_marker(batch)]
        )
        newest = {record.key: offset for offset, record in had.items() if offset < end}
        for offset, record in kept.items():
            if had[offset] != record:
                raise Broken(f"compaction changed the record at {offset}")
        for offset, record in had.items():
            is_needed = offset >= end or newest[record.key] == offset
            if is_needed and offset not in kept and (offset >= end or record.value is not None):
                raise Broken(f"compaction lost the record at {offset}")

    def remove_deleted(self) -> None:
        """Delete the files that retention or compaction has removed from the log."""
        while self.to_remove:
            self.disk.remove(self.to_remove.pop(0))

    def reconfigure(self, config: TopicConfig) -> None:
        self.config = config
        self.log.reconfigure(config)

    # --- stops -----------------------------------------------------------------------------------------------

    def reopen(self, clean_shutdown: bool) -> None:
        if self.ticket is not None:
            self.complete_sync()
        self.log.close()
        self.durable_end = self.end
        self._expect(self._expectation())
        self.log = open_log(self.disk, self.config, clean_shutdown)
        self.to_remove.clear()
        self._settle()

    def crash(self, mode: CrashMode, random: Random) -> None:
        """Fail the power between two operations; the recovered log is then used further."""
        self.disk.crash(mode, random)
        self.ticket = None
        self.to_remove.clear()
        self.log = open_log(self.disk, self.config)
        meets(self.expectations, self.log)
        self._truncated(self.log.log_end_offset)
        self._started_at(self.log.log_start_offset)
        # Records that are deleted need not be durable: with them, the log may lose the state of their producer.
        known = self.log.producers
        self._keep_idempotent(lambda batch: batch.next_offset > self.start or batch.producer_id in known)

    # --- the list --------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check that the log and the list are equal."""
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        assert self.durable_end <= log.synced_end_offset <= self.end
        self._expectation().check(log)

    def check_lookup(self, timestamp_ms: int) -> None:
        """Check that look-ups by time find what the list has."""
        records = [(offset, record.timestamp_ms) for offset, record in records_by_offset(self.batches).items()]
        records = [(offset, found_ms) for offset, found_ms in records if offset >= self.start]
        first = next(((offset, found_ms) for offset, found_ms in records if found_ms >= timestamp_ms), None)
        found = offset_at(self.log, timestamp_ms)
        assert found == first, f"the first at or after {timestamp_ms} is {first}, found {found}"
        newest_ms = max((found_ms for _, found_ms in records), default=None)
        expected = next(((offset, found_ms) for offset, found_ms in records if found_ms == newest_ms), None)
        found = newest(self.log)
        assert found == expected, f"the newest is {expected}, found {found}"

    def check_committed(self) -> None:
        """Check that a consumer of committed records reads the records of the list that are, and all of them."""
        log = self.log
        log.transactions.high_watermark_advanced(log.log_end_offset)
        stable = log.transactions.last_stable_offset(log.log_end_offset)
        undecided = outcomes(self.batches, None)
        first = max(self.start, min((batch.base_offset for batch in undecided), default=self.end))
        assert stable <= first, f"the transaction at {first} is open, but {stable} is stable"
        # The records of an open transaction may all be deleted.
        assert undecided or stable in (self.start, self.end), f"only {stable} of {self.end} is stable"
        aborted = {batch.base_offset for batch in outcomes(self.batches, MarkerType.ABORT)}
        batches = [batch for batch in self.batches if batch.next_offset <= stable]
        expected = records_by_offset(
            [each for each in batches if each.base_offset not in aborted and not is_marker(each)]
        )
        read = [(read_header(batch.data), batch.data) for batch in batches]
        found = committed_records(read, log.transactions.aborted(Offset(self.start), stable))
        assert [record.offset for record in found] == list(expected)

    def _batch(
        self,
        value_sizes: Sequence[int],
        producer_id: int = -1,
        producer_epoch: int = -1,
        sequence: int = -1,
        transactional: bool = False,
    ) -> bytes:
        records = []
        for size in value_sizes:
            self.count += 1
            self.now_ms += 1 + self.count % 7
            value = f"{self.count}:".encode() + bytes(33 + (self.count + index) % 90 for index in range(size))
            key = f"key {self.count * 7 % 19}".encode()
            records.append(Record(0, self.now_ms - self.count % 5, key, None if self.count % 23 == 0 else value))
        return build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
            transactional=transactional,
        )

    def _place(
        self, requests: Sequence[bytes], epoch: int, end: int | None = None, append_time_ms: int | None = None
    ) -> list[Stored]:
        added: list[Stored] = []
        next_offset = self.end if end is None else end
        for request in requests:
            added.append(Stored.of(request, next_offset, epoch, append_time_ms))
            next_offset = added[-1].next_offset
        return added

    def _appended(self, added: Sequence[Stored]) -> None:
        if not added:
            return
        self.batches += added
        self._idempotent += [batch for batch in added if batch.producer_id >= 0 and batch.base_sequence >= 0]
        self.end = added[-1].next_offset
        self.epochs = list(_epochs_with(self.epochs, added))
        self._settle()

    def _truncated(self, end: int) -> None:
        self.batches = [batch for batch in self.batches if batch.next_offset <= end]
        self.epochs = [(epoch, first) for epoch, first in self.epochs if first < end]
        self.end = end
        self.durable_end = min(self.durable_end, end)
        self.cleaned_end = min(self.cleaned_end, end)
        self._keep_idempotent(lambda batch: batch.next_offset <= end)

    def _keep_idempotent(self, is_known: Callable[[Stored], bool]) -> None:
        self._idempotent = [batch for batch in self._idempotent if is_known(batch)]
        self.next_sequence = {
            batch.producer_id: (batch.producer_epoch, batch.next_sequence) for batch in self._idempotent
        }

    def _started_at(self, start: int) -> None:
        self.start = start
        self.batches = [batch for batch in self.batches if batch.next_offset > start]
        # The epoch that contains the start is kept from there on, and removed by a truncation to the start.
        below = [(epoch, first) for epoch, first in self.epochs if first < start]
        above = [(epoch, first) for epoch, first in self.epochs if first >= start]
        self.epochs = [*below[-1:], *above]
        self._settle()

    def _expectation(self, added: Sequence[Stored] = ()) -> Expectation:
        """Return the expectation that no synced batch is lost, and no batch is there that was not appended."""
        return Expectation(
            batches=(*self.batches, *added),
            epochs=tuple(_epochs_with(self.epochs, added)),
            end_least=self.durable_end,
            start_least=self.start,
            start_most=self.start,
            cleaned_end=self.cleaned_end,
        )

    def _settle(self) -> None:
        self.durable_end = self.log.synced_end_offset
        self._expect(self._expectation())

    def _expect(self, *expectations: Expectation) -> None:
        self.expectations = expectations


def _epochs_with(epochs: Sequence[tuple[int, int]], added: Sequence[Stored]) -> Iterator[tuple[int, int]]:
    yield from epochs
    latest = epochs[-1][0] if epochs else -1
    for batch in added:
        if batch.epoch != latest:
            latest = batch.epoch
            yield latest, batch.base_offset
