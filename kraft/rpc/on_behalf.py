"""On whose behalf a node calls a controller: the client whose request a broker forwards.

The controller asks again what that client may do. What nodes ask on their own account has no such client.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any, Final

from msgspec import DecodeError, Struct, msgpack

from kraft.model.principal import Principal


class Client(Struct, frozen=True):
    """Who sent a request, and the address that it came from, without a port."""

    principal: Principal
    host: str


ON_BEHALF_OF: Final[ContextVar[Client | None]] = ContextVar("ON_BEHALF_OF", default=None)
"""The client for whom the task forwards, or whose forwarded call it answers.

A controller in the same process sees it as it is, one behind a connection gets it in the metadata of the call.
"""

FORWARDED_FOR: Final = "forwarded-for-bin"
"""Name of that metadata. It counts only where every caller is a node."""


def forwarded_for() -> tuple[tuple[str, bytes], ...]:
    """Return the metadata of a call that this task makes."""
    client = ON_BEHALF_OF.get()
    return () if client is None else ((FORWARDED_FOR, msgpack.encode(client)),)


def client_in(metadata: Iterable[tuple[str, Any]]) -> Client | None:
    """Return the client of a node's call; None if the node asks for itself. Raises ValueError."""
    for name, value in metadata:
        if name == FORWARDED_FOR:
            try:
                return msgpack.decode(value, type=Client)
            except DecodeError as error:
                raise ValueError(f"it names no client: {error}") from None
    return None
