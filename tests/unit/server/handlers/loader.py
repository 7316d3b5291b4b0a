"""A metadata loader whose image the test replaces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kraft.metadata.image import EMPTY_IMAGE, MetadataImage


class Loader:
    """Acts on a new image when the test says so."""

    def __init__(self, image: MetadataImage = EMPTY_IMAGE) -> None:
        self.image = image

    async def until(self, holds: Callable[[MetadataImage], bool], timeout_s: float) -> bool:
        deadline = asyncio.get_running_loop().time() + timeout_s
        while not holds(self.image):
            if asyncio.get_running_loop().time() >= deadline:
                return False
            await asyncio.sleep(0.01)
        return True
