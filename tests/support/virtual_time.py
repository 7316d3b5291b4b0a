"""An event loop whose clock jumps to the next deadline, so that a test of two minutes takes no time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from kraft.client.cluster.connections import Connections
from kraft.client.cluster.network import Network

Result = TypeVar("Result")

WALL_MS_AT_START = 1_700_000_000_000


class _JumpingSelector(selectors.PollSelector):
    now_s = 1_000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "every task waits for another: the test can never end"
        self.now_s += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.jumping = _JumpingSelector()
        super().__init__(self.jumping)

    def time(self) -> float:
        return self.jumping.now_s


class LoopClock:
    """A clock that shows the time of the running loop."""

    def monotonic_ms(self) -> int:
        # Rounded, because a deadline in seconds does not come out as whole milliseconds.
        return round(asyncio.get_running_loop().time() * 1000)

    def wall_ms(self) -> int:
        return WALL_MS_AT_START + self.monotonic_ms() - 1_000_000


class Unchanging:
    """Not random: always the middle of the range."""

    def bytes(self, count: int) -> bytes:
        return bytes(count)

    def below(self, bound: int) -> int:
        return bound // 2 if bound > 1_000 else 0


def virtual_network(connections: Connections) -> Network:
    return Network(connect=lambda: connections, clock=LoopClock(), entropy=Unchanging())


def run_virtually(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a test in virtual time, and fail it if it leaves tasks behind."""

    async def supervised() -> Result:
        result = await work
        left = [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert not left, f"tasks left behind: {left}"
        return result

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(supervised())
