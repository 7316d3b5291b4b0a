"""The snapshots of a controller: its own, those it sends to voters that lag, and those it takes over from a leader.

The quorum's journal holds what came after the earlier of the two snapshots that are kept, so that either will do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import structlog

from kraft.model.errors import Corruption
from kraft.quorum.snapshots import GENERATIONS_KEPT, Snapshot, SnapshotId, SnapshotStore
from kraft.server.metadata_snapshots import LoadedImage, MetadataSnapshots, SnapshotPolicy, decode_image
from kraft.server.state_machine_host import StateMachineHost

log = structlog.get_logger()


class JournalOwner(Protocol):
    def forget_entries_to(self, index: int) -> None:
        """Two durable snapshots contain everything up to `index`."""


class VoterSnapshots:
    """Implements `kraft.quorum.snapshot_transfer.SnapshotKeeper`."""

    def __init__(
        self,
        store: SnapshotStore,
        host: StateMachineHost,
        *,
        policy: SnapshotPolicy,
        cluster_id: str,
        monotonic_ms: Callable[[], int],
        failed: Callable[[str], None],
    ) -> None:
        self._store = store
        self._host = host
        self._quorum: JournalOwner | None = None
        self._start_id: SnapshotId | None = None
        self._snapshots = MetadataSnapshots(
            store,
            host,
            policy=policy,
            cluster_id=cluster_id,
            monotonic_ms=monotonic_ms,
            failed=failed,
            written=self._written,
        )

    def attach(self, quorum: JournalOwner) -> None:
        self._quorum = quorum

    # --- life ----------------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """The host starts from the latest whole snapshot. Before the quorum is started. Raises Corruption, OSError."""
        loaded = await self._snapshots.load()
        if loaded.index:
            self._host.start_from(loaded)
            self._start_id = SnapshotId(index=loaded.index, term=loaded.term)

    async def run(self) -> None:
        """Writes a snapshot whenever one is due. Until cancelled."""
        await self._snapshots.run()

    async def write(self) -> None:
        """Writes one at once, if anything is new."""
        await self._snapshots.write()

    def close(self) -> None:
        self._snapshots.close()

    def _written(self, index: int) -> None:
        self._host.entries.snapshot_taken(index)
        generations = self._store.generations()
        if self._quorum is not None and len(generations) == GENERATIONS_KEPT:
            self._quorum.forget_entries_to(generations[-1].index)

    # --- what the quorum asks for --------------------------------------------------------------------------------

    @property
    def start_id(self) -> SnapshotId | None:
        return self._start_id

    def latest(self) -> Snapshot | None:
        """As it is on the disk, since an image would have to be encoded first."""
        try:
            return self._store.load()
        except (Corruption, OSError) as error:
            log.error("no snapshot can be sent to a voter that lags", reason=str(error))
            return None

    def install(self, snapshot: Snapshot) -> None:
        image = decode_image(snapshot.chunks, snapshot.id.index)
        self._store.write(snapshot.id, snapshot.chunks)
        self._host.start_from(LoadedImage(image=image, index=snapshot.id.index, term=snapshot.id.term))
