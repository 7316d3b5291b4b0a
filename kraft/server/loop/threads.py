"""Work that blocks, away from the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar, TypeVarTuple, Unpack

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


def in_thread(
    executor: Executor, work: Callable[[Unpack[Arguments]], Result], *arguments: *Arguments
) -> asyncio.Future[Result]:
    """To be awaited: the result of `work`, which a thread of `executor` does."""
    return asyncio.get_running_loop().run_in_executor(executor, work, *arguments)
