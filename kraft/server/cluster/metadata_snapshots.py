"""Metadata images to and from snapshots, and the task that writes snapshots periodically.

An image never changes, so a thread can write it without blocking the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Final, Protocol

import structlog
from msgspec import Struct

from kraft.metadata.image import EMPTY_IMAGE, MetadataImage
from kraft.metadata.replayed_image import replay_snapshot
from kraft.metadata.snapshot_records import snapshot_records
from kraft.model.callbacks import NowMs, OnFailure
from kraft.model.errors import Corruption
from kraft.quorum.snapshots import SnapshotId, SnapshotStore
from kraft.rpc.metadata_codec import decode_records, encode_records
from kraft.server.loop.periods import period_end
from kraft.server.loop.threads import in_thread

log = structlog.get_logger()

CHUNK_BYTES: Final = 32 * 1024
"""A chunk ends with the record that reaches this size; one record is much smaller."""

CHECK_INTERVAL_S: Final = 1.0


class LoadedImage(Struct, frozen=True, kw_only=True):
    """An image, with index and term of the last metadata entry in it; index 0 for the empty one."""

    image: MetadataImage
    index: int
    term: int


NOTHING_LOADED: Final = LoadedImage(image=EMPTY_IMAGE, index=0, term=0)


class SnapshotPolicy(Struct, frozen=True, kw_only=True):
    """Conditions for the next snapshot: this many bytes of new entries, or any new entry after this interval.

    An `interval_ms` of 0 disables the second condition.
    """

    entry_bytes_between: int
    interval_ms: int


class ImageHolder(Protocol):
    """Source of the current image."""

    def current_image(self) -> LoadedImage:
        """Return the image of the committed entries replayed so far."""

    @property
    def entry_bytes_total(self) -> int:
        """Bytes of all entries replayed in this process; it only grows."""


def encode_image(image: MetadataImage) -> Iterator[bytes]:
    """Yield the chunks of a snapshot."""
    pieces: list[bytes] = []
    size = 0
    for record in snapshot_records(image):
        # Encoded lists of records may be joined: protobuf reads repeated fields piece by piece.
        pieces.append(encode_records([record]))
        size += len(pieces[-1])
        if size >= CHUNK_BYTES:
            yield b"".join(pieces)
            pieces, size = [], 0
    if pieces:
        yield b"".join(pieces)


def decode_image(chunks: Iterable[bytes], index: int) -> MetadataImage:
    """Return the image in the chunks of a snapshot.

    Raises Corruption for records unknown to this version, and ContradictoryEntry for records that do not fit together.
    """
    return replay_snapshot(EMPTY_IMAGE, chain.from_iterable(decode_records(chunk, index) for chunk in chunks))


class MetadataSnapshots:
    """The snapshots of one role of a node: read once at its start, then written in a thread."""

    def __init__(
        self,
        store: SnapshotStore,
        holder: ImageHolder,
        *,
        policy: SnapshotPolicy,
        cluster_id: str,
        monotonic_ms: NowMs,
        failed: OnFailure,
        written: Callable[[int, Sequence[SnapshotId]], None] = lambda index, generations: None,
    ) -> None:
        """`failed` is called with a one-line reason when the disk fails; nothing is written after that. `written` is
        called with the index of each durable snapshot, and with all that are on the disk then, the latest first."""
        self._store = store
        self._holder = holder
        self._cluster_id = cluster_id
        self._policy = policy
        self._monotonic_ms = monotonic_ms
        self._failed = failed
        self._written = written
        self._is_offline = False
        self._last_index = 0
        self._last_bytes = 0
        self._last_ms = monotonic_ms()
        # One thread, so that writes are in order.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="metadata-snapshot")

    async def load(self) -> LoadedImage:
        """Return the image of the latest whole snapshot, or the empty one. Raises Corruption and OSError."""
        loaded = await in_thread(self._thread, self._load)
        self._last_index, self._last_ms = loaded.index, self._monotonic_ms()
        return loaded

    def _load(self) -> LoadedImage:
        snapshot = self._store.load()
        if snapshot is None:
            return NOTHING_LOADED
        path = self._store.path(snapshot.id)
        image = decode_image(snapshot.chunks, snapshot.id.index)
        if image.cluster_id != self._cluster_id:
            reason = f"the snapshot is of cluster '{image.cluster_id}', not '{self._cluster_id}'"
            raise Corruption(path, 0, reason)
        log.info("metadata snapshot loaded", path=path, index=snapshot.id.index, topics=len(image.topics))
        return LoadedImage(image=image, index=snapshot.id.index, term=snapshot.id.term)

    async def load_or_start_empty(self) -> LoadedImage:
        """Load, or start with the empty image and fetch all metadata again.

        Corrupt snapshots are renamed and logged; a disk failure is passed to `failed`.
        """
        try:
            try:
                return await self.load()
            except Corruption as corruption:
                log.error("metadata snapshots corrupt, metadata fetched from the controller", reason=str(corruption))
                await in_thread(self._thread, self._store.mark_all_damaged)
        except OSError as error:
            self._is_offline = True
            self._failed(f"the metadata snapshot cannot be read from {self._store.directory}: {error}")
        return NOTHING_LOADED

    async def run(self) -> None:
        """Write a snapshot whenever it is due, until cancelled."""
        while True:
            await period_end(CHECK_INTERVAL_S)
            if self.is_due:
                await self.write()

    @property
    def is_due(self) -> bool:
        if self._is_offline or self._holder.current_image().index <= self._last_index:
            return False
        new_bytes = self._holder.entry_bytes_total - self._last_bytes
        if new_bytes >= self._policy.entry_bytes_between:
            return True
        return 0 < self._policy.interval_ms <= self._monotonic_ms() - self._last_ms

    async def write(self) -> None:
        """Write a snapshot now, if there are new entries since the last one; return when it is durable."""
        current, entry_bytes = self._holder.current_image(), self._holder.entry_bytes_total
        if self._is_offline or current.index <= self._last_index:
            return
        written = await in_thread(self._thread, self._write, current)
        if isinstance(written, OSError):
            self._failed(f"the metadata snapshot cannot be written to {self._store.directory}: {written}")
        elif not self._is_offline:
            self._last_index, self._last_bytes, self._last_ms = current.index, entry_bytes, self._monotonic_ms()
            self._written(current.index, written)

    def _write(self, current: LoadedImage) -> OSError | Sequence[SnapshotId]:
        """Write in the thread, and list what is there. It runs to its end even if the waiting task was cancelled."""
        if self._is_offline:
            return ()
        snapshot_id = SnapshotId(index=current.index, term=current.term)
        try:
            size = self._store.write(snapshot_id, encode_image(current.image))
            generations = self._store.generations()
        except OSError as error:
            self._is_offline = True
            return error
        if size:
            path = self._store.path(snapshot_id)
            log.info("metadata snapshot written", path=path, index=current.index, bytes=size)
        return generations

    def close(self) -> None:
        """Wait for the thread to end."""
        self._thread.shutdown()
