"""The aborted transactions whose markers are in one segment: in memory while it grows, then in its `.txnindex`.

Unlike the other indexes it cannot be rebuilt from the segment alone: a transaction may have begun before. Recovery
rebuilds it with the producers' state; see kraft.log.recovery.recovery.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import count
from typing import Final

from msgspec import Struct

from kraft.log.change import Change
from kraft.log.disk import Disk, ReadableFile
from kraft.log.transactions.aborted import ENTRY_BYTES, AbortedTxn, check_entries, decode_entries
from kraft.model.ids import Offset

ENTRIES_PER_BLOCK: Final = 256
"""A look-up skips a block of entries that all begin behind its range. While one transaction stays open, the entries of
all that end meanwhile have a low last stable offset, so none of them ends the look-up."""


BLOCKS_AT_ONCE: Final = 16
"""Blocks of entries that one step of a look-up reads, in about 2 ms."""


class AbortedEntries(Struct, frozen=True, kw_only=True):
    """Entries of one segment: `data`, or the file at `path` if that is None. Any thread may look up."""

    disk: Disk
    path: str
    data: bytes | bytearray | None
    begins: Sequence[int]
    """The lowest first offset in each block of entries."""

    next_offset: Offset
    """Offset after the segment's last batch: all markers are below."""

    def collect(
        self, start: int, upper: int, producers: Container[int], found: list[AbortedTxn], blocks: Iterator[int]
    ) -> Generator[None, None, bool]:
        """Add the transactions of these producers that overlap [start, upper); return True if no later segment has any.

        `blocks` counts the blocks of the look-up. Raises OSError, and ValueError for a file without whole entries.
        """
        if self.next_offset <= start:
            return False
        if self.data is not None:
            return (yield from self._collect(_InMemory(self.data), start, upper, producers, found, blocks))
        with closing(self.disk.open(self.path, create=False)) as file:
            return (yield from self._collect(file, start, upper, producers, found, blocks))

    def _collect(
        self,
        file: ReadableFile,
        start: int,
        upper: int,
        producers: Container[int],
        found: list[AbortedTxn],
        blocks: Iterator[int],
    ) -> Generator[None, None, bool]:
        entries, rest = divmod(file.size, ENTRY_BYTES)
        if rest:
            raise ValueError(f"{file.size} bytes are not a whole number of entries")
        position = _first_marked_from(file, start, entries)
        while position < entries:
            block = position // ENTRIES_PER_BLOCK
            end = min((block + 1) * ENTRIES_PER_BLOCK, entries)
            if self.begins[block] < upper:
                for entry in decode_entries(file.read_at(position * ENTRY_BYTES, (end - position) * ENTRY_BYTES)):
                    if entry.first_offset < upper and entry.producer_id in producers:
                        found.append(entry)
                    if entry.last_stable_offset >= upper:
                        return True
            position = end
            if next(blocks) % BLOCKS_AT_ONCE == 0:
                yield
        return entries > 0 and _entry_at(file, entries - 1).last_stable_offset >= upper


AbortedSteps = Generator[None, None, list[AbortedTxn]]


def aborted_steps(
    segments: Iterable[AbortedEntries], start: int, upper: int, producers: Container[int]
) -> AbortedSteps:
    """Return the aborted transactions of these producers that overlap [start, upper), from segments in order.

    The first segment is the one with `start`. It is done in steps of some thousand entries: while one transaction stays
    open, any number of others may begin before `upper` and end beside it. Raises OSError, and ValueError for a damaged
    file.
    """
    found: list[AbortedTxn] = []
    blocks = count(1)
    for entries in segments:
        if (yield from entries.collect(start, upper, producers, found, blocks)):
            break
    return found


def collect_aborted(segments: Iterable[AbortedEntries], start: int, upper: int) -> list[AbortedTxn]:
    """Run all of `aborted_steps` for all producers."""
    steps = aborted_steps(segments, start, upper, _ALL)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: list[AbortedTxn] = end.value
            return found


class _All:
    """Contains every producer."""

    def __contains__(self, producer_id: object) -> bool:
        return True


_ALL: Final = _All()


class _InMemory:
    def __init__(self, data: bytes | bytearray) -> None:
        self._data = data

    @property
    def size(self) -> int:
        return len(self._data)

    def read_at(self, position: int, size: int) -> bytes:
        return bytes(self._data[position : position + size])


