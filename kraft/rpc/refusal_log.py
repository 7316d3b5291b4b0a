"""Logs why peers were refused: one line for each kind of reason, however often it occurs."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final
from urllib.parse import unquote

import structlog

from kraft.model.addresses import address_of_peer
from kraft.model.callbacks import NowMs
from kraft.model.refused_for import RefusedFor

log = structlog.get_logger()

AGAIN_AFTER_MS: Final = 60_000
"""A reason of the same kind for the same host is logged once in this time."""

LINES_MAX: Final = 20
"""The most lines in the same time, whatever the reasons."""

TEXT_MAX: Final = 300

_MAPPED: Final = re.compile(r"^\[::ffff:([\d.]+)\](?=:)")

_NUMBER: Final = re.compile(r"\d+")
"""Numbers in a reason, such as sizes and positions. Reasons that differ only in numbers are of the same kind."""


class RefusalLog:
    """Limits the log lines about refused peers; a line counts the refusals that were not logged before it."""

    def __init__(self, monotonic_ms: NowMs) -> None:
        self._monotonic_ms = monotonic_ms
        self._period_began_ms = 0
        self._logged: set[tuple[str, str]] = set()
        self._not_logged = 0
        self.counts = Counter(dict.fromkeys(RefusedFor, 0))
        """All refusals, whether they were logged or not."""

    def log(self, peer: str, reason: str, refused_for: RefusedFor) -> None:
        """Log a refusal unless one of its kind was logged lately. `peer` is gRPC's name of the other end."""
        self.counts[refused_for] += 1
        address, reason = readable_peer(peer), reason[:TEXT_MAX]
        now_ms = self._monotonic_ms()
        if now_ms - self._period_began_ms >= AGAIN_AFTER_MS:
            self._period_began_ms = now_ms
            self._logged.clear()
        kind = (address_of_peer(address), _NUMBER.sub("", reason))
        if kind in self._logged or len(self._logged) >= LINES_MAX:
            self._not_logged += 1
            return
        self._logged.add(kind)
        omitted = {"refusals_not_logged": self._not_logged} if self._not_logged else {}
        self._not_logged = 0
        log.warning("peer refused", peer=address, reason=reason, **omitted)


def readable_peer(peer: str) -> str:
    """Return gRPC's name of a peer as an address: `ipv6:%5B::1%5D:40000` becomes `[::1]:40000`.

    An IPv4 address is the same, whichever socket accepted it.
    """
    scheme, separator, address = peer.partition(":")
    readable = unquote(address) if separator and scheme in ("ipv4", "ipv6") else unquote(peer)
    return _MAPPED.sub(r"\1", readable)
