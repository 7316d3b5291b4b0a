"""Follows the cluster's committed metadata from a controller, and hands each new image on.

Any controller will do, because only what is committed is sent. One that fell behind is left for another: heartbeats
tell what the active controller has committed, and who follows a slow or cut-off controller stays below that, or does
not even come to know this broker's registration.

Nothing is acted on before this process' own registration has arrived. A controller that was just started knows an old
stretch of the log only; in the eyes of that, topics that live are not there yet, and brokers that were replaced lead.
The same goes for what this broker kept of its earlier life: it goes on from there, and acts on it with the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from itertools import cycle
from typing import Final, Protocol, TypeVar

import structlog

from kraft.metadata.features import check_levels
from kraft.metadata.image import EMPTY_IMAGE, MetadataImage
from kraft.metadata.replayed_image import ReplayedImage
from kraft.model.errors import Refusal
from kraft.model.follow_metadata import FollowMetadataRequest, MetadataBatch
from kraft.model.ids import BrokerId
from kraft.rpc.call import ServerStream
from kraft.rpc.cluster_calls import FOLLOW_METADATA
from kraft.rpc.metadata_codec import decode_records
from kraft.rpc.peers import Unreachable
from kraft.server.cluster.metadata_snapshots import LoadedImage

log = structlog.get_logger()

Request = TypeVar("Request")
Response = TypeVar("Response")

SILENCE_MAX_S: Final = 3.0
"""A controller sends a beat every half second; one that is silent for longer than this is left."""

LAG_MAX_S: Final = 2.0
RECONNECT_AFTER_S: Final = 0.1

Publish = Callable[[MetadataImage, MetadataImage], Awaitable[None]]
"""Acts on the step from the first image to the second; returns when this broker has done so."""


class Controllers(Protocol):
    """Whom to follow."""

    def peers(self) -> Sequence[MetadataSource]: ...


class MetadataSource(Protocol):
    """A controller, as far as its metadata goes."""

    @property
    def address(self) -> str: ...

    def follow(
        self, stream: ServerStream[Request, Response], request: Request, /
    ) -> AsyncGenerator[Response, None]: ...


class _FellBehind(Exception):
    """The controller that is followed does not have what another has committed."""


class MetadataLoader:
    def __init__(
        self,
        cluster_id: str,
        broker_id: BrokerId,
        controllers: Controllers,
        publish: Publish,
        *,
        is_current: Callable[[MetadataImage], bool],
    ) -> None:
        """`is_current` says whether an image holds this process' own registration; no other image is applied.

        It raises when the image holds a later registration of the same broker, and `run` ends with what it raises.
        """
        self._is_current = is_current
        self._cluster_id = cluster_id
        self._broker_id = broker_id
        self._controllers = controllers
        self._publish = publish
        self._received = EMPTY_IMAGE
        self._received_index = 0
        self._received_term = 0
        # Beyond what was received: the part of a transaction that has come so far. It counts when the end has come.
        self._replayed = ReplayedImage()
        self._replayed_index = 0
        # Of a snapshot that is on its way; it counts when it is whole.
        self._snapshot = EMPTY_IMAGE
        self._committed_index_known = 0
        self.image = EMPTY_IMAGE
        """What this broker acts on."""
        self.published_index = 0
        """The metadata entry up to which this broker has acted."""
        self.entry_bytes_total = 0
        """Bytes of what was received in this process."""
        self.is_acting = asyncio.Event()
        """Set from the first image on that this broker acts on."""
        self._published = asyncio.Condition()

    def start_from(self, loaded: LoadedImage) -> None:
        """Before `run`: what this broker received in an earlier life, and need not be sent again."""
        check_levels(loaded.image)
        self._receive(loaded.image, loaded.index, loaded.term)

    def current_image(self) -> LoadedImage:
        """What was received, whether acted on or not. All of it is committed."""
        return LoadedImage(image=self._received, index=self._received_index, term=self._received_term)

    def committed_elsewhere(self, index: int) -> None:
        """The active controller told that it has committed this entry."""
        self._committed_index_known = max(self._committed_index_known, index)

    async def until(self, holds: Callable[[MetadataImage], bool], timeout_s: float) -> bool:
        """Waits until this broker acts on an image for which `holds`; False when that took too long."""
        try:
            async with asyncio.timeout(timeout_s), self._published:
                await self._published.wait_for(lambda: holds(self.image))
        except TimeoutError:
            return False
        return True

    async def run(self) -> None:
        """Follows until cancelled. Raises UnsupportedFeatureLevel when the cluster is of a later version than this."""
        for peer in cycle(self._controllers.peers()):
            try:
                await self._follow(peer)
            except (Unreachable, Refusal, _FellBehind) as error:
                log.info("switching metadata source", controller=peer.address, reason=str(error))
            except TimeoutError:
                log.warning("controller not responding", controller=peer.address)
            await asyncio.sleep(RECONNECT_AFTER_S)

    async def _follow(self, peer: MetadataSource) -> None:
        request = FollowMetadataRequest(
            cluster_id=self._cluster_id, broker_id=self._broker_id, after_index=self._received_index
        )
        loop = asyncio.get_running_loop()
        level_since, is_followed = loop.time(), False
        # What was begun elsewhere is begun anew.
        self._receive(self._received, self._received_index, self._received_term)
        async with aclosing(peer.follow(FOLLOW_METADATA, request)) as batches:
            while True:
                async with asyncio.timeout(SILENCE_MAX_S):
                    batch = await anext(batches, None)
                if batch is None:
                    raise Unreachable(peer.address, "it ended the stream")
                if not is_followed:
                    is_followed = True
                    log.info("metadata stream opened", controller=peer.address, after_index=request.after_index)
                # What is begun anew elsewhere has to come through: a large snapshot or transaction takes its time.
                is_partial = batch.in_snapshot or batch.index > self._received_index
                if batch.in_snapshot:
                    self._take_part(batch)
                else:
                    self._take(batch)
                if self._received_index >= batch.committed_index:
                    await self._act()
                is_level = self._received_index >= self._committed_index_known and self._is_current(self._received)
                if is_level or (is_partial and batch.records):
                    level_since = loop.time()
                elif loop.time() - level_since > LAG_MAX_S:
                    raise _FellBehind(self._behind(batch))

    def _behind(self, batch: MetadataBatch) -> str:
        if batch.committed_index < self._received_index:
            return f"it has {batch.committed_index} entries, and this broker holds {self._received_index} of them"
        return f"it has {self._received_index} of {self._committed_index_known} entries"

    def _take(self, batch: MetadataBatch) -> None:
        if not batch.records or batch.index <= self._replayed_index:
            return
        replayed = self._replayed.replay(decode_records(batch.records, batch.index))
        if replayed.image.features is not self._received.features:
            check_levels(replayed.image)
        self._replayed, self._replayed_index = replayed, batch.index
        self.entry_bytes_total += len(batch.records)
        if not replayed.in_transaction:
            self._received, self._received_index, self._received_term = replayed.image, batch.index, batch.term

    def _take_part(self, part: MetadataBatch) -> None:
        """Of a snapshot. Its parts are taken in as they come, so that the event loop is not held up by all at once."""
        self._snapshot = self._snapshot.replay(decode_records(part.records, part.index))
        self.entry_bytes_total += len(part.records)
        if not part.ends_snapshot:
            return
        log.info("metadata snapshot received", index=part.index, topics=len(self._snapshot.topics))
        if part.index > self._received_index:
            check_levels(self._snapshot)
            self._receive(self._snapshot, part.index, part.term)
        self._snapshot = EMPTY_IMAGE

    def _receive(self, image: MetadataImage, index: int, term: int) -> None:
        """From here on this is what was received, and nothing beyond it."""
        self._received, self._received_index, self._received_term = image, index, term
        self._replayed, self._replayed_index = ReplayedImage(image=image), index
        self._snapshot = EMPTY_IMAGE

    async def _act(self) -> None:
        """Acts on everything received so far, in one step."""
        before, after, index = self.image, self._received, self._received_index
        if index == self.published_index or not self._is_current(after):
            return
        await self._publish(before, after)
        self.image, self.published_index = after, index
        self.is_acting.set()
        async with self._published:
            self._published.notify_all()
