"""Where a listener of a node is reached."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where one listener of a broker is reached, as the broker advertises it."""

    listener: str
    host: str
    port: int

    def __str__(self) -> str:
        """As in `advertised.listeners`; an IPv6 address stands in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"
