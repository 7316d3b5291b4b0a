"""How many requests a listener had of each API, and how long they took: sums of seconds, which others read.

A request is begun in one turn of the event loop. Most are answered in it; others wait, for replicas, records, other
members or a thread, and are answered in a later one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

KEYS: Final = 256
"""The lower byte of an API's key: all keys are below it."""


class ApiTimes:
    """Times of the requests of one API."""

    __slots__ = ("count", "key", "local_s", "remote_s")

    def __init__(self, key: int) -> None:
        self.key = key
        self.count = 0
        self.local_s = 0.0
        """Time until they were answered, or waited."""
        self.remote_s = 0.0
        """Time from then on until they were answered: they waited, or others had their turns."""


class TimedRequest(NamedTuple):
    """A request that was answered, or waits."""

    times: ApiTimes
    """Those of its API."""

    size_bytes: int
    local_s: float
    waits_since_s: float


class RequestTimes:
    """Times by the key of the API."""

    def __init__(self) -> None:
        self.by_key: Final = tuple(ApiTimes(key) for key in range(KEYS))
