"""Calls to other brokers that end when the broker is fenced: one that hangs answers nothing before their deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from kraft.metadata.image import CurrentImage
from kraft.model.ids import BrokerId
from kraft.rpc.peers import Unreachable

Response = TypeVar("Response")

LOOK_S: Final = 0.1
"""Pause between looks at whether the broker is fenced."""


async def while_in_service(broker_id: BrokerId, call: Awaitable[Response], image: CurrentImage) -> Response:
    """Return the response to a call. Raises what the call raises, or Unreachable soon after the broker was fenced.

    Its partitions have other leaders then, which can be asked instead.
    """
    calling = asyncio.ensure_future(call)
    try:
        while not (await asyncio.wait((calling,), timeout=LOOK_S))[0]:
            if not image().is_alive(broker_id):
                raise Unreachable(f"broker {broker_id}", "it was fenced before it answered")
        return calling.result()
    finally:
        calling.cancel()
