"""Timeouts of requests that are forwarded to the controller. Not every message has a field for one."""

from __future__ import annotations

from typing import Final

DEFAULT_TIMEOUT_MS: Final = 30_000
"""Timeout for messages without a field for it: clients wait this long for any response by default."""

_TIMEOUT_MS_MIN: Final = 1_000


def forward_timeout_ms(timeout_ms: int) -> int:
    """Return the timeout for the controller: at least 1 s, since a 0 only means not to wait for other brokers."""
    return max(timeout_ms, _TIMEOUT_MS_MIN)
