"""Periods of the loop's clock. Periodic tasks that sleep until their ends wake together.

Most of what a periodic task costs an idle process is that the process wakes up for it.
"""

from __future__ import annotations

import asyncio
import math
from typing import Final

ROUNDING_ERROR: Final = 1e-6
"""Part of a period by which a timer may fire early: without it, such a timer would fire twice."""


def loop_time_s() -> float:
    """Return the time by the loop's clock."""
    return asyncio.get_running_loop().time()


def period_left_s(period_s: float) -> float:
    """Return the time to the end of the present period: above 0, and at most `period_s`."""
    now_s = loop_time_s()
    return (math.floor(now_s / period_s + ROUNDING_ERROR) + 1) * period_s - now_s


async def period_end(period_s: float) -> None:
    """Sleep until the end of the present period."""
    await asyncio.sleep(period_left_s(period_s))
