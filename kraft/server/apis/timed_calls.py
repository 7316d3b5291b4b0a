"""Times the calls of the GRPC listener, as far as a node sees them: gRPC receives and sends in threads of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from time import perf_counter
from typing import Any

from kraft.rpc.call import AnyCall, ServerStream
from kraft.server.kafka_listener.request_times import ApiTimes

AnyHandler = Callable[..., Awaitable[Any]]


def timed(call: AnyCall, handler: AnyHandler, times: ApiTimes) -> Any:
    """Return a handler that does the same, and counts. A stream of responses to one request has no time of its own."""
    if isinstance(call, ServerStream):
        return handler

    def handle(*arguments: Any) -> Awaitable[Any]:
        began_s = perf_counter()
        answer = handler(*arguments)
        steps = answer if isinstance(answer, Coroutine) else answer.__await__()
        return _TimedAnswer(steps, times, began_s)

    return handle


class _TimedAnswer(Coroutine[Any, Any, Any]):
    """The answer of a handler. A coroutine itself, so that a task runs it without another one around it."""

    __slots__ = ("_began_s", "_steps", "_times", "_worked_s")

    def __init__(self, steps: Any, times: ApiTimes, began_s: float) -> None:
        self._steps = steps
        self._times = times
        self._began_s = began_s
        self._worked_s = perf_counter() - began_s

    def send(self, value: Any) -> Any:
        return self._step(self._steps.send, value)

    def throw(self, *error: Any) -> Any:
        return self._step(self._steps.throw, *error)

    def close(self) -> None:
        self._steps.close()

    def __await__(self) -> _TimedAnswer:
        return self

    def __iter__(self) -> _TimedAnswer:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def _step(self, step: Callable[..., Any], *value: Any) -> Any:
        began_s = perf_counter()
        try:
            waited_for = step(*value)
        except asyncio.CancelledError:
            # Its caller has gone: there is no answer.
            raise
        except BaseException:
            self._answered(perf_counter(), began_s)
            raise
        self._worked_s += perf_counter() - began_s
        return waited_for

    def _answered(self, now_s: float, step_began_s: float) -> None:
        times, local_s = self._times, self._worked_s + now_s - step_began_s
        times.count += 1
        times.local_s += local_s
        times.remote_s += max(0.0, now_s - self._began_s - local_s)
        times.answered(now_s - self._began_s)
