"""Costly responses: encoded in a thread, and cached where they are the same for every client, until the metadata
changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Final

from kraft.metadata.image import CurrentImage
from kraft.model.callbacks import AsyncCall
from kraft.server.kafka_listener.requests import EncodedMessage
from kraft.wire.codec import encode
from kraft.wire.declaration import Message

ELEMENTS_ON_LOOP_MAX: Final = 2_000

RESPONSES_MAX: Final = 4
"""Cached responses: clients of this many request versions can be served from the cache at the same time."""


async def encoded(response: Message, version: int, elements: int) -> EncodedMessage:
    """Return the response, encoded in a thread if it has many elements: each takes microseconds."""
    if elements <= ELEMENTS_ON_LOOP_MAX:
        return _encoded(response, version)
    return await encoded_in_thread(response, version)


async def encoded_in_thread(response: Message, version: int) -> EncodedMessage:
    return await asyncio.to_thread(_encoded, response, version)


def _encoded(response: Message, version: int) -> EncodedMessage:
    """Return the buffers as they are: a copy of 60 MiB would hold the interpreter."""
    body, *rest = encode(response, version)
    return EncodedMessage(type(response), body, tuple(rest))


class EncodedResponses:
    def __init__(self, image: CurrentImage) -> None:
        self._image = image
        self._made_of = image()
        self._made: dict[Hashable, asyncio.Task[EncodedMessage]] = {}
        """Tasks that make responses, in the order of their last use, the oldest first. Some may still be running."""

    async def get(self, key: Hashable, make: AsyncCall[EncodedMessage]) -> EncodedMessage:
        """Return what `make` returned for `key` and the current image.

        Raises what `make` raised; the next call tries again.
        """
        image = self._image()
        if image is not self._made_of:
            # Callers that wait for a response made from the previous image still get it.
            self._made_of, self._made = image, {}
        task = self._made.pop(key, None)
        if task is None or (task.done() and not _is_made(task)):
            task = asyncio.ensure_future(make())
        self._made[key] = task
        if len(self._made) > RESPONSES_MAX:
            del self._made[next(iter(self._made))]
        # Other clients may wait for the same task when this one disconnects.
        return await asyncio.shield(task)


def _is_made(task: asyncio.Task[EncodedMessage]) -> bool:
    return not task.cancelled() and task.exception() is None
