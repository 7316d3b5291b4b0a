"""The endpoint of a node's listener."""

from __future__ import annotations

from msgspec import Struct


class Endpoint(Struct, frozen=True, kw_only=True):
    """Advertised address of one listener of a broker; `listener` is empty where its name is not known."""

    listener: str
    host: str
    port: int

    def __str__(self) -> str:
        """Return the text form used in `advertised.listeners`; an IPv6 address is in brackets."""
        name = f"{self.listener}://" if self.listener else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{name}{host}:{self.port}"
