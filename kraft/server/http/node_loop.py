"""Questions of the HTTP listener's thread to the node's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class LoopHangs(Exception):
    """The node's event loop did not answer in time."""


async def on_node_loop(
    node_loop: asyncio.AbstractEventLoop, question: Coroutine[Any, Any, Result], seconds: float
) -> Result:
    """Run it on the node's loop, and return what it returns. Raises LoopHangs."""
    running = asyncio.run_coroutine_threadsafe(question, node_loop)
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.wrap_future(running)
    except TimeoutError:
        raise LoopHangs from None
