"""All files of one log: its segments, and beside them its checkpoint, its leader epochs, snapshots of its producers.

What an append means, which records are committed and when to roll is the log's to know (partition_log.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from kraft.log.change import Change, run_now
from kraft.log.cleaning.cleaned_segments import CleanedGroup, CleaningResult
from kraft.log.cleaning.segment_swap import swap_in
from kraft.log.disk import Disk, is_disk_full
from kraft.log.format.record_batch import BatchHeader, Buffer
from kraft.log.group_commit import GroupCommit
from kraft.log.leader_epochs import CHECKPOINT_NAME as EPOCH_CHECKPOINT_NAME
from kraft.log.leader_epochs import LeaderEpochCache
from kraft.log.log_config import LogConfig
from kraft.log.log_health import LogHealth
from kraft.log.recovery.log_checkpoint import LogCheckpoint, write_checkpoint
from kraft.log.recovery.producer_state import ProducerStates
from kraft.log.recovery.recovery import RecoveredLog, rebuild_producers
from kraft.log.segment import lookup
from kraft.log.segment.rolling import begin_segment
from kraft.log.segment.segment import Segment
from kraft.model.ids import LeaderEpoch, Offset


class LogFiles:
    """Owns the segments, the leader epochs and the checkpoint: nobody else changes them.

    Changes are durable when they are over. They raise OSError from the disk, and Refusal where they say so. No file
    beside the segments may claim to know more than the segments hold after a crash.
    """

    def __init__(
        self, disk: Disk, directory: str, recovered: RecoveredLog, config: LogConfig, health: LogHealth
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._health = health
        self._segments = list(recovered.segments)
        self._checkpoint = recovered.checkpoint
        self._epochs = recovered.epochs
        self._epochs_are_written = not recovered.epochs_changed
        """False when the file may name epochs that the log has forgotten."""
        self._snapshots = recovered.snapshots
        self.sync = GroupCommit()
        self._being_replaced: Sequence[Segment] = ()
        """Segments whose files a thread is swapping: their names may already be those of other content."""
        self._is_closed = False
        self._begun: Segment | None = None
        """Begun by a change and not yet one of the segments; closed with the log if the change is given up."""
        run_now(self._begin(config))
        self._log_end = self.active.next_offset
        self.sync.durable_up_to(self._log_end)

    def _begin(self, config: LogConfig) -> Change[None]:
        if not self._epochs_are_written:
            # Before a segment is begun: epochs of what was dropped must not be found beside an empty one.
            yield from self._write_epochs()
        if not self._segments:
            yield from self._begin_segment(self._checkpoint.log_start_offset, config)
        # What an earlier process wrote may be in the page cache only; from here on it has to be durable to count.
        yield self.active.file.sync

    # --- facts -----------------------------------------------------------------------------------------------

    @property
    def segments(self) -> Sequence[Segment]:
        """In order; only the last one grows."""
        return self._segments

    @property
    def active(self) -> Segment:
        """The segment that grows."""
        return self._segments[-1]

    @property
    def epochs(self) -> LeaderEpochCache:
        return self._epochs

    @property
    def checkpoint(self) -> LogCheckpoint:
        return self._checkpoint

    @property
    def log_start(self) -> Offset:
        start = self._checkpoint.log_start_offset
        return max(start, self._segments[0].base_offset) if self._segments else start

    @property
    def log_end(self) -> Offset:
        """Behind the last batch; in the midst of a change, where the log ended before."""
        return self._log_end

    def has_still(self, segments: Sequence[Segment]) -> bool:
        """Whether the files of all of these are in place, under their names, and stay there until the loop goes on."""
        return all(segment in self._segments and segment not in self._being_replaced for segment in segments)

    def read(self, start: Offset, bytes_max: int, upper: Offset) -> bytes:
        """See `PartitionLog.read`."""
        end = self._log_end
        is_sparse = self._checkpoint.is_sparse
        return lookup.read(self._segments, start, bytes_max, min(upper, end), self._epochs, is_sparse, end)

    def rebuild_producers(self) -> ProducerStates:
        """What the producers have written, from the snapshots and the batches."""
        return rebuild_producers(self._snapshots, self._segments, self._log_end)

    # --- growing ---------------------------------------------------------------------------------------------

    def append(self, pieces: Sequence[Buffer], headers: Sequence[BatchHeader]) -> None:
        """Writes batches that continue the log, in epochs that `begin_epochs` has written. Raises OSError."""
        size, records = 0, 0
        for header in headers:
            size += header.size_bytes
            records += header.record_count
        try:
            self._segments[-1].append(pieces, headers)
        except OSError:
            self._forget_epochs_begun()
            raise
        self._log_end = headers[-1].next_offset
        sync = self.sync
        sync.unsynced_records += records
        sync.unsynced_bytes += size
        sync.bytes_since_checkpoint += size

    def _begin_segment(self, base_offset: Offset, config: LogConfig) -> Change[None]:
        directory = self._directory

        def begin() -> Segment:
            self._begun = begin_segment(self._disk, directory, base_offset, config)
            return self._begun

        self._segments.append((yield begin))
        self._begun = None

    def roll(self, config: LogConfig, producers: ProducerStates) -> Change[None]:
        """Closes the active segment to appends and begins a new one. Raises Refusal, too."""
        # The order matters: recovery takes it for granted that all segments but the last are durable.
        old = self.active
        yield from self._health.sync(old.file)
        yield from old.finish()
        self.sync.durable_up_to(self._log_end)
        yield from self._write_producers(producers)
        yield from self._begin_segment(self._log_end, config)
        self.sync.rolled()
        old.release_indexes()
        yield from self._drop_stale_snapshots()

    def settle(self, producers: ProducerStates) -> Change[None]:
        """Makes everything durable, and what stands beside the segments up to date. Raises Refusal, too."""
        yield from self._health.sync(self.active.file)
        yield from self.active.write_indexes()
        self.sync.durable_up_to(self._log_end)
        yield from self._write_producers(producers)
        yield from self._drop_stale_snapshots()

    def advance_recovery_point(self, producers: ProducerStates) -> Change[None]:
        """After a crash, what is durable now need not be read again."""
        yield from self.active.write_indexes()
        # The snapshot may be ahead of what is durable; recovery takes it only if the log then reaches so far.
        yield from self._write_producers(producers)
        yield from self._drop_stale_snapshots()

    # --- leader epochs ---------------------------------------------------------------------------------------

    def begins_epoch(self, headers: Sequence[BatchHeader]) -> bool:
        """Whether `begin_epochs` has to be made before these batches are appended."""
        return headers[-1].leader_epoch != self._epochs.latest_epoch or not self._epochs_are_written

    def begin_epochs(self, headers: Sequence[BatchHeader]) -> Change[None]:
        """Before the first batch of an epoch: recovery asks the file which epoch a batch is of. Raises Refusal, too."""
        for header in headers:
            self._epochs = self._epochs.with_epoch(LeaderEpoch(header.leader_epoch), Offset(header.base_offset))
        try:
            yield from self._write_epochs()
        except OSError as error:
            self._health.tolerate_full_disk(error)
            yield from self._cut_epochs(self._log_end)
            raise

    def forget_empty_epochs(self) -> Change[None]:
        """Epochs in which this replica led and wrote nothing: records of earlier ones may come from its next leader."""
        if self._epochs.entries[-1].start_offset >= self._log_end:
            yield from self._cut_epochs(self._log_end)

    def _forget_epochs_begun(self) -> None:
        """Takes back epochs whose records could not be written. The next append writes the file first."""
        # An epoch that ends beyond the log would be answered to followers, and asked of the next records.
        before = self._epochs.latest_epoch
        self._epochs = self._epochs.up_to(self._log_end)
        if self._epochs.latest_epoch != before:
            self._epochs_are_written = False

    def _cut_epochs(self, log_end: Offset) -> Change[None]:
        """The log ends at `log_end`. Without room for the file it is removed: recovery then asks the batches."""
        self._epochs = self._epochs.up_to(log_end)
        try:
            yield from self._write_epochs()
        except OSError as error:
            if not is_disk_full(error):
                raise
            # One that named later epochs would deny, after a crash, what is appended in an earlier one.
            yield partial(self._remove_durably, self._directory, EPOCH_CHECKPOINT_NAME)

    def _write_epochs(self) -> Change[None]:
        path, data = f"{self._directory}/{EPOCH_CHECKPOINT_NAME}", self._epochs.encode()
        yield lambda: self._disk.write_atomically(path, data)
        self._epochs_are_written = True

    def _remove_durably(self, directory: str, name: str) -> None:
        if self._disk.exists(f"{directory}/{name}"):
            self._disk.remove(f"{directory}/{name}")
            self._disk.sync_dir(directory)

    # --- checkpoint and producers ----------------------------------------------------------------------------

    def _remember(self, checkpoint: LogCheckpoint) -> Change[None]:
        """Nothing is written when it is no news."""
        if checkpoint != self._checkpoint:
            directory = self._directory
            yield partial(write_checkpoint, self._disk, directory, checkpoint)
            if checkpoint.log_start_offset != self._checkpoint.log_start_offset:
                # So that the file before says so, too: a front that was let go must not seem to be missing.
                yield partial(write_checkpoint, self._disk, directory, checkpoint)
            self._checkpoint = checkpoint

    def remember_holes(self) -> Change[None]:
        """Notes that there are holes before the first is made: after a crash they would be taken for rot."""
        yield from self._remember(replace(self._checkpoint, is_sparse=True))

    def remember_start(self, offset: Offset) -> Change[None]:
        """Notes where an empty log starts; it has no epochs."""
        yield from self._remember(replace(self._checkpoint, log_start_offset=offset))

    def advance_start(self, offset: Offset) -> Change[None]:
        """Records below are gone, though the segment that holds them may stay."""
        yield from self._remember(replace(self._checkpoint, log_start_offset=offset))
        self._epochs = self._epochs.starting_at(offset)
        yield from self._write_epochs()

    def _write_producers(self, producers: ProducerStates) -> Change[None]:
        """What they have written so far; then recovery may begin at the end of what is durable."""
        recovery_point = self.sync.synced_end
        yield from self._snapshots.write(self._log_end, producers.states)
        yield from self._remember(replace(self._checkpoint, recovery_point=recovery_point))

    def _drop_stale_snapshots(self) -> Change[None]:
        """One is kept for each segment, for truncations, and the latest."""
        bases = [segment.base_offset for segment in self._segments]
        yield from self._snapshots.keep_only([*bases, *self._snapshots.offsets[-1:]])

    def take_over(self, original: LogFiles, producers: ProducerStates) -> Change[None]:
        """What `original` knows of the same batches, and `producers` of those who wrote them."""
        # Not the recovery point, which is a claim about these files.
        checkpoint = replace(
            self._checkpoint,
            log_start_offset=original.log_start,
            cleaned_end_offset=original.checkpoint.cleaned_end_offset,
            is_sparse=self._checkpoint.is_sparse or original.checkpoint.is_sparse,
        )
        yield from self._remember(checkpoint)
        yield from self._take_over_epochs(original.epochs)
        yield from self._snapshots.write(self._log_end, producers.states)

    def _take_over_epochs(self, epochs: LeaderEpochCache) -> Change[None]:
        before = self._epochs
        if before == epochs:
            return
        self._epochs = epochs
        try:
            yield from self._write_epochs()
        except OSError:
            self._epochs = before
            raise

    # --- retention -------------------------------------------------------------------------------------------

    def drop_first(self, count: int) -> Change[list[str]]:
        """Moves the start of the log behind these segments. Returns files that nobody needs any more."""
        # The start moves first: a crash in between leaves files below it, which the next retention drops.
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
        """Puts the cleaned segments in the place of what they were made from. Returns files that nobody needs any more.

        Raises Refusal only.
        """
        files: list[str] = []
        if result.groups:
            yield from self._health.guarding(self.remember_holes())
        directory = self._directory
        for group, segment in zip(result.groups, cleaned, strict=True):
            replaced = self._replaced_by(group)
            yield from self._health.guarding(_keep_indexes(replaced))
            self._being_replaced = replaced
            try:
                files += yield partial(swap_in, self._disk, directory, group.base_offset, group.end_offset)
            except OSError as error:
                # Half a swap is finished by recovery; until then nobody knows which files are which.
                self._health.fail(error)
            else:
                self._replace(replaced, segment)
            finally:
                self._being_replaced = ()
            yield from self._write_indexes(segment)
        checkpoint = replace(self._checkpoint, cleaned_end_offset=result.end_offset)
        yield from self._health.guarding(self._remember(checkpoint))
        yield from self._health.guarding(self._drop_stale_snapshots())
        return files

    def _replaced_by(self, group: CleanedGroup) -> list[Segment]:
        first = lookup.number_of(self._segments, group.base_offset)
        return self._segments[first : first + len(group.replaced)]

    def _replace(self, replaced: Sequence[Segment], cleaned: Segment) -> None:
        first = self._segments.index(replaced[0])
        self._segments[first : first + len(replaced)] = [cleaned]
        for segment in replaced:
            self.sync.close_file(segment.file)

    def _write_indexes(self, cleaned: Segment) -> Change[None]:
        try:
            yield from cleaned.write_indexes()
            cleaned.release_indexes()
        except OSError as error:
            # On a full disk they stay in memory, and recovery makes them anew.
            self._health.tolerate_full_disk(error)

    # --- truncation ------------------------------------------------------------------------------------------

    def truncate_to(self, offset: Offset) -> Change[None]:
        """Drops every batch that reaches `offset`, which is above the start of the first segment.

        Raises Refusal when the disk failed half-way, be it only full: the log has failed then.
        """
        growing = self._segments[lookup.number_of(self._segments, Offset(offset - 1))]
        yield from self._forget_from(offset, growing.base_offset)
        try:
            yield from self._cut_off(offset)
        except OSError as error:
            # What is left may end below the end that the log remembers: what was appended there would leave a hole.
            self._health.fail(error)
        self._log_end = self.active.next_offset
        self.sync.durable_up_to(self._log_end)
        yield from self._cut_epochs(self._log_end)

    def _forget_from(self, offset: Offset, growing: Offset) -> Change[None]:
        """Nothing on the disk may claim to know more than a log that ends at `offset`, before it does.

        `growing` is where its last segment will begin.
        """
        before, directory = self._checkpoint, self._directory
        yield from self._snapshots.remove_above(offset)
        yield lambda: self._disk.sync_dir(directory)
        yield from self._remember(
            replace(
                before,
                recovery_point=min(before.recovery_point, growing),
                cleaned_end_offset=min(before.cleaned_end_offset, offset),
            )
        )

    def _cut_off(self, offset: Offset) -> Change[None]:
        # The latest segment goes first, so that a crash in between leaves a log without a hole.
        while len(self._segments) > 1 and self._segments[-1].base_offset >= offset:
            yield from self._remove_last()
        yield from self._segments[-1].truncate_to(offset)

    def begin_anew(self, offset: Offset, config: LogConfig) -> Change[None]:
        """Drops everything, and begins an empty segment at `offset`."""
        yield from self._forget_from(Offset(0), Offset(0))
        while self._segments:
            yield from self._remove_last()
        yield from self._remember(replace(self._checkpoint, log_start_offset=offset, is_sparse=False))
        # While there is no segment recovery takes no epoch for the log's; beside one it would take those below its end.
        yield from self._cut_epochs(Offset(0))
        yield from self._begin_segment(offset, config)
        self._log_end = offset
        self.sync.begin_anew(offset)

    def _remove_last(self) -> Change[None]:
        segment, directory = self._segments.pop(), self._directory
        self.sync.close_file(segment.file)
        yield lambda: self._remove_files(segment, directory)

    def _remove_files(self, segment: Segment, directory: str) -> None:
        for path in segment.rename_deleted():
            self._disk.remove(path)
        self._disk.sync_dir(directory)

    # --- the directory, and the end --------------------------------------------------------------------------

    def moved_to(self, directory: str) -> None:
        """The directory with all in it has this name now."""
        self._directory = directory
        self._snapshots.moved_to(directory)
        for segment in self._segments:
            segment.moved_to(directory)

    def close(self) -> None:
        """Closes the files as they are."""
        if self._is_closed:
            return
        self._is_closed = True
        for segment in self._segments:
            self.sync.close_file(segment.file)
        if self._begun is not None:
            self._begun.file.close()
        self._health.failure = self._health.failure or "the log is closed"


def _keep_indexes(segments: Sequence[Segment]) -> Change[None]:
    """Keeps the indexes in memory while their files are put aside: reads go on, and none is made anew on the loop."""
    stored = yield lambda: [segment.stored_index() for segment in segments]
    for segment, index in zip(segments, stored, strict=True):
        segment.keep_index(index)


def parent_of(path: str) -> str:
    head, separator, _ = path.rpartition("/")
    return head or separator or "."
