"""Notices a client that repeats a request to the wrong broker, and asks nobody who the leader is.

aiokafka repeats ListOffsets ten times a second at a broker that answers NOT_LEADER_OR_FOLLOWER, and refreshes its
metadata only after minutes. Every client does so when its connection closes.
Source: docs/adr/0045-leaders-are-asked-before-they-are-named.md.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

REPEATED_MIN: Final = 10
REPEATED_MS_MIN: Final = 1_000
"""A client that repeats the same refused request as often and for as long as this has not refreshed its metadata."""

GAP_MS_MAX: Final = 10_000
"""Refusals that are further apart do not belong together."""


class RepeatedRefusals:
    """Counts how often the last refused request of one connection was repeated."""

    def __init__(self) -> None:
        self._last: int | None = None
        self._count = 0
        self._began_ms = 0
        self._at_ms = 0

    def answered(self) -> None:
        """Note that a request was not refused."""
        self._last = None

    def are_endless(self, refused: Hashable, now_ms: int) -> bool:
        """Note that this was refused; return True if the client has repeated it too often."""
        # The hash takes the same little memory for any request.
        if hash(refused) != self._last or now_ms - self._at_ms > GAP_MS_MAX:
            self._last, self._count, self._began_ms = hash(refused), 0, now_ms
        self._count += 1
        self._at_ms = now_ms
        return self._count > REPEATED_MIN and now_ms - self._began_ms >= REPEATED_MS_MIN
