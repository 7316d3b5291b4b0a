"""OAUTHBEARER: a token of an authorization server in one message (RFC 7628, KIP-255, KIP-768)."""

from __future__ import annotations

import re
from typing import Final

from kraft.sasl.exchange import Authenticated, Challenge, CheckToken, Rejected, Step
from kraft.sasl.scram import unescaped

_SEPARATOR: Final = "\x01"

_REFUSAL: Final = b'{"status":"invalid_token"}'

_TOKEN: Final = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([-_.a-zA-Z0-9]+)")


class OAuthBearerServer:
    """The server's half of one exchange. A client whose token was refused sends one more byte, as RFC 7628 says."""

    def __init__(self) -> None:
        self._authorization_id = ""
        self._was_asked = False
        self._refused: str | None = None

    def received(self, message: bytes) -> Step:
        if self._refused is not None:
            raise Rejected(self._refused, told=_REFUSAL.decode())
        if self._was_asked:
            raise Rejected("a second message of a client with OAUTHBEARER")
        self._authorization_id, token = _read(message)
        self._was_asked = True
        return CheckToken(token)

    def refused(self, reason: str) -> Challenge:
        """Return what the client is told of a token that is not valid."""
        self._refused = reason
        return Challenge(_REFUSAL)

    def token_checked(self, user: str, expires_ms: int) -> Authenticated:
        """Return the end of the exchange with a valid token of that user. Raises Rejected."""
        if self._authorization_id not in ("", user):
            raise Rejected(
                f"user {user!r} requested another authorization id",
                told="Authentication failed: Client requested an authorization id that is different from the token's "
                "principal name",
            )
        return Authenticated(user, expires_ms=expires_ms)


def _read(message: bytes) -> tuple[str, str]:
    """Return the authorization id, which may be empty, and the token. Extensions are ignored (KIP-342)."""
    try:
        header, *pairs = message.decode().split(_SEPARATOR)
    except UnicodeDecodeError:
        raise Rejected("the message of the client is not UTF-8") from None
    flag, authorization_id, *rest = [*header.split(","), "", ""]
    if flag != "n" or rest[0] or not (authorization_id == "" or authorization_id.startswith("a=")):
        raise Rejected("the message of the client does not begin as one of OAUTHBEARER")
    if pairs[-2:] != ["", ""]:
        raise Rejected("the message of the client has no end")
    for pair in pairs:
        key, _, value = pair.partition("=")
        if key == "auth" and (found := _TOKEN.fullmatch(value)):
            return unescaped(authorization_id[2:]), found[1]
    raise Rejected("the message of the client has no bearer token")
