"""Recovery: opens a log, checks what may not be durable, cuts off a torn end, and refuses a corrupt log.

All segments but the last were synced before the next one began, so only their ends are read. In the last one,
everything above the recovery point (see `log-checkpoint`) is read, and written again as it is read: what an earlier
process failed to sync may be in the page cache only, whatever the next sync returns.

A torn end is broken bytes above the recovery point with no whole batch after them: they were never acknowledged as
durable, and are cut off. A power failure may also lose bytes in the middle of what was not synced; they include a disk
sector of zeros, and count as torn as well. Anything else was once complete, so it is corrupt: the log does not open,
because a cut there would drop acknowledged records silently. A first segment above the log start offset, or no segment
at all, is corruption too, and so is a missing one between others: whatever removes a segment changes the checkpoint
first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from msgspec import Struct

from kraft.log.change import Change, run_now
from kraft.log.cleaning.segment_swap import complete_swaps
from kraft.log.disk import Disk, File
from kraft.log.format.control_record import EndTransactionMarker
from kraft.log.format.record_batch import HEADER_BYTES, BatchHeader, check_crc, read_header, validate
from kraft.log.leader_epochs import CHECKPOINT_NAME, LeaderEpochCache
from kraft.log.recovery.kafka_log import checkpoint_of_kafka
from kraft.log.recovery.log_checkpoint import LogCheckpoint, read_checkpoint, write_checkpoint
from kraft.log.recovery.missing_segments import check_all_exist
from kraft.log.recovery.producer_snapshot import SNAPSHOT_SUFFIX, ProducerSnapshots
from kraft.log.recovery.producer_state import ProducerStates, RecentBatches
from kraft.log.segment.batches import Continuity, scan_batches
from kraft.log.segment.paths import DELETED_SUFFIX, INDEX_SUFFIXES, LOG_SUFFIX, file_name
from kraft.log.segment.rewriting_file import RewritingFile
from kraft.log.segment.segment import RELATIVE_OFFSET_MAX, Segment
from kraft.log.transactions.aborted import AbortedTxn
from kraft.model.errors import Corruption, InvalidBatch
from kraft.model.ids import LeaderEpoch, Offset

REBUILT_AT_ONCE: Final = 10_000
"""Batches that one step of a rebuild reads, in about 20 ms: the thread also syncs the other logs of the directory."""

_BASE_OFFSET_DIGITS: Final = 20
_BASE_OFFSET_BYTES: Final = 8
_LENGTH_ENDS_AT: Final = 12
_MAGIC_AT: Final = 16
_SEARCH_WINDOW_BYTES: Final = 1 << 20
_SECTOR_BYTES: Final = 512
_TEMPORARY_SUFFIX: Final = ".tmp"


class RecoveryReport(Struct, frozen=True, kw_only=True):
    """Result of opening a log. `torn_at` is the offset that the log was cut to, None if nothing was cut.

    `batches_checked` batches were read whole; the ones before them were known to be durable.
    """

    segments: int
    batches_checked: int
    indexes_rebuilt: int
    epochs_rebuilt: bool
    torn_at: Offset | None
    torn_file: str
    torn_bytes: int
    torn_reason: str


class RecoveredLog(Struct, frozen=True, kw_only=True):
    """A recovered log. Segments ascend and the last one grows; a new directory has none."""

    segments: list[Segment]
    checkpoint: LogCheckpoint
    epochs: LeaderEpochCache
    epochs_changed: bool
    """True if they differ from the checkpoint file."""
    has_indexes: bool
    """True if the index files of the last segment hold all of it."""
    snapshots: ProducerSnapshots
    producers: ProducerStates
    report: RecoveryReport


def recover(disk: Disk, directory: str, index_interval_bytes: int, clean_shutdown: bool) -> RecoveredLog:
    """Open the log in the directory. After a clean shutdown nothing can be torn.

    Raises Corruption if bytes that were durable have changed.
    """
    return _Recovery(disk, directory, index_interval_bytes, clean_shutdown).run()


class _Tear(Struct, frozen=True, kw_only=True):
    file: str
    reason: str
    cut_bytes: int
    log_end: Offset


class _Recovery:
    def __init__(self, disk: Disk, directory: str, index_interval_bytes: int, clean_shutdown: bool) -> None:
        self._disk = disk
        self._directory = directory
        self._index_interval_bytes = index_interval_bytes
        self._clean_shutdown = clean_shutdown
        self._segments: list[Segment] = []
        self._batches_checked = 0
        self._next_offset = Offset(0)
        self._scanned_from = Offset(0)
        self._recent = RecentBatches()
        self._has_indexes = True

    def run(self) -> RecoveredLog:
        complete_swaps(self._disk, self._directory)
        self._checkpoint = read_checkpoint(self._disk, self._directory)
        base_offsets = self._base_offsets()
        of_kafka = checkpoint_of_kafka(self._disk, self._directory, base_offsets)
        checkpoint = of_kafka or self._checkpoint
        self._checkpoint = check_all_exist(self._disk, self._directory, checkpoint, base_offsets)
        snapshots = self._tidied(base_offsets)
        base_offsets = self._without_deleted(base_offsets)
        stored_epochs = self._read_epochs()
        self._epochs_are_known = stored_epochs is not None
        self._epochs = stored_epochs or LeaderEpochCache()
        epochs_before = self._epochs
        try:
            indexes_rebuilt = sum([self._open_closed(base_offset) for base_offset in base_offsets[:-1]])
            if not self._epochs_are_known:
                self._rebuild_epochs()
            tear = self._open_active(base_offsets[-1]) if base_offsets else None
            self._epochs = self._epochs.up_to(self._next_offset)
            producers = self._producers(snapshots)
            indexes_rebuilt += self._open_aborted(snapshots)
            if of_kafka is not None:
                self._adopt(of_kafka)
        except BaseException:
            for segment in self._segments:
                segment.file.close()
            raise
        return RecoveredLog(
            segments=self._segments,
            checkpoint=self._checkpoint,
            epochs=self._epochs,
            epochs_changed=self._epochs != epochs_before,
            has_indexes=self._has_indexes and of_kafka is None,
            snapshots=snapshots,
            producers=producers,
            report=RecoveryReport(
                segments=len(self._segments),
                batches_checked=self._batches_checked,
                indexes_rebuilt=indexes_rebuilt,
                epochs_rebuilt=not self._epochs_are_known and bool(base_offsets),
                torn_at=tear.log_end if tear else None,
                torn_file=tear.file if tear else "",
                torn_bytes=tear.cut_bytes if tear else 0,
                torn_reason=tear.reason if tear else "",
            ),
        )

    # --- files -----------------------------------------------------------------------------------------------

    def _base_offsets(self) -> list[Offset]:
        names = self._disk.list(self._directory)
        logs = [name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX)]
        for stem in logs:
            if not _is_offset(stem):
                raise Corruption(f"{self._directory}/{stem}{LOG_SUFFIX}", 0, "the name is not a base offset")
        return sorted(Offset(int(stem)) for stem in logs)

    def _tidied(self, base_offsets: Sequence[Offset]) -> ProducerSnapshots:
        """Remove files that a crash left behind; return the snapshots."""
        names = self._disk.list(self._directory)
        logs = {file_name(base_offset, "") for base_offset in base_offsets}
        for name in names:
            stem, suffix = _split(name)
            is_orphan = suffix in INDEX_SUFFIXES and stem not in logs
            if is_orphan or name.endswith((_TEMPORARY_SUFFIX, DELETED_SUFFIX)):
                self._disk.remove(f"{self._directory}/{name}")
        stems = [name.removesuffix(SNAPSHOT_SUFFIX) for name in names if name.endswith(SNAPSHOT_SUFFIX)]
        return ProducerSnapshots(self._disk, self._directory, [int(stem) for stem in stems if _is_offset(stem)])

    def _adopt(self, checkpoint: LogCheckpoint) -> None:
        """Write the first checkpoint of a log of Kafka, before a file with Kraft's epochs shows it as one of Kraft."""
        for _ in range(2):
            # As with every new log start offset, the earlier file has it, too.
            write_checkpoint(self._disk, self._directory, checkpoint)

    def _without_deleted(self, base_offsets: list[Offset]) -> list[Offset]:
        """Remove segments below the log start offset: retention may have been interrupted at any step."""
        kept = 0
        while kept + 1 < len(base_offsets) and base_offsets[kept + 1] <= self._checkpoint.log_start_offset:
            for suffix in (*INDEX_SUFFIXES, LOG_SUFFIX):
                path = f"{self._directory}/{file_name(base_offsets[kept], suffix)}"
                if self._disk.exists(path):
                    self._disk.remove(path)
            kept += 1
        return base_offsets[kept:]

    def _read_epochs(self) -> LeaderEpochCache | None:
        path = f"{self._directory}/{CHECKPOINT_NAME}"
        try:
            return LeaderEpochCache.decode(self._disk.read_file(path), path)
        except (FileNotFoundError, Corruption):
            return None

    def _open(self, base_offset: Offset) -> Segment:
        segment = Segment(self._disk, self._directory, base_offset, self._index_interval_bytes, create=False)
        self._segments.append(segment)
        is_first = len(self._segments) == 1
        is_hole = base_offset > self._next_offset and not self._checkpoint.is_sparse
        if not is_first and (base_offset < self._next_offset or is_hole):
            raise Corruption(segment.path, 0, f"the previous segment ends at offset {self._next_offset}")
        self._next_offset = base_offset
        return segment

    def _open_closed(self, base_offset: Offset) -> bool:
        """Open a segment that no longer grows. Returns True if its indexes had to be rebuilt."""
        segment = self._open(base_offset)
        is_rebuilt = segment.open_finished()
        self._next_offset = segment.next_offset
        # If the latest checkpoint is lost, all of the log lies above the recovery point, and is not rewritten.
        if segment.next_offset > self._checkpoint.recovery_point and self._checkpoint.is_latest:
            self._write_again(segment)
        return is_rebuilt

    def _write_again(self, segment: Segment) -> None:
        """Rewrite and sync a segment above the recovery point: a sync beside the one that closed it may have failed."""
        if not self._clean_shutdown:
            start = segment.position_of(self._checkpoint.recovery_point)
            for _ in scan_batches(RewritingFile(segment.file), segment.path, start, with_crc=True):
                self._batches_checked += 1
            segment.file.sync()
            segment.release_indexes()

    # --- the last segment ------------------------------------------------------------------------------------

    def _open_active(self, base_offset: Offset) -> _Tear | None:
        segment = self._open(base_offset)
        recovery_point = self._checkpoint.recovery_point
        start = None
        if recovery_point > base_offset and self._epochs_are_known:
            start = segment.resume(recovery_point)
        self._has_indexes = (start or 0) == segment.size_bytes
        self._next_offset = self._scanned_from = segment.next_offset
        continuity = self._continuity(segment)
        # Synced before the log is used.
        file = segment.file if self._clean_shutdown else RewritingFile(segment.file)
        batches = scan_batches(file, segment.path, start or 0, with_crc=True)
        while True:
            try:
                found = next(batches, None)
            except Corruption as broken:
                self._check_is_torn(segment, broken)
                return self._cut(segment, broken)
            if found is None:
                break
            position, header = found
            try:
                self._check(continuity, position, header)
            except Corruption as misplaced:
                if not self._has_lost_offset(segment, position, header):
                    raise
                return self._cut(segment, misplaced)
            segment.note_batch(position, header)
            self._recent.note(header, segment.marker_at(position, header))
            self._batches_checked += 1
            self._next_offset = segment.next_offset
        if self._next_offset < recovery_point:
            reason = f"the log ends at offset {self._next_offset}, but everything below {recovery_point} was durable"
            raise Corruption(segment.path, segment.size_bytes, reason)
        return None

    def _continuity(self, segment: Segment) -> Continuity:
        return Continuity(segment.path, self._epochs, self._checkpoint.is_sparse, segment.next_offset)

    def _check(self, continuity: Continuity, position: int, header: BatchHeader) -> None:
        # A readable checkpoint has every epoch: it is written before the first batch of the epoch.
        if not self._epochs_are_known and header.last_offset >= self._checkpoint.log_start_offset:
            self._learn_epoch(continuity, position, header)
        continuity.check(position, header.base_offset, header.last_offset, header.leader_epoch)

    def _learn_epoch(self, continuity: Continuity, position: int, header: BatchHeader) -> None:
        latest = self._epochs.latest_epoch
        if header.leader_epoch < latest:
            raise Corruption(continuity.path, position, f"leader epoch {header.leader_epoch} follows {latest}")
        if header.leader_epoch > latest:
            self._epochs = self._epochs.with_epoch(LeaderEpoch(header.leader_epoch), Offset(header.base_offset))
            continuity.learn(self._epochs)

    def _rebuild_epochs(self) -> None:
        """Rebuild a lost epoch checkpoint from the batches. The last segment adds its epochs when it is opened."""
        for segment in self._segments:
            continuity = Continuity(segment.path, self._epochs, self._checkpoint.is_sparse, segment.base_offset)
            for position, header in segment.scan():
                self._check(continuity, position, header)

    # --- torn or corrupt -------------------------------------------------------------------------------------

    def _check_is_torn(self, segment: Segment, broken: Corruption) -> None:
        if self._clean_shutdown:
            reason = f"{broken.reason}; the log was closed cleanly, so this is corruption"
            raise Corruption(broken.file, broken.position, reason)
        if self._next_offset < self._checkpoint.recovery_point:
            reason = f"{broken.reason}; it was durable, so this is corruption"
            raise Corruption(broken.file, broken.position, reason)
        behind = find_whole_batch(segment.file, broken.position, self._next_offset)
        if behind is not None and not has_lost_sector(segment.file, broken.position, behind, self._next_offset):
            reason = f"{broken.reason}; a whole batch follows at byte {behind}, so this is corruption"
            raise Corruption(broken.file, broken.position, reason)

    def _has_lost_offset(self, segment: Segment, position: int, header: BatchHeader) -> bool:
        """Return whether a whole batch has a wrong offset because a sector that ended inside its base offset was lost.

        Any other wrong offset is corruption.
        """
        lost_bytes = _SECTOR_BYTES - position % _SECTOR_BYTES
        was_durable = self._next_offset < self._checkpoint.recovery_point
        if was_durable or lost_bytes >= _LENGTH_ENDS_AT or header.base_offset == self._next_offset:
            return False
        expected = bytes(lost_bytes) + self._next_offset.to_bytes(_BASE_OFFSET_BYTES, "big")[lost_bytes:]
        return segment.file.read_at(position, len(expected)) == expected

    def _cut(self, segment: Segment, broken: Corruption) -> _Tear:
        cut_bytes = segment.size_bytes - broken.position
        segment.file.truncate(broken.position)
        segment.file.sync()
        return _Tear(file=segment.path, reason=broken.reason, cut_bytes=cut_bytes, log_end=self._next_offset)

    # --- producers -------------------------------------------------------------------------------------------

    def _producers(self, snapshots: ProducerSnapshots) -> ProducerStates:
        if snapshots.offsets and snapshots.offsets[-1] > self._next_offset:
            run_now(snapshots.remove_above(self._next_offset))
            # A snapshot that reappeared after a power failure would not match the records that the log then holds.
            self._disk.sync_dir(self._directory)
        producers = rebuild_producers(snapshots, self._segments, self._next_offset, self._scanned_from)
        producers.replay(self._recent)
        return producers

    # --- aborted transactions --------------------------------------------------------------------------------

    def _open_aborted(self, snapshots: ProducerSnapshots) -> int:
        """Open the indexes of aborted transactions, and rebuild those that are missing or damaged; return their number.

        That of the active segment is always rebuilt after a crash: its file was written before the last batches.
        """
        since = self._checkpoint.aborted_from
        if since is None or not self._segments:
            return 0
        rebuilt = 0
        active = self._segments[-1]
        for segment in (each for each in self._segments if each.next_offset > since or each is active):
            is_whole = segment.aborted.open(segment.base_offset, segment.next_offset)
            if not is_whole or (segment is active and not self._clean_shutdown):
                segment.aborted.replace(rebuild_aborted(snapshots, self._segments, segment))
                self._has_indexes = self._has_indexes and segment is not active
            if segment is not active:
                if not is_whole:
                    rebuilt += 1
                    run_now(segment.aborted.write())
                segment.aborted.release()
        return rebuilt


