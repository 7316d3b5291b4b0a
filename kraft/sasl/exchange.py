"""What a mechanism says after each message of the other side. Whoever runs it sends, looks up and waits."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from msgspec import Struct


class Rejected(Exception):
    """The client is not authenticated; the exchange is over.

    `reason` is for the log of the server, and says more than a stranger may know. `told` is for the client; None: only
    that its credentials are wrong.
    """

    def __init__(self, reason: str, told: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.told = told


class Challenge(Struct, frozen=True):
    """Bytes for the client, which has to answer."""

    message: bytes


class CheckPassword(Struct, frozen=True):
    """The password has to be compared with the user's credential: milliseconds of CPU. `checked` gets the outcome."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"CheckPassword(user={self.user!r})"


class CheckToken(Struct, frozen=True):
    """The token has to be verified. `token_checked` gets the outcome."""

    token: str

    def __repr__(self) -> str:
        return "CheckToken()"


class Authenticated(Struct, frozen=True):
    """The exchange is over. The client is `user`, and gets `message` last."""

    user: str
    message: bytes = b""
    expires_ms: int | None = None
    """When the credential expires, in ms since 1970; None: never."""


Step: TypeAlias = Challenge | CheckPassword | CheckToken | Authenticated


class ServerExchange(Protocol):
    """One authentication of one client."""

    def received(self, message: bytes) -> Step:
        """Return what follows from the client's message. Raises Rejected."""
