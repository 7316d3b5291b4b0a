"""A file of the simulated disk: its page cache, its durable image, and what a crash makes of both."""

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
    """What of the unsynced operations survives."""

    DROP = "drop"
    """Nothing."""

    KEEP = "keep"
    """Everything: the process died, the machine did not. What was unsynced still is, and a later crash may lose it."""

    TEAR = "tear"
    """Everything in order but the last write to each file, of which only the first sectors survive; of the name space's
    operations, the first ones."""

    REORDER = "reorder"
    """Any sectors of any writes, any of the sizes that the file had, any of the name space's operations."""


class SyncFailure(Enum):
    """What a kernel does with the pages that it could not write, once it has told so."""

    MARKS_CLEAN = "marks clean"
    """They stay readable, and are never written: the next sync has nothing to complain of. They are the pages that hold
    what was written; to what size the file was cut is no page, and the next sync makes that durable."""

    DROPS = "drops"
    """They are gone, and the file reads as it was."""


# --- files ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes that a file takes at a position, on the disk at the next sync."""

    position: int
    data: bytes

    def apply(self, image: bytearray) -> None:
        if len(image) < self.position:
            image.extend(bytes(self.position - len(image)))
        image[self.position : self.position + len(self.data)] = self.data


@dataclass(frozen=True, slots=True)
class Truncate:
    """A new size of a file, on the disk at the next sync."""

    size: int

    def apply(self, image: bytearray) -> None:
        del image[self.size :]
        image.extend(bytes(self.size - len(image)))


class Content:
    """What a file holds, by whatever name, an inode: what programs read, what is durable, and what lies between."""

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
        # Not a copy of the cache: what an earlier sync failed to write is in the cache, and is never written.
        for operation in self.pending:
            operation.apply(self.durable)
        self.pending.clear()

    def fail_sync(self, failure: SyncFailure) -> None:
        if failure is SyncFailure.DROPS:
            self.pending.clear()
            self.cache[:] = self.durable
        else:
            # A size is in the file system's journal: without that one the file system would take no writes any more.
            self.pending = [operation for operation in self.pending if isinstance(operation, Truncate)]

    def copy(self) -> Content:
        copied = Content(self.durable)
        copied.cache = bytearray(self.cache)
        copied.pending = list(self.pending)
        copied.reserved = self.reserved
        return copied

    def state(self) -> Hashable:
        """Equal for contents that read alike, now and after a further crash, whatever that one keeps."""
        return blake2b(self.cache).digest(), blake2b(self.durable).digest(), tuple(self.pending), self.reserved

    def crash(self, mode: CrashMode, random: Random) -> None:
        """One of the contents that the mode allows becomes the only one."""
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
        """The durable content, and that after each operation since."""
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
    """Each sector as it was at some time, in a file of the size that it had at some time."""
    sized_as = random.randrange(len(images))
    survived = bytearray(len(images[sized_as]))
    for start in range(0, len(survived), SECTOR_BYTES):
        # Where the file ended before the sector, the sector was not its own: older bytes cannot come back behind a
        # truncation, nor newer ones before it.
        absent = [index for index, image in enumerate(images) if len(image) <= start]
        first = max((index for index in absent if index < sized_as), default=0)
        last = min((index for index in absent if index > sized_as), default=len(images)) - 1
        chosen = images[last if random.random() < 0.5 else random.randint(first, last)]
        sector = chosen[start : min(start + SECTOR_BYTES, len(survived))]
        survived[start : start + len(sector)] = sector
    return survived
