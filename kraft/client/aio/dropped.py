"""Closes clients that were dropped without a close, on the event loop that they have used."""

from __future__ import annotations

import asyncio
import os
import warnings
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeAlias

Close: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

_closing: Final[set[asyncio.Task[None]]] = set()
"""Nobody else has these tasks."""


def close_when_dropped(client: object, close: Close, *, name: str = "") -> weakref.finalize[..., Any]:
    """Have `close`, which must not know the client, run when the client is dropped. To be detached when it is closed.

    Called in the event loop of the client, when it opens its first connection. A warning calls it `name`, or as its
    class.
    """
    loop, name = asyncio.get_running_loop(), name or type(client).__name__.lower()
    finalizer = weakref.finalize(client, _dropped, name, loop, os.getpid(), close)
    # At the end of the process there is no event loop any more.
    finalizer.atexit = False
    return finalizer


def _dropped(name: str, loop: asyncio.AbstractEventLoop, process_id: int, close: Close) -> None:
    if os.getpid() != process_id:
        # A forked process has neither the loop nor the connections.
        return
    if not loop.is_closed():
        # The garbage collector may run in any thread.
        loop.call_soon_threadsafe(_begin, close)
    # Last, as a warning may be an error.
    article = "an" if name[0] in "aeiou" else "a"
    warnings.warn(f"{article} {name} was dropped without a close()", ResourceWarning, stacklevel=2)


def _begin(close: Close) -> None:
    task = asyncio.get_running_loop().create_task(close(), name="close of a dropped client")
    _closing.add(task)
    task.add_done_callback(_closing.discard)
