"""The tokens by which calls of a client show that it has logged in.

A token is a session and a code over it, which needs a key that only the process that issued it has. So sessions take no
memory here, and a client has to log in again after a restart.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from kraft.sasl.login import Session

HEADER: Final = "authorization"
SCHEME: Final = "Bearer "

TOKEN_KEY_BYTES: Final = 32
TOKEN_CHARACTERS_MAX: Final = 6 * 1024
"""A name of 1,000 letters has up to 4,000 bytes. gRPC takes 8 KiB of metadata."""

SESSION_OVER: Final = "its session is over, or of an earlier process: it has to log in again"
"""Clients recognise this exact text and log in again, so it must be the same in all versions."""

LOGIN_NEEDED: Final = "it requires a login"
"""How the refusal of a call without a session begins; clients recognise it."""

_CODE_BYTES: Final = 32


class NotLoggedIn(Exception):
    """A call shows no valid session. The text is one line without anything secret."""


class SessionOver(NotLoggedIn):
    """A call shows a session that is not valid, or not any more."""

    def __init__(self) -> None:
        super().__init__(SESSION_OVER)


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Session).decode


class SessionTokens:
    """Issues the tokens of a process, and reads them."""

    def __init__(self, key: bytes, monotonic_ms: Callable[[], int], objection: Callable[[Session], str | None]) -> None:
        """`objection` says why a session must not go on, although its time is not over; None if it may."""
        assert len(key) == TOKEN_KEY_BYTES, "a key has 32 random bytes"
        self._key = key
        self._monotonic_ms = monotonic_ms
        self._objection = objection

    def issue(self, session: Session) -> str:
        """Return what proves the session to this process."""
        packed = _encode(session)
        return urlsafe_b64encode(self._code(packed) + packed).decode()

    def shown_by(self, metadata: Iterable[tuple[str, Any]]) -> Session | None:
        """Return the session in the metadata of a call; None without one. Raises SessionOver."""
        for name, value in metadata:
            if name == HEADER:
                session = self._read(str(value).removeprefix(SCHEME))
                self.check(session)
                return session
        return None

    def check(self, session: Session) -> None:
        """Raise SessionOver if the session's time is over, or its user is not what it was."""
        if session.is_over(self._monotonic_ms()) or self.is_withdrawn(session):
            raise SessionOver

    def is_withdrawn(self, session: Session) -> bool:
        """Return whether the session's user is not what it was, whatever the time."""
        return self._objection(session) is not None

    def _read(self, token: str) -> Session:
        if len(token) > TOKEN_CHARACTERS_MAX:
            raise SessionOver
        try:
            data = urlsafe_b64decode(token)
        except ValueError:
            raise SessionOver from None
        code, packed = data[:_CODE_BYTES], data[_CODE_BYTES:]
        if not hmac.compare_digest(code, self._code(packed)):
            raise SessionOver
        # Nobody else makes such codes, so the rest is what was issued.
        return _decode(packed)

    def _code(self, packed: bytes) -> bytes:
        return hmac.digest(self._key, packed, hashlib.sha256)
