"""Opens a broker's logs before any controller has answered, since this is the longest part of a start.

None of the logs gets a role, and no request is served from them: only live metadata with the registration of this
process shows which partitions are this broker's and who leads them. Logs of topics that were deleted, reassigned or
created again with the same name are found by topic id, and renamed as if they had not been opened.
"""

from __future__ import annotations

import structlog

from kraft.log.topic_config import TopicConfig
from kraft.metadata.configs import overridden
from kraft.metadata.image import MetadataImage
from kraft.model.errors import Refusal
from kraft.server.loop.periods import loop_time_s
from kraft.server.replica.replica_directories import DirectoryFailed, FoundPartition
from kraft.server.replica.replica_storage import ReplicaStorage

log = structlog.get_logger()


class LogPreloading:
    """Preloads the logs of a broker until `stop`."""

    def __init__(self, storage: ReplicaStorage, defaults: TopicConfig) -> None:
        self._storage = storage
        self._replica_directories = storage.replica_directories
        self._defaults = defaults
        self._is_stopped = False

    async def open(self, known: MetadataImage) -> None:
        """Open the logs on the disks until `stop`. Topic configs come from `known` as far as it has them."""
        began_s, opened, corrupt = loop_time_s(), 0, 0
        failed: set[str] = set()
        for found in await self._storage.in_thread(self._replica_directories.found):
            if self._is_stopped:
                log.info("log preloading stopped", opened=opened)
                return
            if found.directory in failed:
                continue
            try:
                is_open = await self._storage.in_thread(
                    self._replica_directories.preload, found, self._config(known, found)
                )
            except DirectoryFailed as failure:
                # The first applied metadata finds the failure again, and logs which replicas are offline.
                log.error("log preloading failed", reason=str(failure))
                failed.add(found.directory)
                continue
            opened, corrupt = opened + is_open, corrupt + (not is_open)
        took_ms = round((loop_time_s() - began_s) * 1_000)
        log.info("logs preloaded", opened=opened, corrupt=corrupt, took_ms=took_ms)

    def stop(self) -> None:
        """Open no further logs."""
        self._is_stopped = True

    async def release(self) -> None:
        """Close the logs that the metadata did not assign to this broker."""
        await self._storage.in_thread(self._replica_directories.release_preloaded)

    async def close(self) -> None:
        """Close the logs cleanly, if the broker stops before it applied any metadata. Raises OSError."""
        self.stop()
        try:
            await self._storage.in_thread(self._replica_directories.close_preloaded)
        except Refusal as refusal:
            raise OSError(refusal.message) from refusal

    def _config(self, known: MetadataImage, found: FoundPartition) -> TopicConfig:
        topic = known.topics.get(found.topic_id)
        return self._defaults if topic is None else overridden(self._defaults, topic.configs)
