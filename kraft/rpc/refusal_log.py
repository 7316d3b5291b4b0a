"""What strangers were refused for: one line for each kind, however often they knock."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import unquote

import structlog

log = structlog.get_logger()

AGAIN_AFTER_MS: Final = 60_000
"""A reason of the same kind for the same host is told once in this time."""

LINES_MAX: Final = 20
"""And this many lines at most in the same time, whatever strangers come up with."""

TEXT_MAX: Final = 300

_NUMBER: Final = re.compile(r"\d+")
"""Sizes and positions: they differ from one refusal to the next, and the kind is the same."""


class RefusalLog:
    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        self._monotonic_ms = monotonic_ms
        self._period_began_ms = 0
        self._told: set[tuple[str, str]] = set()
        self._untold = 0

    def tell(self, peer: str, reason: str) -> None:
        """`peer` is gRPC's name of the other end of the connection."""
        address = readable_peer(peer)
        now_ms = self._monotonic_ms()
        if now_ms - self._period_began_ms >= AGAIN_AFTER_MS:
            self._period_began_ms = now_ms
            self._told.clear()
        told = (address.rpartition(":")[0], _NUMBER.sub("", reason))
        if told in self._told or len(self._told) >= LINES_MAX:
            self._untold += 1
            return
        self._told.add(told)
        untold, self._untold = self._untold, 0
        log.warning(
            "peer refused", peer=address, reason=reason[:TEXT_MAX], **({"others_refused": untold} if untold else {})
        )


def readable_peer(peer: str) -> str:
    """`ipv6:%5B::1%5D:40000` is `[::1]:40000`."""
    scheme, separator, address = peer.partition(":")
    return unquote(address) if separator and scheme in ("ipv4", "ipv6") else unquote(peer)
