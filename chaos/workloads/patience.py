"""Calls that a fault may have made fail, made again until a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from kraft.client import KraftError, Unreachable

Answer = TypeVar("Answer")

_PAUSE_S: Final = 0.2


def call_until_answered(call: Callable[[], Answer], deadline_s: float) -> Answer:
    """The first answer. Raises what the client raised last, when the monotonic clock has passed `deadline_s`."""
    while True:
        try:
            return call()
        except (KraftError, Unreachable):
            if time.monotonic() >= deadline_s:
                raise
            time.sleep(_PAUSE_S)