def rebuild_producers(
    snapshots: ProducerSnapshots, segments: list[Segment], log_end: Offset, upper: Offset | None = None
) -> ProducerStates:
    """Run `rebuilding_producers` and block."""
    return run_now(rebuilding_producers(snapshots, segments, log_end, upper))


def rebuilding_producers(
    snapshots: ProducerSnapshots, segments: Sequence[Segment], log_end: Offset, upper: Offset | None = None
) -> Change[ProducerStates]:
    """Return the producers' state from the latest snapshot and the batches after it, up to `upper`.

    All of it is done in steps: a log may have any number of batches behind its last snapshot.
    """
    start = segments[0].base_offset if segments else Offset(0)
    producers, recent = ProducerStates(), RecentBatches()

    def begin() -> Offset:
        if (snapshot := snapshots.latest(start, log_end)) is None:
            return start
        producers.replace(snapshot[1])
        return snapshot[0]

    begun: Offset = yield begin
    batches = _batches(segments, begun, log_end if upper is None else upper)

    def read_on() -> bool:
        header = None
        for header, marker in islice(batches, REBUILT_AT_ONCE):
            recent.note(header, marker)
        return header is not None

    while (yield read_on):
        pass
    yield lambda: producers.replay(recent)
    return producers


def rebuild_aborted(snapshots: ProducerSnapshots, segments: list[Segment], segment: Segment) -> Iterator[AbortedTxn]:
    """Yield the aborted transactions whose markers are in the segment."""
    base_offset = segment.base_offset
    producers = rebuild_producers(snapshots, segments, base_offset)
    for header, marker in _batches([segment], base_offset, segment.next_offset):
        aborted = producers.update(header, marker)
        if aborted is not None:
            yield aborted


