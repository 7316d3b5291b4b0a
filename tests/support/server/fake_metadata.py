"""A broker's metadata, which the test changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kraft.metadata.image import MetadataImage
from kraft.metadata.records import MetadataRecord


class FollowedMetadata:
    """An image, and the wait for another one, as with `MetadataLoader`."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self._changed = asyncio.Condition()

    async def until(self, holds: Callable[[MetadataImage], bool], timeout_s: float) -> bool:
        try:
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(lambda: holds(self.image))
        except TimeoutError:
            return False
        return True

    async def replay(self, record: MetadataRecord) -> None:
        self.image = self.image.replay([record])
        async with self._changed:
            self._changed.notify_all()
