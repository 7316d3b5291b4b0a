"""Integrity of a partition's directory: reads every file and reports what is wrong where, without changing anything.

Besides scrubbing each `.log` with `scrub_segment` it compares the files with each other: index entries with the batches
at their positions, and epochs, checkpoints and producer snapshots with the log.

The directory may belong to a node that is running or was killed. Then the end of the active segment may be half
written, and files that are written later may be older than the log; opening the log repairs both. They are reported as
notes, not as faults. The log is always read after the files that describe it, so that a log which grows fits them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

from msgspec import Struct

from kraft.log.cleaning.segment_swap import SWAP_SUFFIX
from kraft.log.disk import Disk, File
from kraft.log.format.control_record import MarkerType, marker_in
from kraft.log.format.record_batch import BatchHeader
from kraft.log.integrity.index_checks import AbortedIndexCheck, OffsetIndexCheck, TimeIndexCheck
from kraft.log.integrity.inspection import inspect_batches
from kraft.log.integrity.scrub import PROBLEMS_MAX, BatchRead, Expected, ScrubbedSegment, scrub_segment
from kraft.log.leader_epochs import CHECKPOINT_NAME as EPOCH_CHECKPOINT_NAME
from kraft.log.leader_epochs import LeaderEpochCache
from kraft.log.recovery.kafka_log import checkpoint_of_kafka
from kraft.log.recovery.log_checkpoint import CHECKPOINT_NAME as LOG_CHECKPOINT_NAME
from kraft.log.recovery.log_checkpoint import EARLIER_SUFFIX, LogCheckpoint, read_checkpoint
from kraft.log.recovery.missing_segments import MISSING_SEGMENT, lost_segment
from kraft.log.recovery.producer_snapshot import SNAPSHOT_SUFFIX, decode_snapshot
from kraft.log.recovery.producer_state import ProducerState, ProducerStates
from kraft.log.recovery.recovery import find_whole_batch, has_lost_sector
from kraft.log.segment.paths import ABORTED_INDEX_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, file_name
from kraft.model.callbacks import CountBytes
from kraft.model.errors import Corruption
from kraft.model.ids import NO_LEADER_EPOCH, Offset

_DIGITS: Final = 20

MISSING: Final = "the file is missing; opening the log rebuilds it"


class FileFinding(NamedTuple):
    """Something wrong in a file. A note is left by a running or killed node and repaired when the log is opened; any
    other finding is a fault."""

    file: str
    position: int
    reason: str
    is_note: bool = False


class VerifiedPartition(Struct, frozen=True, kw_only=True):
    """Result of verifying one directory. The log is good if none of the findings is a fault."""

    directory: str
    segments: int
    batches: int
    records: int
    size_bytes: int
    log_start_offset: int
    log_end_offset: int
    findings: tuple[FileFinding, ...]


def is_partition_directory(names: Sequence[str]) -> bool:
    """Return whether a directory with these file names belongs to a partition."""
    known = (EPOCH_CHECKPOINT_NAME, LOG_CHECKPOINT_NAME)
    return any(name in known or name.endswith(LOG_SUFFIX) for name in names)


def verify_partition(
    disk: Disk,
    directory: str,
    *,
    decode_records: bool = True,
    was_closed: bool = False,
    read_bytes: CountBytes = lambda _: None,
) -> VerifiedPartition:
    """Verify the directory. `read_bytes` is called with the size of each read of a `.log` before it is done.

    In a log that `was_closed` cleanly, a torn end is a fault as well. Raises OSError, FileNotFoundError for a directory
    that is gone.
    """
    return _DirectoryCheck(disk, directory, decode_records, was_closed, read_bytes).run()


class _DirectoryCheck:
    def __init__(
        self, disk: Disk, directory: str, decode_records: bool, was_closed: bool, read_bytes: CountBytes
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._decode_records = decode_records
        self._was_closed = was_closed
        self._read_bytes = read_bytes
        self._names = list(disk.list(directory))
        self._findings: list[FileFinding] = []
        self._segments = self._batches = self._records = self._size_bytes = 0
        self._first_offset: int | None = None
        self._next_offset = 0
        self._last_epoch = int(NO_LEADER_EPOCH)
        self._swaps = [name for name in self._names if name.endswith(SWAP_SUFFIX)]
        self._producers = ProducerStates()
        # Producers can be compared with a snapshot only if every batch below it could be read.
        self._knows_producers = True
        self._checkpoint = self._read_checkpoint()
        self._epochs = self._read_epochs()
        self._is_behind_noted = False
        self._next_offsets: dict[int, int] = {}
        self._snapshots = self._snapshot_offsets()

    def run(self) -> VerifiedPartition:
        base_offsets = self._base_offsets()
        self._checkpoint = checkpoint_of_kafka(self._disk, self._directory, base_offsets) or self._checkpoint
        self._check_front(base_offsets)
        # A directory without segments was left by a creation that a kill or a power failure interrupted.
        for base_offset, end_offset in zip_longest(base_offsets, base_offsets[1:]):
            self._verify_segment(base_offset, end_offset)
        self._check_snapshots_up_to(self._next_offset)
        for offset in self._snapshots:
            self._fault_if_closed(
                self._path(file_name(offset, SNAPSHOT_SUFFIX)), 0, f"the log ends below, at offset {self._next_offset}"
            )
        if self._segments:
            self._check_ends()
        return VerifiedPartition(
            directory=self._directory,
            segments=self._segments,
            batches=self._batches,
            records=self._records,
            size_bytes=self._size_bytes,
            log_start_offset=max(self._checkpoint.log_start_offset, base_offsets[0] if base_offsets else 0),
            log_end_offset=self._next_offset,
            findings=tuple(self._findings),
        )

    # --- files that describe the log -------------------------------------------------------------------------

    def _read_checkpoint(self) -> LogCheckpoint:
        for name in (LOG_CHECKPOINT_NAME + EARLIER_SUFFIX, LOG_CHECKPOINT_NAME):
            if name in self._names:
                self._report_corruption(lambda path: LogCheckpoint.decode(self._disk.read_file(path), path), name)
        return read_checkpoint(self._disk, self._directory)

    def _read_epochs(self) -> LeaderEpochCache | None:
        if EPOCH_CHECKPOINT_NAME not in self._names:
            return None
        epochs: list[LeaderEpochCache] = []
        self._report_corruption(
            lambda path: epochs.append(LeaderEpochCache.decode(self._disk.read_file(path), path)),
            EPOCH_CHECKPOINT_NAME,
        )
        return epochs[0] if epochs else None

    def _report_corruption(self, read: Callable[[str], object], name: str) -> None:
        try:
            read(self._path(name))
        except Corruption as broken:
            self._findings.append(FileFinding(broken.file, broken.position, broken.reason))
        except FileNotFoundError:
            # It existed when the directory was listed: the node is running.
            pass

    def _base_offsets(self) -> list[int]:
        found = []
        for name in self._names:
            if name.endswith(LOG_SUFFIX):
                offset = _offset_of(name, LOG_SUFFIX)
                if offset is None:
                    self._fault(self._path(name), 0, "the name is not a base offset")
                else:
                    found.append(offset)
        for name in self._swaps:
            self._note(self._path(name), 0, "a compaction was interrupted; opening the log completes it")
        return sorted(found)

    def _snapshot_offsets(self) -> list[int]:
        found = [_offset_of(name, SNAPSHOT_SUFFIX) for name in self._names if name.endswith(SNAPSHOT_SUFFIX)]
        return sorted(offset for offset in found if offset is not None)

    def _check_front(self, base_offsets: Sequence[int]) -> None:
        first = base_offsets[0] if base_offsets else None
        reason = self._checkpoint.missing_front(first)
        file = self._path(LOG_CHECKPOINT_NAME if first is None else file_name(first, LOG_SUFFIX))
        # If the file is gone, so is the directory, and that is why the checkpoint could not be read.
        if reason is not None and self._disk.exists(file):
            self._fault(file, 0, reason)
        missing = self._missing_segment()
        # Read again: a running node no longer names a segment before it removes the file.
        if missing is not None and missing == self._missing_segment():
            self._fault(self._path(file_name(missing, LOG_SUFFIX)), 0, MISSING_SEGMENT)

    def _missing_segment(self) -> Offset | None:
        checkpoint = read_checkpoint(self._disk, self._directory)
        named = checkpoint.segments if not self._swaps else ()
        left = [each for each in named if self._disk.exists(self._path(file_name(each, LOG_SUFFIX)))]
        return lost_segment(self._disk, self._directory, checkpoint, left)

    # --- a segment -------------------------------------------------------------------------------------------

    def _verify_segment(self, base_offset: int, end_offset: int | None) -> None:
        path, is_last = self._path(file_name(base_offset, LOG_SUFFIX)), end_offset is None
        index = OffsetIndexCheck(self._disk, self._path(file_name(base_offset, INDEX_SUFFIX)), base_offset)
        time_index = TimeIndexCheck(self._disk, self._path(file_name(base_offset, TIME_INDEX_SUFFIX)), base_offset)
        aborted = AbortedIndexCheck(self._disk, self._path(file_name(base_offset, ABORTED_INDEX_SUFFIX)), base_offset)
        previous_epoch = self._last_epoch

        self._next_offset = max(self._next_offset, base_offset)

        # The next offset at the end of each run of good batches, so also at the start of a bad one.
        self._next_offsets = {0: base_offset}
        end = 0

        def batch_read(position: int, header: BatchHeader) -> None:
            nonlocal end
            if position == end:
                del self._next_offsets[end]
            end = position + header.size_bytes
            self._next_offsets[end] = int(header.next_offset)
            self._check_batch(path, position, header, previous_epoch)
            self._check_transaction(path, position, header, aborted)
            index.batch(position, header)
            time_index.batch(position, header)

        try:
            scrubbed = self._scrubbed(path, base_offset, end_offset, batch_read)
        except FileNotFoundError:
            # Retention or compaction removed it after the directory was listed.
            self._knows_producers = False
            return
        finally:
            for check in (index, time_index, aborted):
                check.close()
        self._report_problems(scrubbed, base_offset, is_last=is_last)
        for check in (index, time_index, aborted):
            check.finish(scrubbed.size_bytes)
        self._report_mismatches(index, scrubbed, is_last=is_last)
        self._report_mismatches(time_index, scrubbed, is_last=is_last)
        self._report_aborted(aborted, scrubbed, is_last=is_last)
        if not is_last and not scrubbed.problems and time_index.exists:
            missing = time_index.missing_maximum()
            if missing is not None:
                self._fault(time_index.path, 0, missing)
        self._count(scrubbed)

    def _scrubbed(self, path: str, base_offset: int, end_offset: int | None, batch_read: BatchRead) -> ScrubbedSegment:
        """Read the `.log`. Raises FileNotFoundError."""
        return scrub_segment(
            self._disk,
            path,
            Expected(
                base_offset=Offset(base_offset),
                end_offset=None if end_offset is None or self._swaps else Offset(end_offset),
                sparse=self._checkpoint.is_sparse,
            ),
            decode_records=self._decode_records,
            read_bytes=self._read_bytes,
            batch_read=batch_read,
        )

    def _count(self, scrubbed: ScrubbedSegment) -> None:
        self._segments += 1
        self._batches += scrubbed.batches
        self._records += scrubbed.records
        self._size_bytes += scrubbed.size_bytes
        self._knows_producers &= not scrubbed.problems

    def _report_problems(self, scrubbed: ScrubbedSegment, base_offset: int, *, is_last: bool) -> None:
        if not scrubbed.problems:
            return
        file = self._disk.open(scrubbed.path, create=False)
        try:
            for problem in scrubbed.problems:
                if is_last and _was_being_written(file, problem, scrubbed.size_bytes):
                    return
                if (
                    is_last
                    and not self._was_closed
                    and self._next_offset >= self._checkpoint.recovery_point
                    and self._is_tail(file, problem, base_offset)
                ):
                    self._note(
                        problem.file,
                        problem.position,
                        f"the last {scrubbed.size_bytes - problem.position} bytes are not a whole batch, as during a "
                        f"write or after a crash: {problem.reason}",
                    )
                    return
                self._fault(problem.file, problem.position, problem.reason)
            last = scrubbed.problems[-1]
            if len(scrubbed.problems) >= PROBLEMS_MAX:
                self._fault(last.file, last.position, "too many faults, the rest of the file was not read")
            elif _has_no_length(file, last):
                behind = find_whole_batch(file, last.position, self._next_offset - 1)
                found = "no whole batch follows" if behind is None else f"a whole batch follows at byte {behind}"
                self._fault(last.file, last.position, f"the file was not read from here on; {found}")
        finally:
            file.close()

    def _is_tail(self, file: File, problem: Corruption, base_offset: int) -> bool:
        """Return whether the problem is a torn end, by the same rules as recovery."""
        whole = find_whole_batch(file, problem.position - 1, base_offset - 1)
        if whole is None:
            return True
        # A power failure may lose a part in the middle of what was not synced.
        expected = self._next_offsets.get(problem.position)
        return (
            whole > problem.position
            and expected is not None
            and has_lost_sector(file, problem.position, whole, expected)
        )

    def _report_aborted(self, check: AbortedIndexCheck, scrubbed: ScrubbedSegment, *, is_last: bool) -> None:
        # The entries of the active segment are in memory; a compaction replaces the file after the log.
        if (is_last and not self._was_closed) or self._swaps or not self._knows_producers:
            return
        if check.exists:
            self._report_mismatches(check, scrubbed, is_last=is_last)
        elif check.has_aborted:
            since = self._checkpoint.aborted_from
            if since is not None and scrubbed.next_offset > since:
                self._note(check.path, 0, MISSING)
            else:
                self._fault(check.path, 0, "the file is missing: aborted records would be read as committed")

    def _report_mismatches(
        self, check: OffsetIndexCheck | TimeIndexCheck | AbortedIndexCheck, scrubbed: ScrubbedSegment, *, is_last: bool
    ) -> None:
        if not check.exists:
            if not is_last:
                self._note(check.path, 0, MISSING)
            return
        # After a batch that cannot be read it is unknown what an entry should contain.
        readable_end = min((problem.position for problem in scrubbed.problems), default=scrubbed.size_bytes + 1)
        for mismatch in check.mismatches:
            if mismatch.log_position < readable_end:
                self._fault(check.path, mismatch.position, mismatch.reason)
        if check.unfinished is not None and not scrubbed.problems:
            # After a crash the log may have lost what was not synced, while its index still has it.
            report = self._fault_if_closed if is_last else self._fault
            report(check.path, check.unfinished.position, check.unfinished.reason)

    # --- batches and other files -----------------------------------------------------------------------------

    def _check_batch(self, path: str, position: int, header: BatchHeader, previous_epoch: int) -> None:
        """Compare a batch, whose checksum and place in the segment are right, with epochs, snapshots and producers."""
        if self._first_offset is None:
            self._first_offset = header.base_offset
        self._check_epoch(path, position, header, previous_epoch)
        self._check_snapshots_up_to(header.base_offset)
        self._next_offset = int(header.next_offset)

    def _check_transaction(self, path: str, position: int, header: BatchHeader, check: AbortedIndexCheck) -> None:
        marker = None
        if header.is_control:
            file = self._disk.open(path, create=False)
            try:
                marker = marker_in(header, file.read_at(position, header.size_bytes))
            finally:
                file.close()
        aborted = self._producers.update(header, marker)
        if marker is not None and marker.type is MarkerType.ABORT:
            check.marker(
                position,
                header,
                None if aborted is None else aborted.first_offset,
                may_begin_before=self._checkpoint.is_sparse or bool(self._first_offset),
            )

    def _check_epoch(self, path: str, position: int, header: BatchHeader, previous_epoch: int) -> None:
        epoch = header.leader_epoch
        self._last_epoch = max(self._last_epoch, epoch)
        if position == 0 and epoch < previous_epoch:
            self._fault(path, position, f"leader epoch {epoch} follows {previous_epoch} of the previous segment")
        if self._epochs is None:
            return
        checkpoint = self._path(EPOCH_CHECKPOINT_NAME)
        if epoch > self._epochs.latest_epoch:
            if not self._is_behind_noted:
                self._is_behind_noted = True
                reason = f"leader epoch {epoch}, in the log from offset {header.base_offset} on, is missing"
                self._fault_if_closed(checkpoint, 0, reason)
            return
        known = self._epochs.epoch_at(Offset(header.base_offset))
        if known not in (NO_LEADER_EPOCH, epoch):
            self._fault(
                path,
                position,
                f"the batch at offset {header.base_offset} has leader epoch {epoch}, {EPOCH_CHECKPOINT_NAME} has "
                f"{known}",
            )

    def _check_snapshots_up_to(self, offset: int) -> None:
        """Compare the snapshots up to `offset`, to which the log was read."""
        while self._snapshots and self._snapshots[0] <= offset:
            name = file_name(self._snapshots.pop(0), SNAPSHOT_SUFFIX)
            self._report_corruption(
                lambda path: self._compare_snapshot(path, decode_snapshot(self._disk.read_file(path), path)), name
            )

    def _compare_snapshot(self, path: str, states: dict[int, ProducerState]) -> None:
        if not self._knows_producers:
            return
        for producer_id, stored in states.items():
            read = self._producers.get(producer_id)
            if read is not None and (read.epoch, read.last_offset) == (stored.epoch, stored.last_offset):
                # Compaction may keep a marker and drop the batch before it, and retention may have deleted that batch.
                is_kept = stored.kept_offset == stored.last_offset or self._is_kept(stored.kept_offset)
                if read.last_sequence != stored.last_sequence and is_kept:
                    self._fault(
                        path,
                        0,
                        f"producer {producer_id} is at sequence {stored.last_sequence}, but in the log at "
                        f"{read.last_sequence}",
                    )
            elif self._should_be_in_log(stored, read):
                last = "nothing" if read is None else f"epoch {read.epoch} up to offset {read.last_offset}"
                self._fault(
                    path,
                    0,
                    f"producer {producer_id} wrote epoch {stored.epoch} up to offset {stored.last_offset}, but the log "
                    f"has {last}",
                )

    def _should_be_in_log(self, stored: ProducerState, read: ProducerState | None) -> bool:
        """Return whether the last batch of the stored state has to be in the log."""
        if read is not None and read.last_offset > stored.last_offset:
            return True
        return self._is_kept(stored.last_offset)

    def _is_kept(self, offset: int) -> bool:
        """Return whether a batch that ended at this offset has to be in the log still."""
        first = self._next_offset if self._first_offset is None else self._first_offset
        return offset >= first and not self._checkpoint.is_sparse

    def _check_ends(self) -> None:
        """Check that the log reaches the offsets in its checkpoint: if it does not, records are lost."""
        checkpoint, path = self._checkpoint, self._path(LOG_CHECKPOINT_NAME)
        if any(not each.is_note for each in self._findings):
            # The lost records are already reported where they are missing.
            return
        for what, offset in (
            ("everything was durable up to", checkpoint.recovery_point),
            ("the log starts at", checkpoint.log_start_offset),
            ("the log was compacted up to", checkpoint.cleaned_end_offset),
        ):
            if offset > self._next_offset:
                self._fault(path, 0, f"{what} offset {offset}, but the log ends at {self._next_offset}")

    # --- reporting -------------------------------------------------------------------------------------------

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def _fault(self, file: str, position: int, reason: str) -> None:
        self._findings.append(FileFinding(file, position, reason))

    def _note(self, file: str, position: int, reason: str) -> None:
        self._findings.append(FileFinding(file, position, reason, is_note=True))

    def _fault_if_closed(self, file: str, position: int, reason: str) -> None:
        """Report a difference between a file and the log: a fault if the log was closed cleanly, otherwise a note."""
        self._findings.append(FileFinding(file, position, reason, is_note=not self._was_closed))


def _was_being_written(file: File, problem: Corruption, size_bytes: int) -> bool:
    """Return whether the batch reached beyond the end of the file when reading began, and is whole now."""
    try:
        batch = next(inspect_batches(file, problem.file, problem.position), None)
    except Corruption:
        return False
    return batch is not None and batch.is_valid and batch.end > size_bytes


def _has_no_length(file: File, problem: Corruption) -> bool:
    """Return whether the header there has no valid length, so that the next batch cannot be found."""
    try:
        next(inspect_batches(file, problem.file, problem.position, with_crc=False), None)
    except Corruption:
        return True
    return False


def _offset_of(name: str, suffix: str) -> int | None:
    stem = name.removesuffix(suffix)
    return int(stem) if len(stem) == _DIGITS and stem.isascii() and stem.isdigit() else None
