"""Blocking work, done in a thread while the event loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar, TypeVarTuple, Unpack

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


async def in_thread(executor: Executor, work: Callable[[Unpack[Arguments]], Result], *arguments: *Arguments) -> Result:
    """What `work` returns or raises. Cancelled, it leaves work that has begun to its thread."""
    return await asyncio.get_running_loop().run_in_executor(executor, work, *arguments)
