"""Snapshots between voters: who is to be sent one, and what became whole of what arrives. No I/O.

A voter lags so far behind that the leader no longer has the entries which it lacks. It gets a snapshot in parts, in
order. Parts may be lost, and then the whole of it: nothing is answered, and it is sent again after a while.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from kraft.quorum.messages import SnapshotPart
from kraft.quorum.snapshots import Snapshot, SnapshotId

RESEND_MS: Final = 2_000
RESEND_MS_PER_MIB: Final = 1_000
"""A large one is given more time before it is sent again."""


class SnapshotKeeper(Protocol):
    """Who keeps the snapshots of a voter. All calls are on the event loop."""

    @property
    def start_id(self) -> SnapshotId | None:
        """What the listener was started from; None for the very beginning."""

    def latest(self) -> Snapshot | None:
        """For a voter that lags. None when none can be had just now."""

    def install(self, snapshot: Snapshot) -> None:
        """Durable on return, and the listener stands where it does. Raises Corruption and OSError: the voter ends."""


def parts_of(snapshot: Snapshot, term: int) -> Iterator[SnapshotPart]:
    """What the leader of `term` sends."""
    chunks = snapshot.chunks or (b"",)
    for number, chunk in enumerate(chunks):
        yield SnapshotPart(
            term=term,
            index=snapshot.id.index,
            index_term=snapshot.id.term,
            number=number,
            content=chunk,
            is_last=number == len(chunks) - 1,
        )


class OutgoingSnapshots:
    """When each voter may be sent one again."""

    def __init__(self) -> None:
        self._again_at_ms: dict[int, int] = {}

    def is_due(self, voter: int, now_ms: int) -> bool:
        return now_ms >= self._again_at_ms.get(voter, now_ms)

    def sent(self, voter: int, size_bytes: int, now_ms: int) -> None:
        self._again_at_ms[voter] = now_ms + RESEND_MS + RESEND_MS_PER_MIB * size_bytes // (1024 * 1024)

    def forget(self, voter: int) -> None:
        """It has caught up, or what was sent to it is lost."""
        self._again_at_ms.pop(voter, None)


class IncomingSnapshot:
    """The parts of one snapshot by one leader; whatever does not continue it begins anew, or is dropped."""

    def __init__(self) -> None:
        self._key = (-1, -1, -1, -1)
        self._chunks: list[bytes] = []

    def take(self, sender: int, part: SnapshotPart) -> Snapshot | None:
        """The snapshot, once it is whole."""
        key = (sender, part.term, part.index, part.index_term)
        if part.number == 0:
            self._key, self._chunks = key, []
        elif key != self._key or part.number != len(self._chunks):
            self._key, self._chunks = (-1, -1, -1, -1), []
            return None
        self._chunks.append(part.content)
        if not part.is_last:
            return None
        chunks = tuple(chunk for chunk in self._chunks if chunk)
        self._key, self._chunks = (-1, -1, -1, -1), []
        return Snapshot(id=SnapshotId(index=part.index, term=part.index_term), chunks=chunks)
