"""Protocols of clients that have the wrong address, by their first bytes."""

from __future__ import annotations

from typing import Final

_OTHER_PROTOCOLS: Final = {
    b"PRI ": "the client speaks gRPC: it needs the address of a GRPC listener",
    b"GET ": "the client speaks HTTP, which this listener does not serve",
    b"POST": "the client speaks HTTP, which this listener does not serve",
    b"\x16\x03": "the client speaks TLS, which this listener does not serve",
}
"""First bytes that look like a size, and what they show."""


def other_protocol(start: bytes) -> str | None:
    """Return which other protocol these first bytes are of, in one line; None if they do not show it."""
    return next((what for first, what in _OTHER_PROTOCOLS.items() if start.startswith(first)), None)
