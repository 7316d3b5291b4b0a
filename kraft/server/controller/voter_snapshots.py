"""Snapshots of a controller: those it writes, those it sends to voters that lag, and those it gets from a leader.

The quorum's journal keeps all entries after the older of the two snapshots that are kept, so that either one suffices.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

import structlog
from msgspec import Struct

from kraft.model.callbacks import Callback, NowMs, OnFailure
from kraft.model.errors import Corruption
from kraft.quorum.snapshots import GENERATIONS_KEPT, Snapshot, SnapshotId, SnapshotStore
from kraft.server.cluster.metadata_snapshots import LoadedImage, MetadataSnapshots, SnapshotPolicy, decode_image
from kraft.server.controller.state_machine_host import StateMachineHost

log = structlog.get_logger()


READ_SNAPSHOT_KEPT_MS: Final = 5_000


class _ReadSnapshot(Struct, frozen=True):
    snapshot: Snapshot
    at_ms: int


class JournalOwner(Protocol):
    def forget_entries_to(self, index: int) -> None:
        """Drop the entries up to `index`: two durable snapshots contain them."""


class VoterSnapshots:
    """Implements `kraft.quorum.snapshot_transfer.SnapshotKeeper`."""

    def __init__(
        self,
        store: SnapshotStore,
        host: StateMachineHost,
        *,
        policy: SnapshotPolicy,
        cluster_id: str,
        monotonic_ms: NowMs,
        failed: OnFailure,
    ) -> None:
        self._store = store
        self._host = host
        self._quorum: JournalOwner | None = None
        self._start_id: SnapshotId | None = None
        self._monotonic_ms = monotonic_ms
        self._read: _ReadSnapshot | None = None
        self._reading: asyncio.Task[None] | None = None
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

    # --- lifecycle -----------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Start the host from the latest valid snapshot. Call before the quorum starts. Raises Corruption, OSError."""
        loaded = await self._snapshots.load()
        if loaded.index:
            self._host.start_from(loaded)
            self._start_id = SnapshotId(index=loaded.index, term=loaded.term)

    async def run(self) -> None:
        """Write a snapshot whenever one is due. Runs until cancelled."""
        await self._snapshots.run()

    async def write(self) -> None:
        """Write a snapshot now, if anything changed since the last one."""
        await self._snapshots.write()

    def close(self) -> None:
        self._snapshots.close()

    def _written(self, index: int, generations: Sequence[SnapshotId]) -> None:
        self._host.entries.snapshot_taken(index)
        if self._quorum is not None and len(generations) == GENERATIONS_KEPT:
            self._quorum.forget_entries_to(generations[-1].index)

    # --- called by the quorum ------------------------------------------------------------------------------------

    @property
    def start_id(self) -> SnapshotId | None:
        return self._start_id

    def latest(self) -> Snapshot | None:
        """Return the latest snapshot on disk, or None while it is being read; call again soon.

        A thread reads it, and the next call within READ_SNAPSHOT_KEPT_MS returns it.
        """
        read, self._read = self._read, None
        if read is not None and self._monotonic_ms() - read.at_ms <= READ_SNAPSHOT_KEPT_MS:
            return read.snapshot
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_latest(), name="metadata snapshot for a voter that lags")
        return None

    async def _read_latest(self) -> None:
        try:
            snapshot = await asyncio.to_thread(self._store.load)
            self._read = None if snapshot is None else _ReadSnapshot(snapshot, self._monotonic_ms())
        except (Corruption, OSError) as error:
            log.error("snapshot for lagging voter unreadable", reason=str(error))
        finally:
            self._reading = None

    def keep(self, snapshot: Snapshot) -> Callback:
        """Write a received snapshot, in a thread. Returns a function that starts the host from it, in the loop."""
        image = decode_image(snapshot.chunks, snapshot.id.index)
        self._store.write(snapshot.id, snapshot.chunks)
        loaded = LoadedImage(image=image, index=snapshot.id.index, term=snapshot.id.term)
        return lambda: self._host.start_from(loaded)
