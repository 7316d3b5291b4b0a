"""Streams whose answers are let out by the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc

from kraft.model.replica_fetch import ReplicaFetchRequest

CALL_S = 5.0

NO_PARTITIONS = ReplicaFetchRequest(
    number=1, replica_id=2, broker_epoch=3, max_wait_ms=0, min_bytes=0, max_bytes=0, partitions=[]
)


class Gates:
    """A handler whose answers are let out by the test."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.cancelled: list[int] = []
        self._open: dict[int, asyncio.Event] = {}

    def open(self, *numbers: int) -> None:
        for number in numbers:
            self._gate(number).set()

    async def answer(self, number: int) -> int:
        self.begun.append(number)
        try:
            await self._gate(number).wait()
        except asyncio.CancelledError:
            self.cancelled.append(number)
            raise
        return number

    def _gate(self, number: int) -> asyncio.Event:
        return self._open.setdefault(number, asyncio.Event())


class Context:
    """The part of a call's context that `in_order` uses."""

    def __init__(self) -> None:
        self.aborted: tuple[grpc.StatusCode, str] | None = None

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        self.aborted = code, details
        raise ConnectionAbortedError(details)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def numbers(*given: int, then: BaseException | None = None, last: asyncio.Event | None = None) -> Any:
    for number in given:
        yield number
    if then is not None:
        raise then
    if last is not None:
        await last.wait()


async def gathered(responses: AsyncIterator[int], into: list[int] | None = None) -> list[int]:
    answers = [] if into is None else into
    async for response in responses:
        answers.append(response)
    return answers
