"""Tasks that are not awaited: an error in one of them stops the node instead of passing unnoticed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

from kraft.model.callbacks import Fatal

log = structlog.get_logger()


def start(work: Coroutine[Any, Any, None], name: str, fatal: Fatal) -> asyncio.Task[None]:
    """Run `work` as a task, which its owner cancels. An exception from it is a bug and is passed to `fatal`."""

    def ended(task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("internal error", task=name, exc_info=error)
            fatal(f"internal error in the {name}: {error!r}: report it with this log")

    task = asyncio.create_task(work, name=name)
    task.add_done_callback(ended)
    return task
