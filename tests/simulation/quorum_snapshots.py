"""Snapshots of a simulated voter's state machine, whose whole state is a hash of the entries that it got."""

from __future__ import annotations

from collections.abc import Callable

from kraft.quorum.snapshots import Snapshot, SnapshotId, SnapshotStore
from tests.simulation.quorum_invariants import VoterWatch
from tests.support.disks.sim_disk import SimDisk

DIRECTORY = "metadata/snapshots"
CHUNK_BYTES = 12
"""Small, so that a snapshot travels in several parts."""


class SimKeeper:
    """Implements `kraft.quorum.snapshot_transfer.SnapshotKeeper`."""

    def __init__(self, disk: SimDisk, watch: VoterWatch) -> None:
        """Restore from the newest snapshot, if there is one. Raises Corruption and OSError."""
        self._store = SnapshotStore(disk, DIRECTORY)
        self._watch = watch
        self.captured: Snapshot | None = None
        self.kept_count = 0
        loaded = self._store.load()
        self.start_id = None if loaded is None else loaded.id
        if loaded is not None:
            self._restore(loaded)

    def _restore(self, snapshot: Snapshot) -> None:
        self._watch.restored(snapshot.id.index, snapshot.id.term, b"".join(snapshot.chunks))

    def latest(self) -> Snapshot | None:
        return self._store.load()

    def keep(self, snapshot: Snapshot) -> Callable[[], None]:
        self.kept_count += 1
        self._store.write(snapshot.id, snapshot.chunks)

        def restore() -> None:
            self._restore(snapshot)
            self._watch.installed()

        return restore

    def capture(self, index: int, term: int, state_hash: bytes) -> bool:
        """Keep a snapshot to be written; return False while another one waits."""
        if self.captured is not None:
            return False
        chunks = tuple(state_hash[start : start + CHUNK_BYTES] for start in range(0, len(state_hash), CHUNK_BYTES))
        self.captured = Snapshot(id=SnapshotId(index=index, term=term), chunks=chunks)
        return True

    def write(self) -> int:
        """Write the captured snapshot. Return the index that two snapshots reach; 0 if there is only one."""
        snapshot, self.captured = self.captured, None
        assert snapshot is not None, "nothing was captured"
        self._store.write(snapshot.id, snapshot.chunks)
        generations = self._store.generations()
        return generations[-1].index if len(generations) > 1 else 0
