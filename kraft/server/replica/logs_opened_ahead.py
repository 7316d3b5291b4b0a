"""Opens a broker's logs before any controller has answered: the long part of a start, and nobody is needed for it.

None of the logs gets a role, and nobody is served from them: only metadata that is followed live, and knows the
registration of this process, tells which of them are this broker's and who leads. What was deleted, moved or created
anew under its name meanwhile is found by the topic ids, and set aside as if nothing had been opened.
"""

from __future__ import annotations

import asyncio

import structlog

from kraft.metadata.configs import TopicConfig, overridden
from kraft.metadata.image import MetadataImage
from kraft.model.errors import Refusal
from kraft.server.replica.storage import ReplicaStorage
from kraft.server.replica.store import DirectoryFailed, FoundPartition

log = structlog.get_logger()


class LogsOpenedAhead:
    def __init__(self, storage: ReplicaStorage, defaults: TopicConfig) -> None:
        self._storage = storage
        self._store = storage.store
        self._defaults = defaults
        self._goes_on = True

    async def open(self, known: MetadataImage) -> None:
        """Opens what lies on the disks, until `stop`. Topics' configs are taken from `known`, where they are."""
        began_s, opened, damaged = asyncio.get_running_loop().time(), 0, 0
        failed: set[str] = set()
        for found in await self._storage.in_thread(self._store.found):
            if not self._goes_on:
                log.info("log preloading stopped", opened_before=opened)
                return
            if found.directory in failed:
                continue
            try:
                is_open = await self._storage.in_thread(self._store.open_ahead, found, self._config(known, found))
            except DirectoryFailed as failure:
                # The first metadata that is acted on meets it again, and tells which replicas are lost by it.
                log.error("log preloading failed", reason=str(failure))
                failed.add(found.directory)
                continue
            opened, damaged = opened + is_open, damaged + (not is_open)
        took_ms = round((asyncio.get_running_loop().time() - began_s) * 1_000)
        log.info("logs preloaded", opened=opened, damaged=damaged, took_ms=took_ms)

    def stop(self) -> None:
        """What is not being opened by now is left to whoever knows what is needed."""
        self._goes_on = False

    async def release(self) -> None:
        """Lets go of those that nobody asked for."""
        await self._storage.in_thread(self._store.release_ahead)

    async def close(self) -> None:
        """Closes them in order, when the broker stops before it knew anything. Raises OSError."""
        self.stop()
        try:
            await self._storage.in_thread(self._store.close_ahead)
        except Refusal as refusal:
            raise OSError(refusal.message) from refusal

    def _config(self, known: MetadataImage, found: FoundPartition) -> TopicConfig:
        topic = known.topics.get(found.topic_id)
        return self._defaults if topic is None else overridden(self._defaults, topic.configs)