def _batches(
    segments: Sequence[Segment], start: Offset, upper: Offset
) -> Iterator[tuple[BatchHeader, EndTransactionMarker | None]]:
    """Yield the headers of the batches from `start` to `upper`, and the markers in them."""
    for segment in segments:
        if segment.next_offset > start and segment.base_offset < upper:
            for position, header in segment.scan(segment.position_of(start)):
                if header.base_offset >= upper:
                    return
                yield header, segment.marker_at(position, header)


def find_whole_batch(file: File, start: int, least_offset: int) -> int | None:
    """Return the position of the first whole batch, checksum included, that begins anywhere after `start`.

    Only a batch with an offset above `least_offset` counts: a record's value may hold the bytes of another log.
    """
    position = start + 1
    while position + HEADER_BYTES <= file.size:
        window = file.read_at(position, _SEARCH_WINDOW_BYTES)
        magic = window.find(b"\x02", _MAGIC_AT)
        while magic >= 0 and magic - _MAGIC_AT + HEADER_BYTES <= len(window):
            candidate = magic - _MAGIC_AT
            if _is_whole_batch(file, window, candidate, position, least_offset):
                return position + candidate
            magic = window.find(b"\x02", magic + 1)
        position += max(1, len(window) - HEADER_BYTES + 1)
    return None


