"""A file of the simulated disk: its page cache, its durable image, and the effect of a crash on both."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b
from random import Random
from typing import Final

Buffer = bytes | bytearray | memoryview

SECTOR_BYTES: Final = 512


class CrashMode(Enum):
    """The unsynced operations that survive a crash."""

    DROP = "drop"
    """Nothing."""

    KEEP = "keep"
    """Everything: only the process died. Unsynced operations stay unsynced, and a later crash may lose them."""

    TEAR = "tear"
    """Everything in order, except that of the last write to each file only the first sectors survive, and of the
    operations on names only the first ones."""

    REORDER = "reorder"
    """Any sectors of any writes, any of the sizes that the file had, any operations on names."""


class SyncFailure(Enum):
    """The fate of pages that the kernel could not write, after it has reported the error."""

    MARKS_CLEAN = "marks clean"
    """They stay readable and are never written; the next sync succeeds. Only written bytes are pages: the size after a
    truncation is none, and the next sync makes it durable."""

    DROPS = "drops"
    """They are dropped: reads give the old bytes."""


# --- files ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes written at a position; durable after the next sync."""

    position: int
    data: bytes

    def apply(self, image: bytearray) -> None:
        if len(image) < self.position:
            image.extend(bytes(self.position - len(image)))
        image[self.position : self.position + len(self.data)] = self.data


@dataclass(frozen=True, slots=True)
class Truncate:
    """A new size of a file; durable after the next sync."""

    size: int

    def apply(self, image: bytearray) -> None:
        del image[self.size :]
        image.extend(bytes(self.size - len(image)))


class Content:
    """The content of a file, an inode: what programs read, what is durable, and the operations between."""

    __slots__ = ("cache", "durable", "pending", "reserved")

    def __init__(self, durable: bytes | bytearray = b"") -> None:
        self.durable = bytearray(durable)
        self.cache = bytearray(durable)
        self.pending: list[Write | Truncate] = []
        self.reserved = 0

    @property
    def allocated(self) -> int:
        return max(len(self.cache), self.reserved)

    def change(self, operation: Write | Truncate) -> None:
        operation.apply(self.cache)
        self.pending.append(operation)

    def sync(self) -> None:
        # Not a copy of the cache: bytes that an earlier sync failed to write are in it, but never become durable.
        for operation in self.pending:
            operation.apply(self.durable)
        self.pending.clear()

    def fail_sync(self, failure: SyncFailure) -> None:
        if failure is SyncFailure.DROPS:
            self.pending.clear()
            self.cache[:] = self.durable
        else:
            # A size is in the file system's journal; if that failed, the file system would accept no more writes.
            self.pending = [operation for operation in self.pending if isinstance(operation, Truncate)]

    def copy(self) -> Content:
        copied = Content(self.durable)
        copied.cache = bytearray(self.cache)
        copied.pending = list(self.pending)
        copied.reserved = self.reserved
        return copied

    def state(self) -> Hashable:
        """Equal for contents that read alike, now and after any further crash."""
        return blake2b(self.cache).digest(), blake2b(self.durable).digest(), tuple(self.pending), self.reserved

    def crash(self, mode: CrashMode, random: Random) -> None:
        """Choose one of the contents that the mode allows."""
        images = self._images()
        if mode is CrashMode.DROP or len(images) == 1:
            survived = images[0]
        elif mode is CrashMode.TEAR:
            survived = self._torn(images, random)
        else:
            survived = _reordered(images, random)
        self.durable, self.cache, self.reserved = survived, bytearray(survived), 0
        self.pending.clear()

    def _images(self) -> list[bytearray]:
        """The durable content, and the content after each operation since."""
        images = [self.durable]
        for operation in self.pending:
            image = bytearray(images[-1])
            operation.apply(image)
            images.append(image)
        return images

    def _torn(self, images: list[bytearray], random: Random) -> bytearray:
        last = self.pending[-1]
        if isinstance(last, Truncate):
            return random.choice(images[-2:])
        end = last.position + len(last.data)
        boundaries = range(last.position // SECTOR_BYTES * SECTOR_BYTES + SECTOR_BYTES, end, SECTOR_BYTES)
        kept = random.choice([last.position, *boundaries]) - last.position
        torn = bytearray(images[-2])
        if kept:
            Write(last.position, last.data[:kept]).apply(torn)
        return torn


def _reordered(images: list[bytearray], random: Random) -> bytearray:
    """Choose for each sector, and for the size, one of the states that it had."""
    sized_as = random.randrange(len(images))
    survived = bytearray(len(images[sized_as]))
    for start in range(0, len(survived), SECTOR_BYTES):
        # While the file ended before the sector, the sector was not part of it: older bytes cannot come back after a
        # truncation, nor newer ones before it.
        absent = [index for index, image in enumerate(images) if len(image) <= start]
        first = max((index for index in absent if index < sized_as), default=0)
        last = min((index for index in absent if index > sized_as), default=len(images)) - 1
        chosen = images[last if random.random() < 0.5 else random.randint(first, last)]
        sector = chosen[start : min(start + SECTOR_BYTES, len(survived))]
        survived[start : start + len(sector)] = sector
    return survived
