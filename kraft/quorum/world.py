"""What a voter needs of the world outside: a disk, the time, and chance. A simulation gives others than a process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from kraft.log.disk import Disk
from kraft.quorum.disk_thread import DiskThread, OwnThread


class MonotonicClock(Protocol):
    def monotonic_ms(self) -> int:
        """Milliseconds since some point in the past; never goes back."""


class RandomBytes(Protocol):
    def bytes(self, count: int) -> bytes:
        """Random bytes, for ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumWorld:
    disk: Disk
    clock: MonotonicClock
    entropy: RandomBytes
    journal_thread: DiskThread = field(default_factory=lambda: OwnThread("quorum-journal"))
    snapshot_thread: DiskThread = field(default_factory=lambda: OwnThread("quorum-snapshot"))
    """For snapshots that arrive, which are large: the journal does not wait for them."""
