"""Receives the cluster's committed metadata from a controller, and publishes each new image.

Any controller can be the source, because only committed entries are sent. If it falls behind, the broker switches to
another one: heartbeats carry the index that the active controller has committed, and a slow or isolated controller
stays below that, or does not even send this broker's registration.

Nothing is applied before the registration of this process has arrived. A controller that has just started has only the
older part of the log, in which existing topics may be missing and replaced brokers may lead. The same holds for the
snapshot of an earlier process: the broker continues from it, and applies it together with the newer entries.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from itertools import count
from typing import Final, Protocol, TypeVar

import structlog
from msgspec.structs import replace

from kraft.metadata.features import check_levels
from kraft.metadata.image import EMPTY_IMAGE, ImageCondition, MetadataImage
from kraft.metadata.replayed_image import ReplayedImage, replay_snapshot
from kraft.model.errors import Refusal
from kraft.model.follow_metadata import FollowMetadataRequest, MetadataBatch
from kraft.model.ids import BrokerId
from kraft.rpc.call import ServerStream
from kraft.rpc.cluster_calls import FOLLOW_METADATA
from kraft.rpc.metadata_codec import decode_records
from kraft.rpc.peers import Unreachable
from kraft.server.cluster.metadata_snapshots import LoadedImage
from kraft.server.loop.periods import loop_time_s

log = structlog.get_logger()

Request = TypeVar("Request")
Response = TypeVar("Response")

SILENCE_MAX_S: Final = 3.0
"""A controller sends something every half second; after this time without anything the broker switches to another."""

LAG_MAX_S: Final = 2.0
RECONNECT_AFTER_S: Final = 0.1

Publish = Callable[[MetadataImage, MetadataImage], Awaitable[None]]
"""Applies the step from the first image to the second, and returns when that is done."""


class Controllers(Protocol):
    """Sources of metadata."""

    def peers(self) -> Sequence[MetadataSource]: ...


class MetadataSource(Protocol):
    """A controller as a source of metadata."""

    @property
    def address(self) -> str: ...

    def follow(
        self, stream: ServerStream[Request, Response], request: Request, /
    ) -> AsyncGenerator[Response, None]: ...


class _FellBehind(Exception):
    """The source lacks entries that another controller has committed."""


class MetadataLoader:
    """Receives metadata until `run` is cancelled, and publishes each new image."""

    def __init__(
        self,
        cluster_id: str,
        broker_id: BrokerId,
        controllers: Controllers,
        publish: Publish,
        *,
        is_current: ImageCondition,
    ) -> None:
        """`is_current` returns whether an image has the registration of this process; no other image is applied.

        It raises if the image has a later registration of the same broker, and `run` raises the same.
        """
        self._is_current = is_current
        self._cluster_id = cluster_id
        self._broker_id = broker_id
        self._controllers = controllers
        self._publish = publish
        self._received = EMPTY_IMAGE
        self._received_index = 0
        self._received_term = 0
        # With the entries of an unfinished transaction, which count only after its end.
        self._replayed = ReplayedImage()
        self._replayed_index = 0
        # The parts of a snapshot received so far, which count only when it is complete.
        self._snapshot = EMPTY_IMAGE
        self._committed_index_known = 0
        self._behind_since_s: float | None = None
        self.applied = 0
        """How often images were applied."""
        self.applying_s = 0.0
        self.image = EMPTY_IMAGE
        """The image that this broker has applied."""
        self.published_index = 0
        """Index of the last metadata entry that this broker has applied."""
        self.entry_bytes_total = 0
        """Bytes of the entries received by this process."""
        self.first_image_applied = asyncio.Event()
        """Set after this broker has applied its first image."""
        self._published = asyncio.Condition()

    def start_from(self, loaded: LoadedImage) -> None:
        """Start from the image that an earlier process of this broker received. Call it before `run`."""
        check_levels(loaded.image)
        self._receive(loaded.image, loaded.index, loaded.term)

    def current_image(self) -> LoadedImage:
        """Return the image received, applied or not. All of it is committed."""
        return LoadedImage(image=self._received, index=self._received_index, term=self._received_term)

    def note_committed(self, index: int) -> None:
        """Note that the active controller has committed this entry."""
        self._committed_index_known = max(self._committed_index_known, index)
        self._note_lag()

    @property
    def committed_index_known(self) -> int:
        """Index up to which metadata is committed, as far as this broker knows."""
        return max(self._committed_index_known, self._received_index)

    def behind_s(self) -> float:
        """Return for how long this broker has lacked, or not applied, something that it knows to be committed."""
        return 0.0 if self._behind_since_s is None else loop_time_s() - self._behind_since_s

    def _note_lag(self) -> None:
        if self.published_index >= self.committed_index_known:
            self._behind_since_s = None
        elif self._behind_since_s is None:
            self._behind_since_s = loop_time_s()

    async def until(self, holds: ImageCondition, timeout_s: float) -> bool:
        """Wait until this broker has applied an image for which `holds`. Return False after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s), self._published:
                await self._published.wait_for(lambda: holds(self.image))
        except TimeoutError:
            return False
        return True

    async def run(self) -> None:
        """Receive until cancelled.

        Raises UnsupportedFeatureLevel if the cluster uses a later version than this one, and ContradictoryEntry if what
        this broker has is not of the controllers' metadata log.
        """
        for attempt in count():
            # Asked anew each time: once certificates were renewed, the connections of before are closed for new calls.
            peers = self._controllers.peers()
            peer = peers[attempt % len(peers)]
            try:
                await self._follow(peer)
            except (Unreachable, Refusal, _FellBehind) as error:
                log.info("metadata stream failed", controller=peer.address, reason=str(error))
            except TimeoutError:
                log.warning("controller not responding", controller=peer.address)
            await asyncio.sleep(RECONNECT_AFTER_S)

    async def _follow(self, peer: MetadataSource) -> None:
        request = FollowMetadataRequest(
            cluster_id=self._cluster_id, broker_id=self._broker_id, after_index=self._received_index
        )
        loop = asyncio.get_running_loop()
        level_since, is_open = loop.time(), False
        # A transaction or snapshot that began in another stream is received again from its start.
        self._receive(self._received, self._received_index, self._received_term)
        async with aclosing(peer.follow(FOLLOW_METADATA, request)) as batches:
            while True:
                async with asyncio.timeout(SILENCE_MAX_S):
                    batch = await anext(batches, None)
                if batch is None:
                    raise Unreachable(peer.address, "it ended the stream")
                if not is_open:
                    is_open = True
                    log.info("metadata stream opened", controller=peer.address, after_index=request.after_index)
                # A large snapshot or transaction takes time, and switching would start it again: its parts count as
                # progress.
                is_partial = batch.in_snapshot or batch.index > self._received_index
                if batch.in_snapshot:
                    self._replay_part(batch)
                else:
                    self._replay_batch(batch)
                self._note_lag()
                if self._received_index >= batch.committed_index:
                    await self._apply()
                is_level = self._received_index >= self._committed_index_known and self._is_current(self._received)
                if is_level or (is_partial and batch.records):
                    level_since = loop.time()
                elif loop.time() - level_since > LAG_MAX_S:
                    raise _FellBehind(self._behind(batch))

    def _behind(self, batch: MetadataBatch) -> str:
        if batch.committed_index < self._received_index:
            return f"its committed index is {batch.committed_index}, and this broker has index {self._received_index}"
        if self._received_index >= self._committed_index_known:
            return "it has not sent the registration of this broker"
        return f"it has sent index {self._received_index}, and index {self._committed_index_known} is committed"

    def _replay_batch(self, batch: MetadataBatch) -> None:
        if not batch.records or batch.index <= self._replayed_index:
            return
        replayed = self._replayed.replay(decode_records(batch.records, batch.index))
        if replayed.image.features is not self._received.features:
            check_levels(replayed.image)
        self._replayed, self._replayed_index = replayed, batch.index
        self.entry_bytes_total += len(batch.records)
        if not replayed.in_transaction:
            self._received, self._received_index, self._received_term = replayed.image, batch.index, batch.term

    def _replay_part(self, part: MetadataBatch) -> None:
        """Add a part of a snapshot. Each part is replayed as it arrives, so that the event loop is not blocked long."""
        self._snapshot = replay_snapshot(self._snapshot, decode_records(part.records, part.index))
        self.entry_bytes_total += len(part.records)
        if not part.ends_snapshot:
            return
        log.info("metadata snapshot received", index=part.index, topics=len(self._snapshot.topics))
        if part.index > self._received_index:
            check_levels(self._snapshot)
            self._receive(self._snapshot, part.index, part.term)
        self._begin_snapshot()

    def _receive(self, image: MetadataImage, index: int, term: int) -> None:
        """Set what was received; drop unfinished transactions and snapshots."""
        self._received, self._received_index, self._received_term = image, index, term
        self._replayed, self._replayed_index = ReplayedImage(image=image), index
        self._begin_snapshot()

    def _begin_snapshot(self) -> None:
        """Expect the first part of a snapshot."""
        self._snapshot = replace(EMPTY_IMAGE, users=self._received.users.replaced_by_snapshot())

    async def _apply(self) -> None:
        """Apply everything received so far, in one step."""
        before, after, index = self.image, self._received, self._received_index
        if index == self.published_index or not self._is_current(after):
            return
        began_s = loop_time_s()
        await self._publish(before, after)
        self.image, self.published_index = after, index
        self.applied, self.applying_s = self.applied + 1, self.applying_s + loop_time_s() - began_s
        self._note_lag()
        self.first_image_applied.set()
        async with self._published:
            self._published.notify_all()
