"""An event loop that measures how long it computes without a turn for others, whatever else the machine does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

Result = TypeVar("Result")


class MeasuredLoop(asyncio.SelectorEventLoop):
    """Everything that is ready runs before the loop looks for events again: together that is one turn."""

    longest_s = 0.0
    """Processor time of the loop's thread in its longest turn since this was last set to 0."""

    def _run_once(self) -> None:
        began_s = time.thread_time()
        super()._run_once()  # type: ignore[misc]  # Not among the declared methods, but what `run_forever` calls.
        self.longest_s = max(self.longest_s, time.thread_time() - began_s)


def run_measured(work: Callable[[], Awaitable[Result]]) -> tuple[Result, float]:
    """Run `work` on a measured loop; return its result and the seconds of the longest turn."""
    with asyncio.Runner(loop_factory=MeasuredLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, MeasuredLoop)

        async def run() -> Result:
            return await work()

        result = runner.run(run())
        return result, loop.longest_s


def measured_loop() -> MeasuredLoop:
    """Return the running loop, in work that `run_measured` runs."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, MeasuredLoop)
    return loop