def _first_marked_from(file: ReadableFile, start: int, count: int) -> int:
    """Return the number of the first entry whose marker is at or above `start`; markers ascend."""
    return bisect_left(range(count), start, key=lambda number: _entry_at(file, number).last_offset)


def _entry_at(file: ReadableFile, number: int) -> AbortedTxn:
    (entry,) = decode_entries(file.read_at(number * ENTRY_BYTES, ENTRY_BYTES))
    return entry


def _begins_of(data: bytes | bytearray) -> list[int]:
    """Return the lowest first offset in each block of entries."""
    offsets = [entry.first_offset for entry in decode_entries(data)]
    return [min(offsets[at : at + ENTRIES_PER_BLOCK]) for at in range(0, len(offsets), ENTRIES_PER_BLOCK)]


class AbortedIndex:
    """The index of one segment. A segment without aborted transactions needs no file unless `has_file` is set."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self.has_file = False
        """True if the file must exist, even without entries: otherwise recovery could not notice that it is lost."""
        self._data: bytearray | None = bytearray()
        self._size_bytes = 0
        self._begins: list[int] = []
        """In memory as long as the index: `AbortedEntries.begins`."""

    def __len__(self) -> int:
        """Return the number of aborted transactions."""
        return (self._size_bytes if self._data is None else len(self._data)) // ENTRY_BYTES

    def entries(self, next_offset: Offset, copied: bool) -> AbortedEntries:
        """Return the entries of the segment that ends there, for a look-up.

        Unless copied, they are valid until the index changes.
        """
        data = bytes(self._data) if copied and self._data is not None else self._data
        begins = tuple(self._begins) if copied else self._begins
        return AbortedEntries(disk=self._disk, path=self.path, data=data, begins=begins, next_offset=next_offset)

    # --- growing ---------------------------------------------------------------------------------------------

    def append(self, aborted: AbortedTxn) -> None:
        """Note a transaction whose abort marker was appended to the segment."""
        assert self.has_file, f"the checkpoint does not say that there is {self.path}"
        if len(self) % ENTRIES_PER_BLOCK:
            self._begins[-1] = min(self._begins[-1], aborted.first_offset)
        else:
            self._begins.append(aborted.first_offset)
        self._in_memory().extend(aborted.encode())

    def require_file(self) -> None:
        """Note that the file must exist from now on."""
        self.has_file = True
        if self._data is None and not self._size_bytes:
            self._data = bytearray()

    def replace(self, entries: Iterable[AbortedTxn]) -> None:
        """Replace all entries. The file must be written next."""
        self._data = bytearray(b"".join(entry.encode() for entry in entries))
        self._begins = _begins_of(self._data)
        self.has_file = True

    def cut(self, end_offset: Offset) -> None:
        """Drop the entries whose markers are at or above `end_offset`, where the segment now ends."""
        if count := len(self):
            data = self._in_memory()
            kept = _first_marked_from(_InMemory(data), end_offset, count)
            del data[kept * ENTRY_BYTES :]
            whole = kept // ENTRIES_PER_BLOCK
            self._begins = self._begins[:whole] + _begins_of(data[whole * ENTRIES_PER_BLOCK * ENTRY_BYTES :])

    def _in_memory(self) -> bytearray:
        if self._data is None:
            self._data = bytearray(self.stored())
        return self._data

    # --- file ------------------------------------------------------------------------------------------------

    def write(self) -> Change[None]:
        """Write the file, durably, if there has to be one."""
        if self.has_file and self._data is not None:
            path, data = self.path, bytes(self._data)
            yield lambda: self._disk.write_atomically(path, data)

    def release(self) -> None:
        """Free the memory of the entries, which are in the file."""
        if self._data is not None:
            self._size_bytes, self._data = len(self._data), None

    def stored(self) -> bytes:
        """Return the entries as stored. Any thread may call this. Raises OSError."""
        return self._disk.read_file(self.path) if self._size_bytes else b""

    def keep(self, stored: bytes) -> None:
        """Keep the stored entries in memory while the file is renamed."""
        if self._data is None:
            self._data = bytearray(stored)

    def open(self, base_offset: Offset, next_offset: Offset) -> bool:
        """Load the file of a segment with these offsets. Returns False if it is missing or damaged."""
        self.has_file = True
        try:
            data = self._disk.read_file(self.path)
            check_entries(data, base_offset, next_offset)
        except (FileNotFoundError, ValueError):
            return False
        self._data, self._begins = bytearray(data), _begins_of(data)
        return True
