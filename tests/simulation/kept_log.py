"""A real log on a simulated disk, as one replica keeps it: with power losses, retention, and compaction in phases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final, NamedTuple

from kraft.log.append_work import CLIENT, AppendOrigin
from kraft.log.change import run_now
from kraft.log.cleaning.cleaned_segments import CleaningResult, open_cleaned
from kraft.log.cleaning.cleaning_plan import CleaningPlan, plan_cleaning
from kraft.log.cleaning.compaction import CleaningAborted, clean
from kraft.log.format.record_batch import BatchHeader, Buffer, build_batch, decode_batch, split
from kraft.log.format.record_codec import Record
from kraft.log.integrity.directory import FileFinding, verify_partition
from kraft.log.partition_log import PartitionLog
from kraft.log.segment.aborted_index import AbortedEntries
from kraft.log.segment.segment import Segment
from kraft.log.topic_config import TopicConfig
from kraft.model.errors import Corruption, InvalidBatch
from kraft.model.ids import LeaderEpoch, Offset
from tests.support.disks.sim_content import CrashMode
from tests.support.log.log_building import NOW_MS, sync
from tests.support.log.log_expectations import read_bytes
from tests.support.log.modelled_log import MAP_BYTES, new_disk, open_log
from tests.support.log.transactional_log import committed_records

SMALL: Final = TopicConfig(segment_bytes=500, index_interval_bytes=200)
BYTES_OF_RECORD: Final = 130
"""About as much as one record takes, in a batch of its own."""


class KeptRecord(NamedTuple):
    """What consumers, and later leaders, see of a record."""

    leader_epoch: int
    producer_id: int
    is_control: bool
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True)
class _Cleaning:
    """A compaction that a thread of the log cleaner would be doing."""

    plan: CleaningPlan
    config: TopicConfig
    producers: Mapping[int, int]
    aborted: tuple[AbortedEntries, ...]
    result: CleaningResult | None = None
    segments: Sequence[Segment] = field(default_factory=list)


class KeptLog:
    """Implements `SimulatedLog`. Raises Corruption wherever the log takes its own files for damaged."""

    def __init__(self) -> None:
        self.disk = new_disk()
        self.log: PartitionLog = open_log(self.disk, SMALL)
        self._cleaning: _Cleaning | None = None
        self._to_remove: list[str] = []
        self._batches: Sequence[tuple[BatchHeader, Buffer]] | None = None
        self._records: dict[int, KeptRecord] | None = None

    # --- content -----------------------------------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def durable_end(self) -> int:
        return self.log.synced_end_offset

    def epoch_at(self, offset: Offset, /) -> int:
        return self.log.epoch_at(offset)

    def end_offset_for_epoch(self, epoch: LeaderEpoch, /) -> tuple[int, int]:
        return self.log.end_offset_for_epoch(epoch)

    def read(self, offset: int, records_max: int) -> bytes:
        return self.log.read(Offset(offset), records_max * BYTES_OF_RECORD, self.log.log_end_offset)

    @property
    def batches(self) -> Sequence[tuple[BatchHeader, Buffer]]:
        """Every batch that reaches the log start."""
        if self._batches is None:
            self._batches = split(read_bytes(self.log))
        return self._batches

    @property
    def records(self) -> dict[int, KeptRecord]:
        """Every record, by offset."""
        if self._records is None:
            start = self.log.log_start_offset
            self._records = {
                record.offset: KeptRecord(
                    header.leader_epoch, header.producer_id, header.is_control, record.key, record.value
                )
                for header, batch in self.batches
                for record in decode_batch(batch)
                if record.offset >= start
            }
        return self._records

    @property
    def stable_end(self) -> int:
        """The last stable offset, if all here is replicated."""
        return self.log.transactions.last_stable_offset(self.log.log_end_offset)

    def read_committed(self) -> set[int]:
        """Return the offsets of the records that a consumer of committed records reads, if all here is replicated."""
        stable = self.stable_end
        batches = [(header, batch) for header, batch in self.batches if header.next_offset <= stable]
        aborted = self.log.transactions.aborted(self.log.log_start_offset, Offset(stable))
        return {record.offset for record in committed_records(batches, aborted)}

    def _changed(self) -> None:
        self._batches = self._records = None

    # --- appends and truncations -------------------------------------------------------------------------------------

    def append(self, leader_epoch: int, value: int) -> None:
        self.append_batch(leader_epoch, build_batch([keyed_record("plain", value)]))

    def append_batch(self, leader_epoch: int, batch: bytes, origin: AppendOrigin = CLIENT) -> None:
        """Append as the leader. Raises Refusal."""
        self.log.append_as_leader(batch, LeaderEpoch(leader_epoch), NOW_MS, run_now, origin=origin)
        self._changed()

    def append_as_follower(self, data: bytes) -> bool:
        try:
            self.log.append_as_follower(data)
        except InvalidBatch:
            return False
        finally:
            self._changed()
        return True

    def sync(self) -> None:
        if self.log.dirty:
            sync(self.log)

    def truncate_to(self, offset: int) -> None:
        self.log.truncate_to(Offset(offset))
        self._changed()

    def restart_at(self, offset: int) -> None:
        self.log.truncate_fully_and_start_at(Offset(offset))
        self._changed()

    # --- upkeep ------------------------------------------------------------------------------------------------------

    def roll(self) -> None:
        run_now(self.log.rolling())

    def advance_log_start(self, offset: int) -> None:
        run_now(self.log.advancing_log_start(Offset(offset)))
        self._changed()

    def apply_retention(self, retention_bytes: int, high_watermark: int) -> None:
        self.log.reconfigure(replace(SMALL, retention_bytes=retention_bytes))
        self._to_remove += run_now(self.log.applying_retention(NOW_MS, Offset(high_watermark)))
        self.log.reconfigure(SMALL)
        self._changed()

    def remove_deleted(self) -> None:
        """Remove the files of segments that are no longer in the log, as it is done some time later."""
        while self._to_remove:
            # A log that was begun anew has removed them itself.
            with suppress(FileNotFoundError):
                self.disk.remove(self._to_remove.pop(0))

    def continue_cleaning(self, high_watermark: int) -> None:
        """Take the next step of a compaction: plan it, write the cleaned files, or replace the segments."""
        cleaning, self._cleaning = self._cleaning, None
        if cleaning is None:
            self._cleaning = self._planned(high_watermark)
        elif cleaning.result is None:
            self._cleaning = self._cleaned(cleaning)
        else:
            self._to_remove += run_now(self.log.installing_cleaned(cleaning.result, cleaning.segments))
            self._changed()

    def _planned(self, high_watermark: int) -> _Cleaning | None:
        log = self.log
        config = replace(
            SMALL, cleanup_policy=("compact", "delete"), min_cleanable_dirty_ratio=0.0, delete_retention_ms=0
        )
        upper = log.transactions.last_stable_offset(Offset(high_watermark))
        plan = plan_cleaning(log.segments(), config, log.cleaned_end_offset, upper, NOW_MS)
        if plan is None:
            return None
        aborted = log.transactions.aborted_entries(plan.segments[0].base_offset)
        return _Cleaning(plan, config, log.transactions.kept_batches(), aborted)

    def _cleaned(self, cleaning: _Cleaning) -> _Cleaning | None:
        """Write the cleaned files. Rot in segments that were truncated or deleted since they were planned is none."""
        directory, plan, config = self.log.directory, cleaning.plan, cleaning.config
        producers, aborted = cleaning.producers, cleaning.aborted
        try:
            result = clean(self.disk, directory, plan, config, NOW_MS, MAP_BYTES, producers, lambda _: None, aborted)
            segments = open_cleaned(self.disk, directory, result, config.index_interval_bytes)
        except CleaningAborted:
            return None
        except Corruption:
            if set(plan.segments) <= set(self.log.segments()):
                raise
            return None
        return _Cleaning(plan, config, producers, aborted, result, segments)

    # --- stops -------------------------------------------------------------------------------------------------------

    def lose_power(self, mode: CrashMode, random: Random) -> None:
        """Lose what the mode says, and recover."""
        self.disk.crash(mode, random)
        self._opened(clean_shutdown=False)

    def stop_and_start(self) -> None:
        self.log.close()
        self._opened(clean_shutdown=True)

    def _opened(self, *, clean_shutdown: bool) -> None:
        self.log = open_log(self.disk, SMALL, clean_shutdown)
        self._cleaning = None
        self._to_remove.clear()
        self._changed()

    def faults_when_closed(self) -> list[FileFinding]:
        """Close the log, and return what `kraft log verify` finds in its directory. The log is open again after it."""
        self.log.close()
        found = verify_partition(self.disk, self.log.directory, was_closed=True).findings
        self._opened(clean_shutdown=True)
        return [finding for finding in found if not finding.is_note]


def keyed_record(kind: str, value: int) -> Record:
    """Return a record of a unique value; every fifth has the same key, and every eighth is a tombstone."""
    text = None if value % 8 == 7 else str(value).encode()
    return Record(0, NOW_MS, f"{kind} {value % 5}".encode(), text)
