"""Answers that are long to make and the same for all who ask: made once, until the metadata changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final

from kraft.metadata.image import MetadataImage
from kraft.server.kafka_listener.requests import EncodedMessage

ANSWERS_MAX: Final = 4
"""Clients of so many versions are served from here at the same time."""


class EncodedAnswers:
    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image
        self._made_of = image()
        self._made: dict[Hashable, asyncio.Task[EncodedMessage]] = {}
        """In the order of their last use, the oldest first. Some are still being made."""

    async def get(self, key: Hashable, make: Callable[[], Awaitable[EncodedMessage]]) -> EncodedMessage:
        """What `make` made of the present image for that key. Raises what it raised; the next who asks tries again."""
        image = self._image()
        if image is not self._made_of:
            # Who waits for an answer of the image before gets it all the same.
            self._made_of, self._made = image, {}
        task = self._made.pop(key, None)
        if task is None or (task.done() and not _is_made(task)):
            task = asyncio.ensure_future(make())
        self._made[key] = task
        if len(self._made) > ANSWERS_MAX:
            del self._made[next(iter(self._made))]
        # Others may wait for it too when this client goes.
        return await asyncio.shield(task)


def _is_made(task: asyncio.Task[EncodedMessage]) -> bool:
    return not task.cancelled() and task.exception() is None
