"""One segment of a partition's log: a `.log` file of batches back to back, and its indexes beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import Final

from msgspec import Struct

from kraft.log.change import Change, run_now
from kraft.log.disk import Disk
from kraft.log.format.control_record import EndTransactionMarker, marker_in
from kraft.log.format.record_batch import BatchHeader, Buffer
from kraft.log.leader_epochs import LeaderEpochCache
from kraft.log.segment.aborted_index import AbortedIndex
from kraft.log.segment.batches import Continuity, checked_bytes, read_batch, scan_batches
from kraft.log.segment.offset_index import OffsetIndex
from kraft.log.segment.paths import DELETED_SUFFIX, segment_paths
from kraft.log.segment.segment_facts import SegmentFacts
from kraft.log.segment.stored_indexes import OffsetEntries, StoredOffsetIndex, last_bytes
from kraft.log.segment.time_index import TimeIndex
from kraft.model.errors import Corruption
from kraft.model.ids import Offset

RELATIVE_OFFSET_MAX: Final = 0x7FFFFFFF

READ_BYTES_MAX: Final = 4 << 20
"""Bytes in one read, unless a batch is larger: a read blocks the loop, and a caller that wants more reads again."""

_NEAR: Final = 0.75
"""A read ends where the index has a batch if that is at least this part of what was requested."""


class _SegmentState(Struct, frozen=True, kw_only=True):
    """Facts of a segment's batches: everything that an append changes."""

    next_offset: Offset
    """Offset after the last batch. The next segment may begin later if compaction removed the last records."""

    max_timestamp_ms: int
    max_timestamp_offset: int
    """Last offset of the first batch with `max_timestamp_ms`; the base offset if no batch has a timestamp."""

    first_timestamp_ms: int | None
    """Timestamp of the first batch; None if not read yet."""

    index: OffsetIndex | None
    time_index: TimeIndex | None
    """Indexes in memory; both None if they have to be read from their files."""

    stored_index: StoredOffsetIndex | None
    index_bytes: int
    """Size of the larger index at its last entry."""


