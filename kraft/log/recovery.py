"""What a log finds when it is opened: whole batches, a tail that a crash tore, or rot.

A tear is a broken stretch at the very end with no whole batch behind it: those bytes were never acknowledged as
durable, and are cut off. A broken stretch with a whole batch behind it was once complete, so it is rot: the log refuses
to open, because cutting there would drop acknowledged records without a word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraft.log.disk import Disk, File
from kraft.log.leader_epochs import LeaderEpochCache
from kraft.log.producer_state import ProducerStates
from kraft.log.record_batch import HEADER_BYTES, BatchHeader, check_crc, read_header
from kraft.log.segment import INDEX_SUFFIX, LOG_SUFFIX, RELATIVE_OFFSET_MAX, Segment, scan_batches
from kraft.model.errors import Corruption, InvalidBatch
from kraft.model.ids import LeaderEpoch, Offset

_BASE_OFFSET_DIGITS: Final = 20
_MAGIC_AT: Final = 16
_SEARCH_WINDOW_BYTES: Final = 1 << 20
_TEMPORARY_SUFFIX: Final = ".tmp"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """What opening the log did. `torn_at` is the offset that the log was cut to, None when nothing was cut."""

    segments: int
    batches: int
    segments_checked: int
    indexes_rebuilt: int
    torn_at: Offset | None
    torn_file: str
    torn_bytes: int
    torn_reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredLog:
    """Segments ascend and the last one grows; there are none in a directory that was just made."""

    segments: list[Segment]
    epochs: LeaderEpochCache
    producers: ProducerStates
    report: RecoveryReport


def recover(disk: Disk, directory: str, index_interval_bytes: int, clean_shutdown: bool) -> RecoveredLog:
    """Opens what the directory holds. After a clean shutdown only the last segment's checksums are checked.

    Raises Corruption when bytes that were whole are not any more.
    """
    return _Recovery(disk, directory, index_interval_bytes).run(clean_shutdown)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tear:
    file: str
    reason: str
    cut_bytes: int
    log_end: Offset


class _Recovery:
    """One pass over all headers, gathering what they say of offsets, epochs and producers."""

    def __init__(self, disk: Disk, directory: str, index_interval_bytes: int) -> None:
        self._disk = disk
        self._directory = directory
        self._index_interval_bytes = index_interval_bytes
        self._epochs = LeaderEpochCache()
        self._producers = ProducerStates()
        self._batches = 0
        self._next_offset = Offset(0)

    def run(self, clean_shutdown: bool) -> RecoveredLog:
        base_offsets = self._tidy()
        segments: list[Segment] = []
        tear: _Tear | None = None
        indexes_rebuilt = 0
        try:
            for base_offset in base_offsets:
                is_last = base_offset == base_offsets[-1]
                segment = Segment(self._disk, self._directory, base_offset, self._index_interval_bytes, create=False)
                segments.append(segment)
                self._check_follows(segments)
                tear = self._scan(segment, with_crc=is_last or not clean_shutdown, is_last=is_last)
                indexes_rebuilt += not is_last and segment.write_index()
                if not is_last:
                    segment.release_index()
        except BaseException:
            for segment in segments:
                segment.file.close()
            raise
        return RecoveredLog(
            segments=segments,
            epochs=self._epochs,
            producers=self._producers,
            report=RecoveryReport(
                segments=len(segments),
                batches=self._batches,
                segments_checked=min(1, len(segments)) if clean_shutdown else len(segments),
                indexes_rebuilt=indexes_rebuilt,
                torn_at=tear.log_end if tear else None,
                torn_file=tear.file if tear else "",
                torn_bytes=tear.cut_bytes if tear else 0,
                torn_reason=tear.reason if tear else "",
            ),
        )

    def _tidy(self) -> list[Offset]:
        """The base offsets of the segments. Removes what a crash left behind: temporary files, an index alone."""
        names = self._disk.list(self._directory)
        logs = {name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX)}
        for name in names:
            is_orphan = name.endswith(INDEX_SUFFIX) and name.removesuffix(INDEX_SUFFIX) not in logs
            if is_orphan or name.endswith(_TEMPORARY_SUFFIX):
                self._disk.remove(f"{self._directory}/{name}")
        for stem in logs:
            if len(stem) != _BASE_OFFSET_DIGITS or not (stem.isascii() and stem.isdigit()):
                raise Corruption(f"{self._directory}/{stem}{LOG_SUFFIX}", 0, "the name is not a base offset")
        return sorted(Offset(int(stem)) for stem in logs)

    def _check_follows(self, segments: list[Segment]) -> None:
        segment = segments[-1]
        if len(segments) == 1:
            self._next_offset = segment.base_offset
        elif segment.base_offset != self._next_offset:
            raise Corruption(segment.path, 0, f"the segment before ends at offset {self._next_offset}")

    def _scan(self, segment: Segment, with_crc: bool, is_last: bool) -> _Tear | None:
        batches = scan_batches(segment.file, segment.path, with_crc=with_crc)
        while True:
            try:
                found = next(batches, None)
            except Corruption as broken:
                # A segment was synced before the next one was begun, so only the last can be torn.
                if not is_last:
                    raise
                self._check_is_torn(segment, broken)
                return self._cut(segment, broken)
            if found is None:
                return None
            self._take(segment, *found)

    def _take(self, segment: Segment, position: int, header: BatchHeader) -> None:
        if header.base_offset != self._next_offset:
            raise Corruption(segment.path, position, f"offset {header.base_offset} follows {self._next_offset - 1}")
        if header.leader_epoch < self._epochs.latest_epoch:
            raise Corruption(
                segment.path, position, f"leader epoch {header.leader_epoch} follows {self._epochs.latest_epoch}"
            )
        segment.note_batch(position, header)
        self._epochs.assign(LeaderEpoch(header.leader_epoch), Offset(header.base_offset))
        self._producers.update(header)
        self._batches += 1
        self._next_offset = header.next_offset

    def _check_is_torn(self, segment: Segment, broken: Corruption) -> None:
        behind = find_whole_batch(segment.file, broken.position, self._next_offset)
        if behind is not None:
            raise Corruption(
                broken.file, broken.position, f"{broken.reason}; a whole batch follows at byte {behind}, so this is rot"
            )

    def _cut(self, segment: Segment, broken: Corruption) -> _Tear:
        cut_bytes = segment.size_bytes - broken.position
        segment.file.truncate(broken.position)
        segment.file.sync()
        return _Tear(file=segment.path, reason=broken.reason, cut_bytes=cut_bytes, log_end=self._next_offset)


def find_whole_batch(file: File, start: int, least_offset: int) -> int | None:
    """The position of the first whole batch, checksum included, that begins anywhere behind `start`.

    Only one with an offset above `least_offset` counts: a record's value may hold the bytes of some other log.
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
