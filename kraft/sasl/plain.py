"""PLAIN: user and password in one message (RFC 4616)."""

from __future__ import annotations

from kraft.sasl.exchange import Authenticated, CheckPassword, Rejected, Step


class PlainServer:
    """The server's half of one exchange."""

    def __init__(self) -> None:
        self._asked: CheckPassword | None = None

    def received(self, message: bytes) -> Step:
        if self._asked is not None:
            raise Rejected("a second message of a client with PLAIN")
        self._asked = _read(message)
        return self._asked

    def checked(self, is_right: bool) -> Authenticated:
        """Return the end. Raises Rejected."""
        assert self._asked is not None, "nothing was to be checked"
        if not is_right:
            raise Rejected(
                f"user {self._asked.user!r} does not exist, or has another password",
                told="Authentication failed: Invalid username or password",
            )
        return Authenticated(self._asked.user)


def plain_message(user: str, password: str) -> bytes:
    """Return the client's only message."""
    return f"\0{user}\0{password}".encode()


def _read(message: bytes) -> CheckPassword:
    try:
        parts = message.decode().split("\0")
    except UnicodeDecodeError:
        raise Rejected("the message of the client is not UTF-8") from None
    if len(parts) != 3:
        raise Rejected(
            f"the message has {len(parts)} parts",
            told=f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}",
        )
    authorization_id, user, password = parts
    if not user or not password:
        what = "username" if not user else "password"
        raise Rejected(f"the message has no {what}", told=f"Authentication failed: {what} not specified")
    if authorization_id not in ("", user):
        raise Rejected(
            f"user {user!r} requested another authorization id",
            told="Authentication failed: Client requested an authorization id that is different from username",
        )
    return CheckPassword(user, password)
