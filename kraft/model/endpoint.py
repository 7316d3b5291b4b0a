"""Where a listener of a node is reached."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where one listener of a broker is reached, as the broker advertises it."""

    listener: str
    host: str
    port: int
