"""The files of one log: its segments, its checkpoint, its leader epochs, and the snapshots of its producers.

The meaning of an append, the committed records and the time to roll are decided in partition_log.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from kraft.log.change import Change, run_now
from kraft.log.cleaning.cleaned_segments import CleanedGroup, CleaningResult
from kraft.log.cleaning.segment_swap import swap_in
from kraft.log.disk import Disk
from kraft.log.epoch_file import EpochFile
from kraft.log.format.control_record import Markers, has_abort
from kraft.log.format.record_batch import BatchHeader, Buffer
from kraft.log.group_commit import GroupCommit
from kraft.log.log_health import LogHealth
from kraft.log.recovery.log_checkpoint import LogCheckpoint, write_checkpoint
from kraft.log.recovery.producer_state import ProducerStates
from kraft.log.recovery.recovery import RecoveredLog, rebuilding_producers
from kraft.log.segment import lookup
from kraft.log.segment.rolling import begin_segment
from kraft.log.segment.segment import Segment
from kraft.log.topic_config import TopicConfig
from kraft.log.transactions.aborted import AbortedTxn
from kraft.model.ids import Offset


class LogFiles:
    """Owner of the segments, the leader epochs and the checkpoint: nothing else changes them.

    A change is durable when it ends. Changes raise OSError from the disk, and Refusal where documented. After a crash
    no file beside the segments may claim more than the segments hold.
    """

    def __init__(
        self, disk: Disk, directory: str, recovered: RecoveredLog, config: TopicConfig, health: LogHealth
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._health = health
        self._segments = list(recovered.segments)
        self._checkpoint = recovered.checkpoint
        self.epochs = EpochFile(disk, directory, recovered, health)
        self._snapshots = recovered.snapshots
        self.sync = GroupCommit()
        self._is_settled = False
        """True if the files beside the segments say all of the log: it has not changed since they were written."""
        self._being_replaced: Sequence[Segment] = ()
        """Segments whose files a thread is swapping: their names may already belong to other content."""
        self._is_closed = False
        self._begun: Segment | None = None
        """A segment that a change has begun and not yet added; closed with the log if the change is cancelled."""
        run_now(self._begin(config))
        self.log_end = self.active.next_offset
        """The offset after the last batch; during a change, the end before it."""
        self.sync.mark_durable_up_to(self.log_end)
        self._is_settled = recovered.has_indexes and self._says_all()

    def _begin(self, config: TopicConfig) -> Change[None]:
        # Before a segment begins: epochs of dropped records must not be found beside an empty segment.
        yield from self.epochs.write_changed()
        if not self._segments:
            yield from self._begin_segment(self._checkpoint.log_start_offset, config)
        else:
            # An earlier process may have left its writes in the page cache only; from here on they count as durable.
            yield self.active.file.sync

    def _says_all(self) -> bool:
        """Return whether the next recovery has no batch to read, and no file to write."""
        checkpoint, end = self._checkpoint, self.log_end
        if end == 0 and checkpoint == LogCheckpoint():
            return True
        names = tuple(segment.base_offset for segment in self._segments) if checkpoint.is_sparse else ()
        is_current = checkpoint.is_latest and checkpoint.recovery_point == end and checkpoint.segments == names
        return is_current and self._snapshots.offsets[-1:] == (end,)

    # --- facts -----------------------------------------------------------------------------------------------

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments in order; only the last one grows."""
        return self._segments

    @property
    def active(self) -> Segment:
        """The segment that grows."""
        return self._segments[-1]

    @property
    def checkpoint(self) -> LogCheckpoint:
        return self._checkpoint

    @property
    def log_start(self) -> Offset:
        start = self._checkpoint.log_start_offset
        return max(start, self._segments[0].base_offset) if self._segments else start

    def still_has(self, segments: Sequence[Segment]) -> bool:
        """Return whether the files of all these segments are in place under their names, as the loop sees it now."""
        return all(segment in self._segments and segment not in self._being_replaced for segment in segments)

    def read(self, start: Offset, bytes_max: int, upper: Offset) -> bytes:
        """Return whole batches, as `PartitionLog.read` does."""
        end, is_sparse = self.log_end, self._checkpoint.is_sparse
        return lookup.read(self._segments, start, bytes_max, min(upper, end), self.epochs.cache, is_sparse, end)

    def rebuilding_producers(self) -> Change[ProducerStates]:
        """Return the state of the producers, from the snapshots and the batches."""
        return rebuilding_producers(self._snapshots, [*self._segments], self.log_end)

    # --- growing ---------------------------------------------------------------------------------------------

    def append(self, pieces: Sequence[Buffer], headers: Sequence[BatchHeader]) -> None:
        """Write batches that continue the log, in epochs that `prepare` has written. Raises OSError."""
        active, records = self._segments[-1], 0
        self._is_settled = False
        for header in headers:
            records += header.record_count
        try:
            size = active.append(pieces, headers)
        except OSError:
            self.epochs.drop_unused(self.log_end)
            raise
        self.log_end = active.next_offset
        sync = self.sync
        sync.unsynced_records += records
        sync.unsynced_bytes += size
        sync.bytes_since_checkpoint += size

    def note_aborted(self, aborted: AbortedTxn) -> None:
        """Note a transaction that a marker in the last batches has aborted."""
        self.active.aborted.append(aborted)

    def _begin_segment(self, base_offset: Offset, config: TopicConfig) -> Change[None]:
        directory = self._directory

        def begin() -> Segment:
            self._begun = begin_segment(self._disk, directory, base_offset, config)
            return self._begun

        segment: Segment = yield begin
        self._segments.append(segment)
        self._require_aborted_index()
        self._begun = None

    def roll(self, config: TopicConfig, producers: ProducerStates) -> Change[None]:
        """Close the active segment to appends and begin a new one. Also raises Refusal."""
        # The order matters: recovery relies on all segments but the last being durable.
        old, self._is_settled = self.active, False
        yield from self._health.sync(old.file)
        yield from old.finish()
        self.sync.mark_durable_up_to(self.log_end)
        yield from self._write_producers(producers)
        yield from self._begin_segment(self.log_end, config)
        self.sync.note_roll()
        old.release_indexes()
        yield from self._drop_stale_snapshots()

    def settle(self, producers: ProducerStates) -> Change[None]:
        """Make everything durable and bring the files beside the segments up to date. Also raises Refusal.

        What is durable is not synced again, and what the files say already is not written again.
        """
        if self.sync.synced_end < self.log_end:
            yield from self._health.sync(self.active.file)
        self.sync.mark_durable_up_to(self.log_end)
        if not self._is_settled:
            yield from self.active.write_indexes()
            yield from self._write_producers(producers)
            yield from self._drop_stale_snapshots()
            self._is_settled = self._checkpoint.recovery_point == self.log_end

    def note_producers_changed(self) -> None:
        """Note that the state of the producers is no longer what the snapshot and the batches say."""
        self._is_settled = False

    def advance_recovery_point(self, producers: ProducerStates) -> Change[None]:
        """Move the recovery point to the durable end, so that recovery does not read again what is below."""
        yield from self.active.write_indexes()
        # The snapshot may be ahead of the durable end; recovery uses it only if the log still reaches that far.
        yield from self._write_producers(producers)
        yield from self._drop_stale_snapshots()

    def begins_aborts(self, markers: Markers) -> bool:
        """Return whether `prepare` has to run before these markers are appended: one is the log's first abort."""
        return self._checkpoint.aborted_from is None and has_abort(markers)

    def prepare(self, headers: Sequence[BatchHeader], markers: Markers) -> Change[None]:
        """Write what recovery must know before it finds these batches. Also raises Refusal."""
        if self.begins_aborts(markers):
            # Recovery then misses a lost index.
            yield from self._save(replace(self._checkpoint, aborted_from=self.active.base_offset))
            self._require_aborted_index()
        if self.epochs.begins(headers):
            yield from self.epochs.begin(headers, self.log_end)

    def _require_aborted_index(self) -> None:
        if self._checkpoint.aborted_from is not None:
            self._is_settled = False
            self.active.aborted.require_file()

    # --- checkpoint and producers ----------------------------------------------------------------------------

    def _save(self, checkpoint: LogCheckpoint, kept: Callable[[Offset], bool] = lambda _: True) -> Change[None]:
        """Write the checkpoint if it differs from the last one. `kept` is false for segments that may go afterwards."""
        bases = (segment.base_offset for segment in self._segments) if checkpoint.is_sparse else ()
        checkpoint = replace(checkpoint, segments=tuple(filter(kept, bases)))
        if checkpoint != self._checkpoint:
            directory = self._directory
            yield partial(write_checkpoint, self._disk, directory, checkpoint)
            if checkpoint.log_start_offset != self._checkpoint.log_start_offset:
                # Twice, so that the earlier file has it too: deleted segments must not seem to be missing.
                yield partial(write_checkpoint, self._disk, directory, checkpoint)
            self._checkpoint = checkpoint

    def mark_sparse(self) -> Change[None]:
        """Note that offsets may be missing, before the first one is: recovery would take the hole for corruption."""
        yield from self._save(replace(self._checkpoint, is_sparse=True))

    def set_start(self, offset: Offset) -> Change[None]:
        """Set the start of an empty log, which has no epochs."""
        yield from self._save(replace(self._checkpoint, log_start_offset=offset))

    def advance_start(self, offset: Offset) -> Change[None]:
        """Delete the records below `offset`; the segment that holds them may stay."""
        yield from self._save(replace(self._checkpoint, log_start_offset=offset))
        yield from self.epochs.start_at(offset)

    def _write_producers(self, producers: ProducerStates) -> Change[None]:
        """Write the producers' state, then move the recovery point to the durable end."""
        recovery_point = self.sync.synced_end
        yield from self._snapshots.write(self.log_end, producers.states)
        yield from self._save(replace(self._checkpoint, recovery_point=recovery_point))

    def _drop_stale_snapshots(self) -> Change[None]:
        """Remove all snapshots but the latest and one per segment, which truncations need."""
        bases = [segment.base_offset for segment in self._segments]
        yield from self._snapshots.keep_only([*bases, *self._snapshots.offsets[-1:]])

    def take_over(self, original: LogFiles, producers: ProducerStates) -> Change[None]:
        """Take over checkpoint and epochs of `original`, which has the same batches, and the state of `producers`."""
        self._is_settled = False
        # Not the recovery point, which is a claim about these files.
        checkpoint = replace(
            self._checkpoint,
            log_start_offset=original.log_start,
            cleaned_end_offset=original.checkpoint.cleaned_end_offset,
            is_sparse=self._checkpoint.is_sparse or original.checkpoint.is_sparse,
        )
        yield from self._save(checkpoint)
        yield from self.epochs.take_over(original.epochs.cache)
        yield from self._snapshots.write(self.log_end, producers.states)

    # --- retention -------------------------------------------------------------------------------------------

    def drop_first(self, count: int) -> Change[list[str]]:
        """Delete the first `count` segments and move the log start after them. Returns files to remove."""
        # The start moves first: a crash in between leaves files below it, which recovery removes.
        yield from self.advance_start(max(self.log_start, self._segments[count].base_offset))
        dropped = self._segments[:count]
        del self._segments[:count]
        for segment in dropped:
            self.sync.close_file(segment.file)
        files: list[str] = yield lambda: [path for segment in dropped for path in segment.rename_deleted()]
        yield from self._drop_stale_snapshots()
        return files

    # --- compaction ------------------------------------------------------------------------------------------

    def install(self, result: CleaningResult, cleaned: Sequence[Segment]) -> Change[list[str]]:
        """Replace segments by the cleaned ones. Returns files to remove. Raises only Refusal."""
        files: list[str] = []
        if result.groups:
            merged = {old.base_offset for group in result.groups for old in group.replaced[1:]}
            sparse = replace(self._checkpoint, is_sparse=True)
            yield from self._health.guarding(self._save(sparse, lambda base_offset: base_offset not in merged))
        directory = self._directory
        for group, segment in zip(result.groups, cleaned, strict=True):
            replaced = self._replaced_by(group)
            yield from self._health.guarding(_keep_indexes(replaced))
            self._being_replaced = replaced
            try:
                files += yield partial(swap_in, self._disk, directory, group.base_offset, group.end_offset)
            except OSError as error:
                # Recovery completes half a swap; until then it is unknown which files hold what.
                self._health.fail(error)
            else:
                self._replace(replaced, segment)
            finally:
                self._being_replaced = ()
            yield from self._write_indexes(segment)
        checkpoint = replace(self._checkpoint, cleaned_end_offset=result.end_offset)
        yield from self._health.guarding(self._save(checkpoint))
        yield from self._health.guarding(self._drop_stale_snapshots())
        return files

    def _replaced_by(self, group: CleanedGroup) -> list[Segment]:
        first = lookup.segment_number(self._segments, group.base_offset)
        return self._segments[first : first + len(group.replaced)]

    def _replace(self, replaced: Sequence[Segment], cleaned: Segment) -> None:
        if any(segment.aborted.has_file for segment in replaced):
            cleaned.aborted.require_file()
        first = self._segments.index(replaced[0])
        self._segments[first : first + len(replaced)] = [cleaned]
        for segment in replaced:
            self.sync.close_file(segment.file)

    def _write_indexes(self, cleaned: Segment) -> Change[None]:
        try:
            yield from cleaned.write_indexes()
            cleaned.release_indexes()
        except OSError as error:
            # On a full disk they stay in memory, and recovery rebuilds them.
            self._health.tolerate_shortage(error)

    # --- truncation ------------------------------------------------------------------------------------------

    def truncate_to(self, offset: Offset) -> Change[None]:
        """Drop every batch that reaches `offset`, which is above the start of the first segment.

        Raises Refusal if the disk fails half-way or is full: the log has failed then.
        """
        last = self._segments[lookup.segment_number(self._segments, Offset(offset - 1))]
        self._is_settled = False
        yield from self._lower_claims(offset, last.base_offset)
        try:
            yield from self._cut_off(offset)
        except OSError as error:
            # The rest may end below `log_end`: an append there would leave a hole.
            self._health.fail(error)
        self._require_aborted_index()
        self.log_end = self.active.next_offset
        self.sync.mark_durable_up_to(self.log_end)
        yield from self.epochs.cut(self.log_end)

    def _lower_claims(self, offset: Offset, last_base: Offset) -> Change[None]:
        """Remove from snapshots and checkpoint what they say of records from `offset` on, before the log ends there.

        `last_base` is where its last segment will begin; it is not below `offset` if no segment stays.
        """
        before, directory = self._checkpoint, self._directory
        yield from self._snapshots.remove_above(offset)
        yield lambda: self._disk.sync_dir(directory)
        yield from self._save(
            replace(
                before,
                recovery_point=min(before.recovery_point, last_base),
                cleaned_end_offset=min(before.cleaned_end_offset, offset),
                aborted_from=None if before.aborted_from is None else min(before.aborted_from, last_base),
            ),
            lambda base_offset: base_offset <= last_base < offset,
        )

    def _cut_off(self, offset: Offset) -> Change[None]:
        # The last segment is removed first, so that a crash in between leaves a log without a hole.
        while len(self._segments) > 1 and self._segments[-1].base_offset >= offset:
            yield from self._remove_last()
        yield from self._segments[-1].truncate_to(offset)

    def restart_at(self, offset: Offset, config: TopicConfig) -> Change[None]:
        """Drop everything and begin an empty segment at `offset`."""
        self._is_settled = False
        yield from self._lower_claims(Offset(0), Offset(0))
        while self._segments:
            yield from self._remove_last()
        yield from self._save(replace(self._checkpoint, log_start_offset=offset, is_sparse=False, aborted_from=None))
        # Before a segment exists: recovery of a log with segments would keep the epochs below its end.
        yield from self.epochs.cut(Offset(0))
        yield from self._begin_segment(offset, config)
        self.log_end = offset
        self.sync.restart_at(offset)

    def _remove_last(self) -> Change[None]:
        segment, directory = self._segments.pop(), self._directory
        self.sync.close_file(segment.file)
        yield lambda: self._remove_files(segment, directory)

    def _remove_files(self, segment: Segment, directory: str) -> None:
        for path in segment.rename_deleted():
            self._disk.remove(path)
        self._disk.sync_dir(directory)

    # --- directory and close ---------------------------------------------------------------------------------

    def moved_to(self, directory: str) -> None:
        """Note that the directory was renamed to this."""
        self._directory = directory
        self.epochs.moved_to(directory)
        self._snapshots.moved_to(directory)
        for segment in self._segments:
            segment.moved_to(directory)

    def close(self) -> None:
        """Close the files as they are."""
        if self._is_closed:
            return
        self._is_closed = True
        for segment in self._segments:
            self.sync.close_file(segment.file)
        if self._begun is not None:
            self._begun.file.close()
        self._health.failure = self._health.failure or "the log is closed"


def _keep_indexes(segments: Sequence[Segment]) -> Change[None]:
    """Keep the indexes in memory while their files are renamed, so that reads go on without a rebuild on the loop."""
    stored = yield lambda: [(segment.stored_index(), segment.aborted.stored()) for segment in segments]
    for segment, (index, aborted) in zip(segments, stored, strict=True):
        segment.keep_index(index)
        segment.aborted.keep(aborted)


def parent_of(path: str) -> str:
    head, separator, _ = path.rpartition("/")
    return head or separator or "."
