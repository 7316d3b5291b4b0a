"""Processor time that an awaitable takes, without the time in which it waits."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from time import thread_time_ns
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class TimedSteps(Generic[T]):
    """Await it in place of the awaitable. What others do for it, such as tasks and threads, is not counted."""

    def __init__(self, awaitable: Awaitable[T], spent_ns: int = 0) -> None:
        self.spent_ns = spent_ns
        """The time that it has taken so far, and what was spent before."""

        self._awaitable = awaitable

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._awaitable.__await__()
        thrown: BaseException | None = None
        while True:
            began_ns = thread_time_ns()
            try:
                waited_for = next(steps) if thrown is None else steps.throw(thrown)
            except StopIteration as done:
                result: T = done.value
                return result
            finally:
                self.spent_ns += thread_time_ns() - began_ns
            try:
                yield waited_for
                thrown = None
            except BaseException as error:  # noqa: BLE001  It belongs to the awaitable, also if it is a cancellation.
                thrown = error
