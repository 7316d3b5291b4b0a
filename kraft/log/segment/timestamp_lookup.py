"""Look-up of an offset by time, for consumers that start at a timestamp or at the newest record.

The loop prepares a look-up and a thread runs it in short steps: some headers, one read, or one piece of a compressed
batch. It opens its own files, so that nothing closes them meanwhile; when it ends, the loop asks
`PartitionLog.still_has` whether the segments that it read are still in the log, and repeats the look-up if not.

**Trust in timestamps.** Producers set timestamps, those of the records and the largest one in the header, and a broker
does not decompress what it appends. As in Kafka, the result is the first record at or after the time. If no record of a
batch has the time that its header claims, Kafka goes on to the next batch; so a client that writes such batches makes
others' look-ups decompress them all. Kraft returns the header's claim: the base offset of that batch with the header's
timestamp. A false header then has the effect of one record with that time: a consumer skips nothing that it requested,
and a look-up decompresses one batch, or two if the log starts inside the first.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Final, NamedTuple

from msgspec import Struct

from kraft.log.disk import Disk, File
from kraft.log.format.compression import decompressed_pieces
from kraft.log.format.record_batch import HEADER_BYTES, BatchHeader, TimestampType
from kraft.log.format.record_codec import RecordFinder
from kraft.log.segment.batches import read_batch, scan_batches
from kraft.log.segment.paths import SegmentPaths
from kraft.log.segment.segment import Segment
from kraft.log.segment.stored_indexes import Entry, OffsetEntries, StoredOffsetIndex, StoredTimeIndex, TimeEntries
from kraft.model.errors import Corruption, InvalidBatch
from kraft.model.ids import Offset

HEADERS_AT_ONCE: Final = 256
"""Headers that are read in one step."""

Found = tuple[Offset, int]
"""Offset and timestamp of a record."""

_INT64_MAX: Final = 0x7FFFFFFFFFFFFFFF
_INT64_MIN: Final = -0x8000000000000000


class TimestampLookup(Struct, frozen=True, eq=False):
    """A prepared look-up. Advance `steps` in any thread, one at a time; they return what was found, or None.

    They raise Corruption and OSError, FileNotFoundError for a segment that is gone. Close them to cancel.
    """

    segments: tuple[Segment, ...]
    """Segments that the look-up reads."""
    steps: Generator[None, None, Found | None]


def prepare(disk: Disk, segments: Sequence[Segment], timestamp_ms: int, least: Offset) -> TimestampLookup:
    """Return a look-up of the first record from offset `least` on with that timestamp or a later one."""
    late = (each for each in segments if each.max_timestamp_ms >= timestamp_ms and each.next_offset > least)
    # If the log starts inside a segment, the late records of that one may be deleted. Any other segment holds one.
    chosen = tuple(islice(late, 2))
    views = [_view(segment, timestamp_ms, least) for segment in chosen]
    return TimestampLookup(chosen, _first_of(disk, views, timestamp_ms, least))


def prepare_newest(disk: Disk, segments: Sequence[Segment], least: Offset) -> TimestampLookup:
    """Return a look-up of the first record from offset `least` on with the largest timestamp."""
    held = [each for each in segments if each.next_offset > least]
    # If the log starts after the newest record of its first segment, only headers show the newest one that is left.
    cut = next((each for each in held[:1] if each.max_timestamp_offset < least), None)
    best = max((each for each in held if each is not cut), key=lambda each: each.max_timestamp_ms, default=None)
    chosen = tuple(each for each in (cut, best) if each is not None)
    cut_view, best_view = (None if each is None else _view(each, each.max_timestamp_ms, least) for each in (cut, best))
    return TimestampLookup(chosen, _newest_of(disk, cut_view, best_view, least))


# --- on the loop ---------------------------------------------------------------------------------------------


class _Landmark(NamedTuple):
    """A claim of an index: a scan from `position` finds a batch that ends at `last_offset` and has that timestamp."""

    position: int
    last_offset: int
    max_timestamp_ms: int | None


class _Route(NamedTuple):
    """Position at which to start reading, if the landmarks are true."""

    position: int
    landmarks: tuple[_Landmark, ...]


class _SegmentView(NamedTuple):
    """Facts of a segment for a thread. `route` is None if its indexes have to be read from their files."""

    base_offset: Offset
    paths: SegmentPaths
    size_bytes: int
    max_timestamp_ms: int
    route: _Route | None


def _view(segment: Segment, timestamp_ms: int, least: Offset) -> _SegmentView:
    in_memory = segment.indexes_in_memory
    return _SegmentView(
        base_offset=segment.base_offset,
        paths=segment.paths,
        size_bytes=segment.size_bytes,
        max_timestamp_ms=segment.max_timestamp_ms,
        route=None if in_memory is None else _route(*in_memory, timestamp_ms, least),
    )


def _route(index: OffsetEntries, time_index: TimeEntries, timestamp_ms: int, least: Offset) -> _Route:
    before, after = time_index.entries_around(timestamp_ms)
    # The time index gets an entry only together with the offset index, for all batches since the previous entry.
    begin = index.last if after is None else index.entry_before_offset(after[1] - 1)
    begin = max(begin, index.entry_before_offset(least), key=itemgetter(1))
    landmarks = [
        _Landmark(index.entry_before_offset(last_offset)[1], last_offset, max_timestamp_ms)
        for max_timestamp_ms, last_offset in _present(before, after)
    ]
    if begin[1]:
        landmarks.append(_Landmark(begin[1], begin[0], None))
    return _Route(begin[1], tuple(landmarks))


def _present(*entries: Entry | None) -> list[Entry]:
    return [entry for entry in entries if entry is not None]


# --- in a thread ---------------------------------------------------------------------------------------------


def _first_of(
    disk: Disk, views: Sequence[_SegmentView], timestamp_ms: int, least: Offset
) -> Generator[None, None, Found | None]:
    for each in views:
        file = disk.open(each.paths.log, create=False)
        try:
            found = yield from _SegmentReader(disk, file, each).first_from(timestamp_ms, least)
        finally:
            file.close()
        if found is not None:
            return found
    return None


def _newest_of(
    disk: Disk, cut: _SegmentView | None, best: _SegmentView | None, least: Offset
) -> Generator[None, None, Found | None]:
    if cut is not None:
        file = disk.open(cut.paths.log, create=False)
        try:
            reader = _SegmentReader(disk, file, cut)
            newest_ms = yield from reader.newest_from(least)
            if newest_ms is not None and (best is None or newest_ms >= best.max_timestamp_ms):
                return (yield from reader.first_from(newest_ms, least))
        finally:
            file.close()
    if best is None:
        return None
    return (yield from _first_of(disk, [best], best.max_timestamp_ms, least))


class _SegmentReader:
    """Look-up in one segment. Every method runs in steps."""

    def __init__(self, disk: Disk, file: File, view: _SegmentView) -> None:
        self._disk = disk
        self._file = file
        self._view = view

    def first_from(self, timestamp_ms: int, least: Offset) -> Generator[None, None, Found | None]:
        def is_late(header: BatchHeader) -> bool:
            return header.max_timestamp_ms >= timestamp_ms and header.last_offset >= least and header.record_count > 0

        position = yield from self._start(timestamp_ms, least)
        while (batch := (yield from self._next_batch(position, is_late))) is not None:
            position, header = batch
            found = yield from self._first_record(position, header, timestamp_ms, least)
            if found is not None:
                return found
            if header.base_offset >= least:
                return _header_claim(header, least)
            # Its records of that time may lie below the log start.
            position += header.size_bytes
        return None

    def newest_from(self, least: Offset) -> Generator[None, None, int | None]:
        """Return the largest timestamp of the batches that reach `least`; None without records."""
        newest_ms: int | None = None

        def note(header: BatchHeader) -> bool:
            nonlocal newest_ms
            if header.last_offset >= least and header.record_count:
                newest_ms = header.max_timestamp_ms if newest_ms is None else max(newest_ms, header.max_timestamp_ms)
            return False

        position = yield from self._start(self._view.max_timestamp_ms, least)
        yield from self._next_batch(position, note)
        return newest_ms

    def _start(self, timestamp_ms: int, least: Offset) -> Generator[None, None, int]:
        """Return a position from which no batch is missed: 0 if the indexes are missing or wrong."""
        route = self._view.route
        if route is None:
            try:
                route = self._stored_route(timestamp_ms, least)
            except (FileNotFoundError, ValueError):
                return 0
            yield
        for landmark in route.landmarks:
            if not (yield from self._is_true(landmark)):
                return 0
        return route.position

    def _stored_route(self, timestamp_ms: int, least: Offset) -> _Route:
        view = self._view
        index = StoredOffsetIndex(self._disk.read_file(view.paths.index), view.base_offset)
        time_index = StoredTimeIndex(self._disk.read_file(view.paths.time_index), view.base_offset)
        if timestamp_ms <= view.max_timestamp_ms and time_index.entries_around(timestamp_ms)[1] is None:
            raise ValueError("the time index lacks the largest timestamp")
        return _route(index, time_index, timestamp_ms, least)

    def _is_true(self, landmark: _Landmark) -> Generator[None, None, bool]:
        position, last_offset, max_timestamp_ms = landmark
        try:
            found = yield from self._next_batch(position, lambda header: header.last_offset >= last_offset)
        except Corruption:
            return False
        if found is None or found[1].last_offset != last_offset:
            return False
        return max_timestamp_ms in (None, found[1].max_timestamp_ms)

    def _next_batch(
        self, position: int, is_wanted: Callable[[BatchHeader], bool]
    ) -> Generator[None, None, tuple[int, BatchHeader] | None]:
        """Return position and header of the first wanted batch, from the one at `position` on."""
        view = self._view
        batches = scan_batches(self._file, view.paths.log, position, size=view.size_bytes)
        for number, (found, header) in enumerate(batches, 1):
            if is_wanted(header):
                return found, header
            if number % HEADERS_AT_ONCE == 0:
                yield
        return None

    def _first_record(
        self, position: int, header: BatchHeader, timestamp_ms: int, least: Offset
    ) -> Generator[None, None, Found | None]:
        """Return the first matching record of a batch; None if it has none."""
        batch = read_batch(self._file, self._view.paths.log, position, header)
        yield
        is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        delta_ms = _INT64_MIN if is_append_time else max(timestamp_ms - header.base_timestamp_ms, _INT64_MIN)
        if delta_ms > _INT64_MAX:
            return None
        finder = RecordFinder(header.record_count, delta_ms, max(least - header.base_offset, 0))
        try:
            for piece in decompressed_pieces(header.codec, memoryview(batch)[HEADER_BYTES:]):
                if finder.feed(piece):
                    return _found(finder, header, is_append_time)
                if finder.left == 0:
                    return None
                yield
        except InvalidBatch:
            # The checksum is right, so the producer sent it like this: the header is the best answer.
            return _header_claim(header, least)
        return _header_claim(header, least)


def _found(finder: RecordFinder, header: BatchHeader, is_append_time: bool) -> Found:
    timestamp_ms = header.base_timestamp_ms + finder.timestamp_delta
    if finder.offset_delta > header.last_offset_delta or timestamp_ms > _INT64_MAX:
        raise InvalidBatch("a record's offset or timestamp is outside its batch's range")
    return Offset(header.base_offset + finder.offset_delta), header.max_timestamp_ms if is_append_time else timestamp_ms


def _header_claim(header: BatchHeader, least: Offset) -> Found:
    return Offset(max(header.base_offset, least)), header.max_timestamp_ms
