"""The client's half of all mechanisms, for any protocol that carries their messages."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, TypeAlias

from msgspec import Struct

from kraft.model.password import Password
from kraft.sasl.exchange import Rejected
from kraft.sasl.mechanisms import SaslMechanism
from kraft.sasl.plain import plain_message
from kraft.sasl.scram import ScramMechanism
from kraft.sasl.scram_client import ScramClient

ClientExchange: TypeAlias = Generator[bytes, bytes, None]
"""Yields the client's messages, and gets the server's; it ends when the client believes the server.

A step may take milliseconds of CPU. It raises Rejected for a server that does not know the user, either.
"""

_ACKNOWLEDGED: Final = b"\x01"
"""What a client says to the reason for which its token was refused (RFC 7628)."""


class PasswordLogin(Struct, frozen=True, kw_only=True):
    """A user and its password, for PLAIN and SCRAM."""

    mechanism: SaslMechanism
    user: str
    password: Password


class TokenLogin(Struct, frozen=True, kw_only=True):
    """A token of an authorization server."""

    token: Password


def client_exchange(login: PasswordLogin | TokenLogin, nonce: str) -> ClientExchange:
    """Return the exchange with these credentials. `nonce` is printable, without commas, and used once."""
    if isinstance(login, TokenLogin):
        return _oauth_bearer(login.token)
    match login.mechanism:
        case SaslMechanism.PLAIN:
            return _plain(login.user, login.password)
        case SaslMechanism.SCRAM_SHA_256 | SaslMechanism.SCRAM_SHA_512:
            return _scram(ScramMechanism(login.mechanism.value), login.user, login.password, nonce)
        case SaslMechanism.OAUTHBEARER:
            raise AssertionError("OAUTHBEARER has a token, and no password")


def answer_to(exchange: ClientExchange, message: bytes) -> bytes | None:
    """Return the client's next message; None if the exchange is over, and the client believes the server.

    Takes milliseconds of CPU, or more if the server asks for it. Raises Rejected.
    """
    try:
        return exchange.send(message)
    except StopIteration:
        return None


def _plain(user: str, password: Password) -> ClientExchange:
    yield plain_message(user, password.text)


def _scram(mechanism: ScramMechanism, user: str, password: Password, nonce: str) -> ClientExchange:
    client = ScramClient(mechanism, user, password.text, nonce)
    server_first = yield client.first()
    client.finish((yield client.final(server_first)))


def _oauth_bearer(token: Password) -> ClientExchange:
    refusal = yield f"n,,\x01auth=Bearer {token.text}\x01\x01".encode()
    if refusal:
        # The server then ends the exchange with its own error.
        yield _ACKNOWLEDGED
        raise Rejected(f"the server refused the token: {refusal[:200]!r}")
