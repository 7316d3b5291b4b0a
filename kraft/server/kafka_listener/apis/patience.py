"""How long a request to the controller may take. Clients say so, but not in every message."""

from __future__ import annotations

from typing import Final

UNTOLD_MS: Final = 30_000
"""For messages without a field for it: as long as clients wait for any answer, unless told otherwise."""

_LEAST_MS: Final = 1_000


def patience_ms(timeout_ms: int) -> int:
    """A client that says 0 wants no waiting for other brokers, but what it asks for is to be done."""
    return max(timeout_ms, _LEAST_MS)
