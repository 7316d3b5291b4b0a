"""Transfer of snapshots between voters: which parts to send to whom, and parts joined into a snapshot. No I/O.

A voter that lags so far behind that the leader no longer has the entries which it lacks gets a snapshot. It is sent in
parts, in order, no faster than the link takes them. If a part is lost, the whole snapshot is lost: the receiver does
not respond, and the leader sends it again after a pause.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from kraft.model.callbacks import Callback
from kraft.quorum.messages import BadMessage, SnapshotPart, size_bytes
from kraft.quorum.snapshots import Snapshot, SnapshotId

log = structlog.get_logger(__name__)

RESEND_MS: Final = 2_000
RESEND_MS_PER_MIB: Final = 1_000
"""Added to RESEND_MS by the size of a snapshot: a large one has more time before it is sent again."""

SNAPSHOT_BYTES_MAX: Final = 1024 * 1024 * 1024
SNAPSHOT_PARTS_MAX: Final = 65_536
"""A voter sends no larger snapshot, and keeps no more than this of an arriving one in memory."""

_NO_SNAPSHOT = (-1, -1, -1, -1)


class SnapshotKeeper(Protocol):
    """Stores the snapshots of a voter. All calls but `keep` are on the event loop and do not block."""

    @property
    def start_id(self) -> SnapshotId | None:
        """The snapshot that the listener started from; None if it started from the first entry."""

    def latest(self) -> Snapshot | None:
        """Return a snapshot for a voter that lags; None if none is available now, and the caller asks again soon."""

    def keep(self, snapshot: Snapshot) -> Callback:
        """Store a snapshot, in a thread; durable on return. Raises Corruption and OSError, which end the voter.

        The returned function sets the listener to the state of the snapshot. It is called on the event loop, and only
        if the voter installs the snapshot.
        """


def parts_of(snapshot: Snapshot, term: int) -> Iterator[SnapshotPart]:
    """Yield the parts that the leader of `term` sends."""
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
    """The transfers under way, by voter, and when each voter may be sent a snapshot again."""

    def __init__(self) -> None:
        self._transfers: dict[int, _Transfer] = {}
        self._again_at_ms: dict[int, int] = {}

    @property
    def under_way(self) -> list[int]:
        """The voters for which parts are left to send, ascending."""
        return sorted(self._transfers)

    def is_due(self, voter: int, now_ms: int) -> bool:
        return voter not in self._transfers and now_ms >= self._again_at_ms.get(voter, now_ms)

    def begin(self, voter: int, snapshot: Snapshot, term: int, now_ms: int) -> None:
        """Begin to send a snapshot, as the leader of `term`."""
        snapshot_bytes = sum(map(len, snapshot.chunks))
        if snapshot_bytes > SNAPSHOT_BYTES_MAX or len(snapshot.chunks) > SNAPSHOT_PARTS_MAX:
            log.error("snapshot too large to send", voter=voter, index=snapshot.id.index, size_bytes=snapshot_bytes)
            self._set_pause(voter, snapshot_bytes, now_ms)
            return
        log.info("snapshot transfer started", voter=voter, index=snapshot.id.index, size_bytes=snapshot_bytes)
        self._transfers[voter] = _Transfer(term, snapshot_bytes, deque(parts_of(snapshot, term)))

    def next_parts(self, voter: int, term: int, room_bytes: int, now_ms: int) -> list[SnapshotPart]:
        """Return as many parts as there is room for; in another term, drop the transfer and return none."""
        transfer = self._transfers[voter]
        if transfer.term != term:
            self.forget(voter)
            return []
        parts: list[SnapshotPart] = []
        while transfer.parts and room_bytes > 0:
            parts.append(transfer.parts.popleft())
            room_bytes -= size_bytes(parts[-1])
        if not transfer.parts:
            del self._transfers[voter]
            self._set_pause(voter, transfer.size_bytes, now_ms)
        return parts

    def _set_pause(self, voter: int, snapshot_bytes: int, now_ms: int) -> None:
        self._again_at_ms[voter] = now_ms + RESEND_MS + RESEND_MS_PER_MIB * snapshot_bytes // (1024 * 1024)

    def arrived(self, voter: int) -> None:
        """Note that the voter holds the snapshot's entries. If it lacks more, it may be sent another one at once."""
        if voter not in self._transfers:
            self._again_at_ms.pop(voter, None)

    def forget(self, voter: int) -> None:
        """Drop the voter's transfer: the parts sent to it are lost."""
        self._transfers.pop(voter, None)
        self._again_at_ms.pop(voter, None)


@dataclass(slots=True)
class _Transfer:
    term: int
    size_bytes: int
    parts: deque[SnapshotPart]


class IncomingSnapshot:
    """Parts received of one snapshot by one leader: a first part starts again, others out of order are dropped."""

    def __init__(self) -> None:
        self._key = _NO_SNAPSHOT
        self._chunks: list[bytes] = []
        self._size_bytes = 0

    def take(self, sender: int, part: SnapshotPart) -> Snapshot | None:
        """Return the snapshot once it is complete. Raises BadMessage for one that is too large, and drops its parts."""
        key = (sender, part.term, part.index, part.index_term)
        if part.number == 0:
            self._begin(key)
        elif key != self._key or part.number != len(self._chunks):
            self._begin(_NO_SNAPSHOT)
            return None
        self._chunks.append(part.content)
        self._size_bytes += len(part.content)
        self._check_size(part.index)
        if not part.is_last:
            return None
        chunks = tuple(chunk for chunk in self._chunks if chunk)
        self._begin(_NO_SNAPSHOT)
        return Snapshot(id=SnapshotId(index=part.index, term=part.index_term), chunks=chunks)

    def _begin(self, key: tuple[int, int, int, int]) -> None:
        self._key, self._chunks, self._size_bytes = key, [], 0

    def _check_size(self, index: int) -> None:
        if self._size_bytes <= SNAPSHOT_BYTES_MAX and len(self._chunks) <= SNAPSHOT_PARTS_MAX:
            return
        parts, size_bytes = len(self._chunks), self._size_bytes
        self._begin(_NO_SNAPSHOT)
        raise BadMessage(
            f"the snapshot at entry {index} has more than {size_bytes - 1} bytes or {parts - 1} parts; the maximum is"
            f" {SNAPSHOT_BYTES_MAX} bytes in {SNAPSHOT_PARTS_MAX} parts"
        )
