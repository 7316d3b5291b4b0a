"""How many requests a node had of each API, and how long their stages took: sums of seconds, which others read.

A request is begun in one turn of the event loop. Most are answered in it; others wait, for replicas, records, other
members or a thread, and are answered in a later one. Kafka has the same stages, between threads.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

KEYS: Final = 256
"""The lower byte of an API's key: all keys are below it."""

STEPS_PER_S: Final = 2_000

DURATIONS_S_MAX: Final = tuple((1 << exponent) / STEPS_PER_S for exponent in range(17))
"""Requests are counted by these durations, from 0.5 ms to 32 s: each is twice the one before."""


_PLACES: Final = 64
"""No duration is beyond the last one, so that counting it needs no comparison."""


class ApiTimes:
    """Times of the requests of one API."""

    __slots__ = ("count", "durations", "key", "local_s", "queue_s", "remote_s", "send_s", "throttle_s")

    def __init__(self, key: int = 0) -> None:
        self.key = key
        """The lower byte of its key in Kafka's protocol."""
        self.count = 0
        self.queue_s = 0.0
        """Time from their arrival until they were begun."""
        self.local_s = 0.0
        """Time until they were answered, or waited."""
        self.remote_s = 0.0
        """Time from then on until they were answered: they waited, or others had their turns."""
        self.throttle_s = 0.0
        """Time that their clients were to wait, because they used more than their quotas."""
        self.send_s = 0.0
        """Time from then on until their responses were written."""
        self.durations = [0] * _PLACES
        """How many were answered within each of DURATIONS_S_MAX, and then within their doubles, and not within the one
        before. From arrival to answer.
        """

    def answered(self, duration_s: float) -> None:
        self.durations[int(duration_s * STEPS_PER_S).bit_length()] += 1


class TimedRequest(Struct, gc=False):
    """A request that was begun. Changed as it goes on: there is one for each request, and no time for several."""

    times: ApiTimes
    size_bytes: int
    queue_s: float
    local_s: float
    since_s: float
    """When its present stage began."""

    remote_s: float = 0.0
    send_s: float = 0.0
    throttle_ms: int = 0
    response_bytes: int = 0
    """This and the throttle of a slow one only."""

    is_slow: bool = False


class RequestTimes:
    """Times by the key of the API."""

    def __init__(self) -> None:
        self.by_key: Final = tuple(ApiTimes(key) for key in range(KEYS))


class CallTimes:
    """Times of gRPC's calls, by name."""

    def __init__(self) -> None:
        self.by_name: Final[dict[str, ApiTimes]] = {}

    def of(self, name: str) -> ApiTimes:
        return self.by_name.setdefault(name, ApiTimes())
