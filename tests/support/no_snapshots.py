"""A keeper of snapshots for quorums whose journals are never trimmed: so no voter lacks what a snapshot would bring."""

from __future__ import annotations

from collections.abc import Callable

from kraft.quorum.snapshots import Snapshot


class NoSnapshots:
    """Implements `kraft.quorum.snapshot_transfer.SnapshotKeeper`."""

    start_id = None

    def latest(self) -> Snapshot | None:
        return None

    def keep(self, snapshot: Snapshot) -> Callable[[], None]:
        raise AssertionError(f"snapshot {snapshot.id} was sent, and nobody takes any here")
