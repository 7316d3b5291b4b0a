"""One stretch of a partition's log: a `.log` file of batches back to back, and two sparse indexes beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kraft.log.change import Change, run_now
from kraft.log.disk import Disk
from kraft.log.format.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    Buffer,
    check_crc,
    check_frame,
    read_frame,
    read_header,
)
from kraft.log.leader_epochs import LeaderEpochCache
from kraft.log.segment.facts import SegmentFacts
from kraft.log.segment.offset_index import OffsetIndex
from kraft.log.segment.stored_indexes import OffsetEntries, StoredOffsetIndex
from kraft.log.segment.time_index import TimeIndex
from kraft.log.segment.written_again import ReadableFile
from kraft.model.errors import Corruption, InvalidBatch
from kraft.model.ids import NO_LEADER_EPOCH, Offset

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
DELETED_SUFFIX: Final = ".deleted"
RELATIVE_OFFSET_MAX: Final = 0x7FFFFFFF

READ_BYTES_MAX: Final = 4 << 20
"""In one read, unless a batch is larger: a read holds the loop, and whoever wants more reads again."""

READ_BATCHES_MAX: Final = 1_000
"""In one read: to check a small batch costs as much as to check a kilobyte."""

_HEADER_WINDOW_BYTES: Final = 4 << 10
_CRC_WINDOW_BYTES: Final = 1 << 20


def file_name(base_offset: int, suffix: str) -> str:
    """Twenty digits, so that names sort as offsets do."""
    return f"{base_offset:020d}{suffix}"


def scan_batches(
    file: ReadableFile, path: str, start: int = 0, with_crc: bool = False, size: int | None = None
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every batch from the one that begins at `start`, up to `size` instead of the whole file.

    Raises Corruption where a batch is broken or cut; everything yielded before was whole.
    """
    position = window_start = start
    window = b""
    window_bytes = _CRC_WINDOW_BYTES if with_crc else _HEADER_WINDOW_BYTES
    while position < (file_size := file.size if size is None else size):
        if position + HEADER_BYTES > window_start + len(window):
            window, window_start = file.read_at(position, window_bytes), position
        try:
            header = read_header(window, position - window_start)
            end = position + header.size_bytes
            if end > file_size:
                raise InvalidBatch(f"a batch of {header.size_bytes} bytes reaches beyond the end of the file")
            if with_crc:
                if end > window_start + len(window):
                    window, window_start = file.read_at(position, max(window_bytes, header.size_bytes)), position
                check_crc(header, memoryview(window)[position - window_start : end - window_start])
        except InvalidBatch as error:
            raise Corruption(path, position, error.message) from None
        yield position, header
        position = end


def read_batch(file: ReadableFile, path: str, position: int, header: BatchHeader) -> bytes:
    """The whole batch; raises Corruption when its bytes are not those that were written."""
    batch = file.read_at(position, header.size_bytes)
    try:
        check_crc(header, batch)
    except InvalidBatch as error:
        raise Corruption(path, position, error.message) from None
    return batch


class Continuity:
    """What each batch of a log must be in view of the one before it: the checksum covers neither offset nor epoch."""

    def __init__(self, path: str, epochs: LeaderEpochCache, is_sparse: bool, next_offset: int) -> None:
        self.path = path
        self._epochs = epochs
        self._is_sparse = is_sparse
        self.next_offset = next_offset
        self._epoch, self._epoch_end = NO_LEADER_EPOCH, next_offset

    def epochs_changed(self) -> None:
        """The cache has learned of another epoch."""
        self._epoch_end = self.next_offset

    def check(self, position: int, base_offset: int, last_offset: int, leader_epoch: int) -> None:
        """Raises Corruption unless the batch at `position` comes next. A sparse log may leave offsets out."""
        if base_offset != self.next_offset and not (self._is_sparse and base_offset > self.next_offset):
            reason = f"a batch at offset {base_offset} stands where {self.next_offset} is next"
            raise Corruption(self.path, position, reason)
        if last_offset >= self._epoch_end:
            self._epoch, self._epoch_end = self._epochs.span_of(last_offset)
        # The cache does not know the epochs of records below the log's start.
        if leader_epoch != self._epoch != NO_LEADER_EPOCH:
            reason = f"a batch at offset {base_offset} claims leader epoch {leader_epoch}, it is of {self._epoch}"
            raise Corruption(self.path, position, reason)
        self.next_offset = last_offset + 1