class Segment:
    """Batches from `base_offset` on. Only the last segment of a log grows.

    The indexes of a segment that no longer grows are read from their files when first needed.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: Offset,
        index_interval_bytes: int,
        create: bool,
        present_path: str | None = None,
    ) -> None:
        self.base_offset = base_offset
        self.paths = segment_paths(directory, base_offset)
        self.file = disk.open(present_path or self.path, create)
        self.aborted = AbortedIndex(disk, self.paths.aborted_index)
        self._disk = disk
        self._index_interval_bytes = index_interval_bytes
        self._forget_batches()

    @classmethod
    def at(
        cls, disk: Disk, directory: str, base_offset: Offset, index_interval_bytes: int, present_path: str
    ) -> Segment:
        """Open a segment whose file has another name for now, and check every batch. Raises Corruption."""
        segment = cls(disk, directory, base_offset, index_interval_bytes, create=False, present_path=present_path)
        try:
            segment._rebuild()
        except BaseException:
            segment.file.close()
            raise
        return segment

    # --- state that appends change ---------------------------------------------------------------------------

    def _forget_batches(self) -> None:
        self._restore(
            _SegmentState(
                next_offset=self.base_offset,
                max_timestamp_ms=-1,
                max_timestamp_offset=self.base_offset,
                first_timestamp_ms=None,
                index=OffsetIndex(self.base_offset, self._index_interval_bytes),
                time_index=TimeIndex(self.base_offset),
                stored_index=None,
                index_bytes=0,
            )
        )

    def _known(self) -> _SegmentState:
        """Return the state, for `_restore`; it has the indexes themselves, not copies."""
        return _SegmentState(
            next_offset=self.next_offset,
            max_timestamp_ms=self.max_timestamp_ms,
            max_timestamp_offset=self.max_timestamp_offset,
            first_timestamp_ms=self._first_timestamp_ms,
            index=self._index,
            time_index=self._time_index,
            stored_index=self._stored_index,
            index_bytes=self.index_bytes,
        )

    def _restore(self, known: _SegmentState) -> None:
        self.next_offset = known.next_offset
        self.max_timestamp_ms = known.max_timestamp_ms
        self.max_timestamp_offset = known.max_timestamp_offset
        self._first_timestamp_ms: int | None = known.first_timestamp_ms
        self._index: OffsetIndex | None = known.index
        self._time_index: TimeIndex | None = known.time_index
        self._stored_index: StoredOffsetIndex | None = known.stored_index
        self.index_bytes = known.index_bytes

    # --- facts -----------------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """Path of the `.log`."""
        return self.paths.log

    @property
    def size_bytes(self) -> int:
        return self.file.size

    @property
    def first_timestamp_ms(self) -> int:
        """Largest timestamp of the first batch; -1 if there is none."""
        if self._first_timestamp_ms is None and self.file.size:
            self._first_timestamp_ms = next(self.scan())[1].max_timestamp_ms
        return -1 if self._first_timestamp_ms is None else self._first_timestamp_ms

    @property
    def indexes_in_memory(self) -> tuple[OffsetIndex, TimeIndex] | None:
        """The indexes; None if they have to be read from their files."""
        return None if self._index is None or self._time_index is None else (self._index, self._time_index)

    def facts(self, end_offset: Offset) -> SegmentFacts:
        """Return the facts. `end_offset` is the base offset of the next segment, or the log end."""
        return SegmentFacts(
            base_offset=self.base_offset,
            end_offset=end_offset,
            size_bytes=self.size_bytes,
            max_timestamp_ms=self.max_timestamp_ms,
            first_timestamp_ms=self.first_timestamp_ms,
            path=self.path,
        )

    # --- growing ---------------------------------------------------------------------------------------------

    def append(self, pieces: Sequence[Buffer], headers: Sequence[BatchHeader]) -> int:
        """Write batches, with these headers, that continue the segment. Return their size.

        After an OSError the segment is as before, if the disk still accepts the truncation.
        """
        size = self.file.size
        try:
            position = self.file.append(pieces)
        except OSError:
            # Synced: otherwise the remains may reappear among later writes there, and look like corruption.
            self.file.truncate(size)
            self.file.sync()
            raise
        for header in headers:
            position = self.note_batch(position, header)
        return position - size

    def note_batch(self, position: int, header: BatchHeader) -> int:
        """Note a batch that is in the file, just appended or found by recovery. Return the position of its end."""
        index, time_index = self._index, self._time_index
        if index is None or time_index is None:
            index, time_index = self._indexes()
        last_offset = Offset(header.base_offset + header.last_offset_delta)
        if not self.next_offset <= last_offset <= self.base_offset + RELATIVE_OFFSET_MAX:
            reason = f"a batch that ends at offset {last_offset} cannot follow {self.next_offset - 1} in this segment"
            raise Corruption(self.path, position, reason)
        self._note_timestamp(header, last_offset)
        size = header.size_bytes
        if index.note_batch(last_offset, position, size):
            time_index.note(self.max_timestamp_ms, self.max_timestamp_offset)
            self.index_bytes = max(index.size_bytes, time_index.size_bytes)
        if position == 0:
            self._first_timestamp_ms = header.max_timestamp_ms
        self.next_offset = Offset(last_offset + 1)
        return position + size

    def _note_timestamp(self, header: BatchHeader, last_offset: Offset) -> None:
        # The header of a batch that compaction has emptied still has the timestamp of its records.
        if header.max_timestamp_ms > self.max_timestamp_ms and header.record_count:
            self.max_timestamp_ms, self.max_timestamp_offset = header.max_timestamp_ms, last_offset

    def reserve(self, size: int) -> None:
        """Reserve disk space up to this file size."""
        self.file.reserve(size)

    def finish(self) -> Change[None]:
        """Close the segment to appends; it and its indexes are durable afterwards."""
        _, time_index = self._indexes()
        time_index.note(self.max_timestamp_ms, self.max_timestamp_offset)
        yield self._release_reserve
        yield from self.write_indexes()

    def _release_reserve(self) -> None:
        self.file.truncate(self.file.size)
        self.file.sync()

    # --- reading ---------------------------------------------------------------------------------------------

    def scan(self, start: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Yield position and header of every batch from position `start`, where one must begin."""
        return scan_batches(self.file, self.path, start)

    def marker_at(self, position: int, header: BatchHeader) -> EndTransactionMarker | None:
        """Return the marker in the batch there; None if it is no control batch. Raises Corruption."""
        return marker_in(header, read_batch(self.file, self.path, position, header)) if header.is_control else None

    def position_of(self, offset: int) -> int:
        """Return the position of the first batch that ends at or above `offset`; the file size if there is none."""
        if offset >= self.next_offset:
            return self.file.size
        found = (position for position, header in self._scan_from_entry(offset) if header.last_offset >= offset)
        return next(found, self.file.size)

    def _scan_from_entry(self, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Yield all batches from one at or before `offset`, found by the index; the batch there verifies the entry."""
        entry_offset, position = self._offset_entries().entry_before_offset(offset)
        if position == 0:
            return self.scan()
        if (scan := self._scan_from(position, entry_offset)) is not None:
            return scan
        self.rebuild_indexes()
        return self.scan(self._indexes()[0].entry_before_offset(offset)[1])

    def _scan_from(self, position: int, last_offset: int) -> Iterator[tuple[int, BatchHeader]] | None:
        """Return a scan of all batches from `position`; None unless one that ends at `last_offset` is there."""
        scan = self.scan(position)
        try:
            first = next(scan)
        except (Corruption, StopIteration):
            return None
        return chain((first,), scan) if first[1].last_offset == last_offset else None

    def read(self, start: Offset, bytes_max: int, upper: Offset, epochs: LeaderEpochCache, is_sparse: bool) -> bytes:
        """Return whole batches from the first that reaches `start`: at least one, none that ends above `upper`.

        At most `READ_BATCHES_MAX` batches and `READ_BYTES_MAX` bytes, whatever is requested. Every batch is checked:
        checksum, order of offsets, leader epoch. Raises Corruption.
        """
        continuity: Continuity | None = None
        for position, header in self._scan_from_entry(start):
            if continuity is None:
                # The index confirms the offset of the batch at its entry, the segment's name that of the first batch.
                expected = header.base_offset if position else self.base_offset
                continuity = Continuity(self.path, epochs, is_sparse, expected)
            if header.last_offset >= start:
                data = self.file.read_at(position, self._whole_bytes(position, header, min(bytes_max, READ_BYTES_MAX)))
                end = checked_bytes(data, position, upper, continuity)
                if end == 0:
                    self._check_reaches_above(position, header, upper)
                return data[:end]
            continuity.check(position, header.base_offset, header.last_offset, header.leader_epoch)
        return b""

    def _whole_bytes(self, position: int, first: BatchHeader, bytes_max: int) -> int:
        """Return how many bytes to read from `position` on for at most `bytes_max`, and at least the first batch.

        Up to where a batch begins, if the index has one near: what is cut off would be read, and the rest copied.
        """
        wanted, left = max(bytes_max, first.size_bytes), self.file.size - position
        found = self._offset_entries().position_up_to(position + wanted) - position if wanted < left else 0
        return found if found >= max(wanted * _NEAR, first.size_bytes) else min(wanted, left)

    def _check_reaches_above(self, position: int, header: BatchHeader, upper: Offset) -> None:
        """Check a batch that is not returned because it ends above `upper`: otherwise its corruption stays hidden."""
        read_batch(self.file, self.path, position, header)
        if header.next_offset > self.next_offset or header.last_offset < upper:
            reason = f"a batch has last offset {header.last_offset}, the segment ends at offset {self.next_offset - 1}"
            raise Corruption(self.path, position, reason)

    # --- shrinking -------------------------------------------------------------------------------------------

    def truncate_to(self, offset: Offset) -> Change[None]:
        """Drop every batch that ends at or above `offset`, durably: they must not reappear after a crash."""
        self.aborted.keep((yield self._load_released))
        # Only now: with the indexes loaded it opens no file, for want of which a cut that has begun would fail the log.
        position = self.position_of(offset)
        yield lambda: self._truncate_file(position)
        self._cut_indexes(position)
        self.aborted.cut(self.next_offset)

    def _load_released(self) -> bytes:
        """Load the indexes and return the stored aborted transactions, which would block the loop. Any thread may."""
        if self._index is None or self._time_index is None:
            # What is missing or damaged is built anew from the segment when it is first used.
            with suppress(FileNotFoundError, ValueError):
                self._load_indexes()
        return self.aborted.stored()

    def _truncate_file(self, position: int) -> None:
        self.file.truncate(position)
        self.file.sync()

    def _cut_indexes(self, end_position: int) -> None:
        """Cut the indexes to the batches below that position, and read the last batches, which have no entry."""
        index, time_index = self._indexes()
        index.truncate(end_position)
        last_offset, position = index.last
        time_index.truncate(last_offset + 1 if position else self.base_offset)
        self.max_timestamp_ms, self.max_timestamp_offset = time_index.last
        self.next_offset = self.base_offset
        self._first_timestamp_ms = None
        if position == end_position:
            return
        for found, header in self.scan(position):
            self.next_offset = header.next_offset
            self._note_timestamp(header, header.last_offset)
            # The bytes after it may be anything.
            if found + header.size_bytes >= end_position:
                break

    # --- opening ---------------------------------------------------------------------------------------------

    def resume(self, offset: Offset) -> int | None:
        """Load the index files up to `offset`, where a batch has to begin, and return the position of that batch.

        Returns None if the files are missing or wrong; the segment then knows no batch.
        """
        try:
            self._load_indexes()
            position = self._end_below(offset)
        except (FileNotFoundError, ValueError):
            self._forget_batches()
            return None
        self._cut_indexes(position)
        return position

    def _end_below(self, offset: Offset) -> int:
        """Return the end of the last batch below `offset`. Raises ValueError if the index does not lead to one."""
        entry_offset, end = self._indexes()[0].entry_before_offset(offset - 1)
        if end and self._scan_from(end, entry_offset) is None:
            raise ValueError("the index does not fit the log")
        reached = self.base_offset if end == 0 else Offset(0)
        try:
            for position, header in self.scan(end):
                # The bytes from `offset` on may be anything.
                if reached == offset:
                    break
                end, reached = position + header.size_bytes, header.next_offset
        except Corruption as broken:
            if reached != offset:
                raise ValueError(broken.reason) from None
        if reached != offset:
            raise ValueError(f"no batch ends below offset {offset}")
        return end

    def open_finished(self) -> bool:
        """Read the tail of a segment that was finished. Returns True if its indexes had to be rebuilt.

        Raises Corruption if they had to and a batch is corrupt.
        """
        self.release_indexes()
        try:
            self._read_tail()
        except (FileNotFoundError, ValueError, Corruption):
            self._forget_batches()
            self._rebuild()
            run_now(self.write_indexes())
            self.release_indexes()
            return True
        return False

    def _read_tail(self) -> None:
        """Read the last batches. Raises ValueError if the indexes do not fit them."""
        if self.file.size == 0:
            return
        last_offset, position = OffsetIndex.decode_last(
            last_bytes(self._disk, self.paths.index, OffsetIndex.ENTRY_BYTES), self.base_offset
        )
        if position and self._scan_from(position, last_offset) is None:
            raise ValueError("the index does not fit the log")
        self.max_timestamp_ms, self.max_timestamp_offset = TimeIndex.decode_last(
            last_bytes(self._disk, self.paths.time_index, TimeIndex.ENTRY_BYTES), self.base_offset
        )
        indexed_ms = self.max_timestamp_ms
        for _, header in self.scan(position):
            self.next_offset = header.next_offset
            self._note_timestamp(header, header.last_offset)
        if self.max_timestamp_ms != indexed_ms:
            raise ValueError("the time index lacks the largest timestamp")

    # --- indexes ---------------------------------------------------------------------------------------------

    def _indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        if self._index is None or self._time_index is None:
            try:
                self._load_indexes()
            except (FileNotFoundError, ValueError):
                self.rebuild_indexes()
        assert self._index is not None
        assert self._time_index is not None
        return self._index, self._time_index

    def _offset_entries(self) -> OffsetEntries:
        """Return the offset index for look-ups. A closed segment's is used as stored: decoding would block the loop."""
        if self._index is not None:
            return self._index
        if self._stored_index is None:
            self._stored_index = self.stored_index()
        return self._stored_index or self._indexes()[0]

    def stored_index(self) -> StoredOffsetIndex | None:
        """Return the stored offset index; None if it is missing or cut. Any thread may call this."""
        try:
            return StoredOffsetIndex(self._disk.read_file(self.paths.index), self.base_offset)
        except (FileNotFoundError, ValueError):
            return None

    def keep_index(self, stored: StoredOffsetIndex | None) -> None:
        """Keep the stored index of a closed segment, for look-ups while its index files are renamed."""
        self._stored_index = self._stored_index or stored

    def _load_indexes(self) -> None:
        """Load both index files. Raises FileNotFoundError and ValueError."""
        data, time_data = self._disk.read_file(self.paths.index), self._disk.read_file(self.paths.time_index)
        index = OffsetIndex.decode(data, self.base_offset, self._index_interval_bytes, self.file.size)
        self._time_index = TimeIndex.decode(time_data, self.base_offset)
        self._index = index

    def rebuild_indexes(self) -> None:
        """Rebuild the indexes from the batches, checking each. Raises Corruption, and then changes nothing."""
        known = self._known()
        try:
            self._rebuild()
            if (self.next_offset, self.max_timestamp_ms) != (known.next_offset, known.max_timestamp_ms):
                reason = f"the batches end at offset {self.next_offset}, not {known.next_offset}"
                raise Corruption(self.path, self.file.size, reason)
        except BaseException:
            self._restore(known)
            raise

    def _rebuild(self) -> None:
        self._forget_batches()
        for position, header in scan_batches(self.file, self.path, with_crc=True):
            if header.base_offset < self.next_offset:
                reason = f"a batch at offset {header.base_offset} follows {self.next_offset - 1}"
                raise Corruption(self.path, position, reason)
            self.note_batch(position, header)
        _, time_index = self._indexes()
        time_index.note(self.max_timestamp_ms, self.max_timestamp_offset)

    # --- files -----------------------------------------------------------------------------------------------

    def write_indexes(self) -> Change[None]:
        """Write the index files, durably."""
        index, time_index = self._indexes()
        paths = self.paths
        yield lambda: self._disk.write_atomically(paths.index, index.encode())
        yield lambda: self._disk.write_atomically(paths.time_index, time_index.encode())
        yield from self.aborted.write()

    def release_indexes(self) -> None:
        """Free the memory of the indexes, whose files are written, until they are needed."""
        self._index = self._time_index = self._stored_index = None
        self.aborted.release()

    def moved_to(self, directory: str) -> None:
        """Note that the directory was renamed to this."""
        self.paths = segment_paths(directory, self.base_offset)
        self.aborted.path = self.paths.aborted_index

    def rename_deleted(self) -> list[str]:
        """Rename the files to `.deleted` and return the new names.

        The indexes go first: a log without indexes is valid, an index without its log is not.
        """
        renamed = []
        for path in (self.paths.index, self.paths.time_index, self.paths.aborted_index, self.paths.log):
            if self._disk.exists(path):
                self._disk.rename(path, path + DELETED_SUFFIX)
                renamed.append(path + DELETED_SUFFIX)
        return renamed
