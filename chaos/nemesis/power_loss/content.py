"""Content of one file: a durable image on the medium, and the operations since the last sync."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from chaos.nemesis.power_loss.loss import PAGE_BYTES, SECTOR_BYTES, Loss


@dataclass(frozen=True, slots=True)
class _Write:
    position: int
    data: bytes

    def size_after(self, size: int) -> int:
        return max(size, self.position + len(self.data))

    def apply(self, image: bytearray, begin: int) -> None:
        """Apply this to the bytes of the file from `begin` on."""
        first, end = max(self.position, begin), min(self.position + len(self.data), begin + len(image))
        if first < end:
            image[first - begin : end - begin] = self.data[first - self.position : end - self.position]

    def pages(self, size: int) -> range:
        """Those that it changes, in a file of that size."""
        return _pages(self.position, self.position + len(self.data))


@dataclass(frozen=True, slots=True)
class _Truncate:
    """Change the size. Beyond the old size the file reads as zeros."""

    size: int

    def size_after(self, size: int) -> int:
        return self.size

    def apply(self, image: bytearray, begin: int) -> None:
        """See `_Write.apply`; behind the end of a file an image holds zeros."""
        kept = max(self.size - begin, 0)
        if kept < len(image):
            image[kept:] = bytes(len(image) - kept)

    def pages(self, size: int) -> range:
        """Those that it changes, in a file of that size."""
        return _pages(self.size, max(size, self.size))


class Content:
    """A file without its name. Not for several threads at once."""

    def __init__(self, image: Path) -> None:
        """`image` is the file on the medium; it is created, empty, when it does not exist."""
        descriptor = os.open(image, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._durable_size = self.size = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        self._image = image
        self._pending: list[_Write | _Truncate] = []
        self._settled = 0
        self._marked_clean: list[_Write | _Truncate] = []
        """Content that programs read although no sync will write it, and the operations on it since."""

    def read(self, position: int, size: int) -> bytes:
        """Read what programs see: the durable image with every later operation applied."""
        end = min(position + size, self.size)
        if position >= end:
            return b""
        image = self._durable(position, end)
        for operation in (*self._marked_clean, *self._pending):
            operation.apply(image, position)
        return bytes(image)

    def write(self, position: int, data: bytes) -> None:
        if data:
            self._change(_Write(position, data))

    def truncate(self, size: int) -> None:
        self._change(_Truncate(size))

    def _change(self, operation: _Write | _Truncate) -> None:
        self._pending.append(operation)
        self.size = operation.size_after(self.size)

    @property
    def mark(self) -> int:
        """Return the number of operations so far, for `sync`."""
        return self._settled + len(self._pending)

    @property
    def is_synced(self) -> bool:
        return not self._pending and not self._marked_clean

    @property
    def unsynced_bytes(self) -> int:
        return sum(len(operation.data) for operation in self._pending if isinstance(operation, _Write))

    def sync(self, mark: int) -> None:
        """Makes durable what had been done when the mark was taken."""
        count = max(mark - self._settled, 0)
        with self._opened() as descriptor:
            for operation in self._pending[:count]:
                self._pass_on(descriptor, operation)
        if self._marked_clean:
            # So that what is read stays in the order in which it was done.
            self._marked_clean += self._pending[:count]
        del self._pending[:count]
        self._settled += count

    def fail_sync(self, mark: int) -> int:
        """Behave like a kernel that cannot write the pages: they stay readable, and no later sync writes them.

        What was cut off is in the file system's journal, and becomes durable. Returns how many bytes were not written.
        """
        count = max(mark - self._settled, 0)
        failed = self._pending[:count]
        with self._opened() as descriptor:
            for operation in failed:
                if isinstance(operation, _Truncate):
                    self._pass_on(descriptor, operation)
        self._marked_clean += failed
        del self._pending[:count]
        self._settled += count
        return sum(len(operation.data) for operation in failed if isinstance(operation, _Write))

    def lose_power(self, loss: Loss, chance: Random) -> None:
        """Keep only the operations that survive; they become the durable image."""
        match loss:
            case Loss.TAIL if self._pending:
                self._lose_tail(chance)
            case Loss.PAGES if self._pending:
                self._lose_pages(chance)
            case _:
                pass
        self._settled += len(self._pending)
        self._pending.clear()
        self._marked_clean.clear()
        self.size = self._durable_size

    # --- what survives ----------------------------------------------------------------------------------------

    def _lose_tail(self, chance: Random) -> None:
        kept = chance.randrange(len(self._pending) + 1)
        with self._opened() as descriptor:
            for operation in self._pending[:kept]:
                self._pass_on(descriptor, operation)
            if kept < len(self._pending) and isinstance(torn := self._pending[kept], _Write):
                end = torn.position + len(torn.data)
                after_first = (torn.position // SECTOR_BYTES + 1) * SECTOR_BYTES
                edge = chance.choice([torn.position, *range(after_first, end, SECTOR_BYTES)])
                if edge > torn.position:
                    self._pass_on(descriptor, _Write(torn.position, torn.data[: edge - torn.position]))

    def _lose_pages(self, chance: Random) -> None:
        sizes, changed_by = [self._durable_size], defaultdict[int, list[int]](list)
        for number, operation in enumerate(self._pending, start=1):
            for page in operation.pages(sizes[-1]):
                changed_by[page].append(number)
            sizes.append(operation.size_after(sizes[-1]))
        sized_as = chance.randrange(len(sizes))
        survived = {}
        for page, numbers in sorted(changed_by.items()):
            if page * PAGE_BYTES < sizes[sized_as]:
                survived[page] = self._surviving_page(page, [0, *numbers], sizes, sized_as, chance)
        with self._opened() as descriptor:
            for page, data in survived.items():
                _write_all(descriptor, page * PAGE_BYTES, data)
            os.ftruncate(descriptor, sizes[sized_as])
        self._durable_size = sizes[sized_as]

    def _surviving_page(self, page: int, numbers: list[int], sizes: list[int], sized_as: int, chance: Random) -> bytes:
        """Each sector as it was after some operation, in most pages all of them after the same one.

        `numbers` are those of the operations that changed the page, with 0 for the durable image.
        """
        begin = page * PAGE_BYTES
        versions = dict(zip(numbers, self._versions(begin, numbers), strict=True))
        is_torn = chance.random() < 0.25
        chosen = _any_version(numbers, chance)
        survived = bytearray()
        for at in range(0, PAGE_BYTES, SECTOR_BYTES):
            if is_torn:
                chosen = _any_version(numbers, chance)
            first, last = _own_versions(begin + at, sizes, sized_as)
            number = max(known for known in numbers if known <= min(max(chosen, first), last))
            survived += versions[number][at : at + SECTOR_BYTES]
        return bytes(survived)

    def _versions(self, begin: int, numbers: list[int]) -> Iterator[bytes]:
        image = self._durable(begin, begin + PAGE_BYTES)
        yield bytes(image)
        for number in numbers[1:]:
            self._pending[number - 1].apply(image, begin)
            yield bytes(image)

    # --- inside ----------------------------------------------------------------------------------------------

    def _durable(self, begin: int, end: int) -> bytearray:
        """Return bytes of the durable image, zeros beyond its end."""
        with self._opened() as descriptor:
            image = bytearray(_read_all(descriptor, begin, end - begin))
        image.extend(bytes(end - begin - len(image)))
        return image

    def _pass_on(self, descriptor: int, operation: _Write | _Truncate) -> None:
        match operation:
            case _Write():
                _write_all(descriptor, operation.position, operation.data)
            case _Truncate():
                os.ftruncate(descriptor, operation.size)
        self._durable_size = operation.size_after(self._durable_size)

    def _opened(self) -> _Opened:
        return _Opened(self._image)


class _Opened:
    """A context manager: the file on the medium, open only as long as it is worked on, since there may be thousands."""

    def __init__(self, image: Path) -> None:
        self._image = image

    def __enter__(self) -> int:
        self._descriptor = os.open(self._image, os.O_RDWR | os.O_CLOEXEC)
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def _pages(begin: int, end: int) -> range:
    return range(begin // PAGE_BYTES, -(-end // PAGE_BYTES))


def _any_version(numbers: list[int], chance: Random) -> int:
    """The oldest and the newest are the likely ones: a page that was written back, and one that was not."""
    return chance.choice([numbers[0], numbers[-1], chance.choice(numbers)])


def _own_versions(start: int, sizes: list[int], sized_as: int) -> tuple[int, int]:
    """After which operations the sector at `start` was the one that is in the file of the surviving size.

    Where the file ended before it, it was not: older bytes do not come back behind a truncation, nor do newer ones
    stand before it.
    """
    first = max((number for number in range(sized_as) if sizes[number] <= start), default=0)
    after = min((number for number in range(sized_as + 1, len(sizes)) if sizes[number] <= start), default=len(sizes))
    return first, after - 1


def _read_all(descriptor: int, position: int, size: int) -> bytes:
    pieces, missing = [], size
    while missing and (data := os.pread(descriptor, missing, position + size - missing)):
        pieces.append(data)
        missing -= len(data)
    return b"".join(pieces)


def _write_all(descriptor: int, position: int, data: bytes) -> None:
    written = 0
    while written < len(data):
        written += os.pwrite(descriptor, data[written:], position + written)