class Segment:
    """Batches from `base_offset` on. Only the last segment of a log grows.

    The indexes of a segment that no longer grows are read from their files when they are first needed.
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
        stem = f"{directory}/{file_name(base_offset, '')}"
        self.base_offset = base_offset
        self.path = stem + LOG_SUFFIX
        self.index_path = stem + INDEX_SUFFIX
        self.time_index_path = stem + TIME_INDEX_SUFFIX
        self.file = disk.open(present_path or self.path, create)
        self.next_offset = base_offset
        """Behind the last batch. The next segment may begin later, when compaction took the last records away."""
        self.max_timestamp_ms = -1
        self.index_bytes = 0
        """Size of the larger index, as it stood at its last entry."""
        self._max_timestamp_offset = int(base_offset)
        self._disk = disk
        self._index_interval_bytes = index_interval_bytes
        self._index: OffsetIndex | None = OffsetIndex(base_offset, index_interval_bytes)
        self._time_index: TimeIndex | None = TimeIndex(base_offset)
        self._stored_index: StoredOffsetIndex | None = None
        self._first_timestamp_ms: int | None = None

    @classmethod
    def at(
        cls, disk: Disk, directory: str, base_offset: Offset, index_interval_bytes: int, present_path: str
    ) -> Segment:
        """A segment whose file will be renamed to its place, every batch of it checked. Raises Corruption."""
        segment = cls(disk, directory, base_offset, index_interval_bytes, create=False, present_path=present_path)
        try:
            segment._rebuild(is_known=False)
        except BaseException:
            segment.file.close()
            raise
        return segment

    @property
    def size_bytes(self) -> int:
        return self.file.size

    @property
    def first_timestamp_ms(self) -> int:
        """The largest of the first batch; -1 for none."""
        if self._first_timestamp_ms is None and self.file.size:
            self._first_timestamp_ms = next(self.scan())[1].max_timestamp_ms
        return -1 if self._first_timestamp_ms is None else self._first_timestamp_ms

    @property
    def max_timestamp_offset(self) -> int:
        """Last offset of the first batch with `max_timestamp_ms`; the segment's own when no batch has a timestamp."""
        return self._max_timestamp_offset

    @property
    def indexes_in_memory(self) -> tuple[OffsetIndex, TimeIndex] | None:
        """None when they are to be read from their files."""
        return None if self._index is None or self._time_index is None else (self._index, self._time_index)

    def facts(self, end_offset: Offset) -> SegmentFacts:
        """`end_offset` is where the next segment begins, or the log ends."""
        return SegmentFacts(
            base_offset=self.base_offset,
            end_offset=end_offset,
            size_bytes=self.size_bytes,
            max_timestamp_ms=self.max_timestamp_ms,
            first_timestamp_ms=self.first_timestamp_ms,
            path=self.path,
        )

    # --- growing ---------------------------------------------------------------------------------------------

    def append(self, pieces: Sequence[Buffer], headers: Sequence[BatchHeader]) -> None:
        """Writes batches whose headers are given; their offsets continue the segment's. After an OSError the segment
        is what it was before, as far as the disk can still be told so."""
        size = self.file.size
        try:
            position = self.file.append(pieces)
        except OSError:
            # Synced, or else the remains may come back among what is written there later, and look like rot.
            self.file.truncate(size)
            self.file.sync()
            raise
        for header in headers:
            self.note_batch(position, header)
            position += header.size_bytes

    def note_batch(self, position: int, header: BatchHeader) -> None:
        """Takes notice of a batch that stands in the file: it was appended, or found by recovery."""
        index, time_index = self._index, self._time_index
        if index is None or time_index is None:
            index, time_index = self._indexes()
        last_offset = header.last_offset
        if not self.next_offset <= last_offset <= self.base_offset + RELATIVE_OFFSET_MAX:
            reason = f"a batch that ends at offset {last_offset} cannot follow {self.next_offset - 1} in this segment"
            raise Corruption(self.path, position, reason)
        self._note_timestamp(header)
        if index.note_batch(last_offset, position, header.size_bytes):
            time_index.note(self.max_timestamp_ms, self._max_timestamp_offset)
            self.index_bytes = max(index.size_bytes, time_index.size_bytes)
        if position == 0:
            self._first_timestamp_ms = header.max_timestamp_ms
        self.next_offset = Offset(last_offset + 1)

    def _note_timestamp(self, header: BatchHeader) -> None:
        # A batch that compaction has emptied still claims the timestamp that its records had.
        if header.max_timestamp_ms > self.max_timestamp_ms and header.record_count:
            self.max_timestamp_ms, self._max_timestamp_offset = header.max_timestamp_ms, header.last_offset

    def reserve(self, size: int) -> None:
        """Sets disk space aside up to that size of the file."""
        self.file.reserve(size)

    def finish(self) -> Change[None]:
        """The segment grows no more: durable with its indexes when that is over."""
        _, time_index = self._indexes()
        time_index.note(self.max_timestamp_ms, self._max_timestamp_offset)
        yield self._give_reserve_back
        yield from self.write_indexes()

    def _give_reserve_back(self) -> None:
        self.file.truncate(self.file.size)
        self.file.sync()

    # --- reading ---------------------------------------------------------------------------------------------

    def scan(self, start: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of every batch from `start`, which must be the start of one."""
        return scan_batches(self.file, self.path, start)

    def position_of(self, offset: int) -> int:
        """Where the first batch begins that ends at or above `offset`; the size of the segment when there is none."""
        if offset >= self.next_offset:
            return self.file.size
        for position, header in self._scan_from_entry(offset):
            if header.last_offset >= offset:
                return position
        return self.file.size

    def _scan_from_entry(self, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """All batches from one at or before `offset`, found through the index; the batch there proves the index."""
        entry_offset, position = self._offset_entries().entry_before_offset(offset)
        if position == 0:
            return self.scan()
        if not self._has_batch(position, entry_offset):
            self.rebuild_indexes()
            _, position = self._indexes()[0].entry_before_offset(offset)
        return self.scan(position)

    def _has_batch(self, position: int, last_offset: int) -> bool:
        try:
            found = next(self.scan(position), None)
        except Corruption:
            return False
        return found is not None and found[1].last_offset == last_offset

    def read(self, start: Offset, bytes_max: int, upper: Offset, epochs: LeaderEpochCache, is_sparse: bool) -> bytes:
        """Whole batches from the first that reaches `start`: at least one, none that ends above `upper`.

        At most `READ_BATCHES_MAX`, and `READ_BYTES_MAX` whatever is asked for. Every one was checked: checksum, order
        of offsets, leader epoch. Raises Corruption.
        """
        continuity: Continuity | None = None
        for position, header in self._scan_from_entry(start):
            if continuity is None:
                # The index vouches for the offset of the batch at its entry, the segment's name for that of the first.
                expected = header.base_offset if position else self.base_offset
                continuity = Continuity(self.path, epochs, is_sparse, expected)
            if header.last_offset >= start:
                data = self.file.read_at(position, max(min(bytes_max, READ_BYTES_MAX), header.size_bytes))
                end = self._checked_bytes(data, position, upper, continuity)
                if end == 0:
                    self._check_reaches_above(position, header, upper)
                return data[:end]
            continuity.check(position, header.base_offset, header.last_offset, header.leader_epoch)
        return b""

    def _checked_bytes(self, data: bytes, begin: int, upper: Offset, continuity: Continuity) -> int:
        """How many bytes of `data`, read at `begin`, are whole batches up to `upper`."""
        view = memoryview(data)
        size = len(data)
        end = 0
        for _ in range(READ_BATCHES_MAX):
            if end + HEADER_BYTES > size:
                break
            try:
                base_offset, size_bytes, leader_epoch, crc, last_offset = read_frame(data, end)
                next_end = end + size_bytes
                if next_end > size or last_offset >= upper:
                    break
                check_frame(view[end:next_end], crc)
            except InvalidBatch as error:
                raise Corruption(self.path, begin + end, error.message) from None
            continuity.check(begin + end, base_offset, last_offset, leader_epoch)
            end = next_end
        return end

    def _check_reaches_above(self, position: int, header: BatchHeader, upper: Offset) -> None:
        """A batch that is withheld, because it ends above `upper`, must be a true one, or nobody would ever notice."""
        read_batch(self.file, self.path, position, header)
        if header.next_offset > self.next_offset or header.last_offset < upper:
            reason = f"a batch claims to end at offset {header.last_offset}, the segment ends at {self.next_offset - 1}"
            raise Corruption(self.path, position, reason)

    # --- shrinking -------------------------------------------------------------------------------------------

    def truncate_to(self, offset: Offset) -> Change[None]:
        """Drops every batch that ends at or above `offset`, durably: a crash must not bring them back."""
        position = self.position_of(offset)
        self._indexes()
        yield lambda: self._truncate_file(position)
        self._settle(position)

    def _truncate_file(self, position: int) -> None:
        self.file.truncate(position)
        self.file.sync()

    def _settle(self, end_position: int) -> None:
        """Cuts the indexes to the batches below that position, and learns from the last ones what they do not say."""
        index, time_index = self._indexes()
        index.truncate(end_position)
        last_offset, position = index.last
        time_index.truncate(last_offset + 1 if position else self.base_offset)
        self.max_timestamp_ms, self._max_timestamp_offset = time_index.last
        self.next_offset = self.base_offset
        self._first_timestamp_ms = None
        if position == end_position:
            return
        for found, header in self.scan(position):
            self.next_offset = header.next_offset
            self._note_timestamp(header)
            # What follows may be anything.
            if found + header.size_bytes >= end_position:
                break

    # --- opening ---------------------------------------------------------------------------------------------

    def resume(self, offset: Offset) -> int | None:
        """Trusts the index files up to `offset`, where a batch has to begin, and returns the position of that.

        None when they cannot be trusted; nothing is known then.
        """
        try:
            self._load_indexes()
            position = self._position_behind(offset)
        except (FileNotFoundError, ValueError):
            self._forget_batches()
            return None
        self._settle(position)
        return position

    def _position_behind(self, offset: Offset) -> int:
        """Where the batch ends that ends below `offset`. Raises ValueError when the index does not lead to one."""
        entry_offset, end = self._indexes()[0].entry_before_offset(offset - 1)
        if end and not self._has_batch(end, entry_offset):
            raise ValueError("the index does not fit the log")
        reached = self.base_offset if end == 0 else Offset(0)
        try:
            for position, header in self.scan(end):
                # What begins at `offset` may be anything: nothing is known of it.
                if reached == offset:
                    break
                end, reached = position + header.size_bytes, header.next_offset
        except Corruption as broken:
            if reached != offset:
                raise ValueError(broken.reason) from None
        if reached != offset:
            raise ValueError(f"no batch ends below offset {offset}")
        return end

    def close_growth(self) -> bool:
        """Opens a segment that was finished: only its tail is read. True when its indexes had to be made anew.

        Raises Corruption when they had to, and its batches are not whole.
        """
        self.release_indexes()
        try:
            self._read_tail()
        except (FileNotFoundError, ValueError, Corruption):
            self._forget_batches()
            self.next_offset = self._rebuild(is_known=False)
            run_now(self.write_indexes())
            self.release_indexes()
            return True
        return False

    def _read_tail(self) -> None:
        """Raises ValueError when what the indexes say of the last batches is not true."""
        if self.file.size == 0:
            return
        last_offset, position = OffsetIndex.decode_last(
            self._last_bytes(self.index_path, OffsetIndex.ENTRY_BYTES), self.base_offset
        )
        if position and not self._has_batch(position, last_offset):
            raise ValueError("the index does not fit the log")
        self.max_timestamp_ms, self._max_timestamp_offset = TimeIndex.decode_last(
            self._last_bytes(self.time_index_path, TimeIndex.ENTRY_BYTES), self.base_offset
        )
        indexed_ms = self.max_timestamp_ms
        for _, header in self.scan(position):
            self.next_offset = header.next_offset
            self._note_timestamp(header)
        if self.max_timestamp_ms != indexed_ms:
            raise ValueError("the time index lacks the largest timestamp")

    def _last_bytes(self, path: str, size: int) -> bytes:
        file = self._disk.open(path, create=False)
        try:
            if file.size % size:
                raise ValueError(f"{file.size} bytes are no whole number of entries")
            return file.read_at(max(0, file.size - size), size)
        finally:
            file.close()

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
        """To look something up. A closed segment's index is left as it is stored: to decode it would hold up others."""
        if self._index is not None:
            return self._index
        if self._stored_index is None:
            self._stored_index = self.stored_index()
        return self._stored_index or self._indexes()[0]

    def stored_index(self) -> StoredOffsetIndex | None:
        """The offset index as it is stored; None where it is missing or cut. May be called in any thread."""
        try:
            return StoredOffsetIndex(self._disk.read_file(self.index_path), self.base_offset)
        except (FileNotFoundError, ValueError):
            return None

    def keep_index(self, stored: StoredOffsetIndex | None) -> None:
        """Of a closed segment, to look things up in while its index files are put aside."""
        self._stored_index = self._stored_index or stored

    def _load_indexes(self) -> None:
        """Raises FileNotFoundError and ValueError."""
        data, time_data = self._disk.read_file(self.index_path), self._disk.read_file(self.time_index_path)
        index = OffsetIndex.decode(data, self.base_offset, self._index_interval_bytes, self.file.size)
        self._time_index = TimeIndex.decode(time_data, self.base_offset)
        self._index = index

    def rebuild_indexes(self) -> None:
        """From the batches, every one of them checked. Raises Corruption, and all is as before."""
        known = vars(self).copy()
        try:
            self._rebuild(is_known=True)
        except BaseException:
            vars(self).update(known)
            raise

    def _rebuild(self, is_known: bool) -> Offset:
        end, max_timestamp_ms = self.next_offset, self.max_timestamp_ms
        self._forget_batches()
        for position, header in scan_batches(self.file, self.path, with_crc=True):
            if header.base_offset < self.next_offset:
                reason = f"a batch at offset {header.base_offset} follows {self.next_offset - 1}"
                raise Corruption(self.path, position, reason)
            self.note_batch(position, header)
        if is_known and (self.next_offset, self.max_timestamp_ms) != (end, max_timestamp_ms):
            reason = f"the batches end at offset {self.next_offset}, not {end}"
            raise Corruption(self.path, self.file.size, reason)
        _, time_index = self._indexes()
        time_index.note(self.max_timestamp_ms, self._max_timestamp_offset)
        return self.next_offset

    def _forget_batches(self) -> None:
        self._stored_index = None
        self._index = OffsetIndex(self.base_offset, self._index_interval_bytes)
        self._time_index = TimeIndex(self.base_offset)
        self.next_offset = self.base_offset
        self.max_timestamp_ms = -1
        self._max_timestamp_offset = int(self.base_offset)
        self._first_timestamp_ms = None

    def write_indexes(self) -> Change[None]:
        """Brings the index files up to date, durably."""
        index, time_index = self._indexes()
        data, time_data = index.encode(), time_index.encode()
        path, time_path = self.index_path, self.time_index_path
        yield lambda: self._disk.write_atomically(path, data)
        yield lambda: self._disk.write_atomically(time_path, time_data)

    def release_indexes(self) -> None:
        """The index files are written: the memory is given back until it is needed."""
        self._index = self._time_index = self._stored_index = None

    def moved_to(self, directory: str) -> None:
        """The directory of the files, which are the same, has this name now."""
        stem = f"{directory}/{file_name(self.base_offset, '')}"
        self.path, self.index_path = stem + LOG_SUFFIX, stem + INDEX_SUFFIX
        self.time_index_path = stem + TIME_INDEX_SUFFIX

    # --- end of life -----------------------------------------------------------------------------------------

    def rename_deleted(self) -> list[str]:
        """Gives the files names under which the log does not know them any more, the indexes first: without its log
        an index would mean nothing, the log alone means everything. Returns the new names."""
        renamed = []
        for path in (self.index_path, self.time_index_path, self.path):
            if self._disk.exists(path):
                self._disk.rename(path, path + DELETED_SUFFIX)
                renamed.append(path + DELETED_SUFFIX)
        return renamed