def _is_whole_batch(file: File, window: bytes, candidate: int, window_start: int, least_offset: int) -> bool:
    try:
        header = read_header(window, candidate)
        position = window_start + candidate
        if position + header.size_bytes > file.size:
            return False
        if not least_offset < header.base_offset <= least_offset + RELATIVE_OFFSET_MAX:
            return False
        check_crc(header, file.read_at(position, header.size_bytes))
    except InvalidBatch:
        return False
    return True


def has_lost_sector(file: File, start: int, end: int, expected_offset: int) -> bool:
    """Return whether the broken bytes from `start` to `end`, where a whole batch begins, include a lost sector.

    The file holds zeros where a power failure lost a write; corruption changes bits, it does not clear sectors. In the
    sector that holds `start`, the part before it was durable earlier, so only the rest counts: it must be long enough
    to reach into the length field, which is never zero, or the batch must be whole once the lost bytes are restored.
    """
    first_end = start - start % _SECTOR_BYTES + _SECTOR_BYTES
    lost = file.read_at(start, min(first_end, end) - start)
    if not any(lost):
        if len(lost) >= _LENGTH_ENDS_AT:
            return True
        prefix = expected_offset.to_bytes(_BASE_OFFSET_BYTES, "big") + (end - start - _LENGTH_ENDS_AT).to_bytes(
            4, "big"
        )
        if _is_whole(prefix[: len(lost)] + file.read_at(start + len(lost), end - start - len(lost))):
            return True
    # The last sector may hold the first bytes of the whole batch, which are the leading zeros of its offset.
    return any(not any(file.read_at(position, _SECTOR_BYTES)) for position in range(first_end, end, _SECTOR_BYTES))


def _is_whole(batch: bytes) -> bool:
    try:
        validate(batch)
    except InvalidBatch:
        return False
    return True


def _is_offset(stem: str) -> bool:
    return len(stem) == _BASE_OFFSET_DIGITS and stem.isascii() and stem.isdigit()


def _split(name: str) -> tuple[str, str]:
    """Return the name up to its first dot, and the rest with the dot."""
    stem, dot, suffix = name.partition(".")
    return stem, dot + suffix
