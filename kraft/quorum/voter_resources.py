"""The outside world of a voter: disk, time and randomness. A process supplies real ones, a simulation its own."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct, field

from kraft.log.disk import Disk
from kraft.quorum.disk_thread import DiskThread, OwnThread


class MonotonicClock(Protocol):
    def monotonic_ms(self) -> int:
        """Return the milliseconds since some point in the past; never goes back."""


class RandomBytes(Protocol):
    def bytes(self, count: int) -> bytes:
        """Return random bytes, for ids."""


class VoterResources(Struct, frozen=True, kw_only=True):
    disk: Disk
    clock: MonotonicClock
    entropy: RandomBytes
    journal_thread: DiskThread = field(default_factory=lambda: OwnThread("quorum-journal"))
    snapshot_thread: DiskThread = field(default_factory=lambda: OwnThread("quorum-snapshot"))
    """Writes snapshots that arrive, which are large, so that the journal does not wait for them."""
