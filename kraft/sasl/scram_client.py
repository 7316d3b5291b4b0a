"""SCRAM: the client's half of an exchange."""

from __future__ import annotations

import binascii
import hmac
from base64 import b64decode, b64encode
from typing import Final

from kraft.sasl.exchange import Rejected
from kraft.sasl.scram import ITERATIONS_MIN, ScramMechanism, escaped, salted_password

_ITERATIONS_MAX: Final = 1_000_000
"""A server that asks for more is not one: the client would be busy for a second."""

_HEADER: Final = "n,,"


class ScramClient:
    """Call `first`, then `final` with the server's first message, then `finish` with its last one."""

    def __init__(self, mechanism: ScramMechanism, user: str, password: str, nonce: str) -> None:
        """`nonce` is printable, without commas, and used once."""
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        self._first_bare = f"n={escaped(user)},r={nonce}"
        self._server_signature = b""

    def first(self) -> bytes:
        """Return the first message."""
        return (_HEADER + self._first_bare).encode()

    def final(self, server_first: bytes) -> bytes:
        """Return the message with the proof; takes milliseconds of CPU. Raises Rejected for a server that is none."""
        nonce, salt, iterations = _read_server_first(server_first)
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise Rejected("the server's nonce does not begin with the client's")
        if not ITERATIONS_MIN <= iterations <= _ITERATIONS_MAX:
            raise Rejected(f"the server asks for {iterations} iterations, not {ITERATIONS_MIN} to {_ITERATIONS_MAX}")
        mechanism = self._mechanism
        salted = salted_password(mechanism, self._password, salt, iterations)
        without_proof = f"c={b64encode(_HEADER.encode()).decode()},r={nonce}"
        signed = f"{self._first_bare},{server_first.decode()},{without_proof}".encode()
        client_key = mechanism.hmac(salted, b"Client Key")
        signature = mechanism.hmac(mechanism.hash(client_key), signed)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self._server_signature = mechanism.hmac(mechanism.hmac(salted, b"Server Key"), signed)
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def finish(self, server_final: bytes) -> None:
        """Raises Rejected if the server does not have the user's credential either, or says that login failed."""
        expected = b"v=" + b64encode(self._server_signature)
        if not self._server_signature or not hmac.compare_digest(server_final.split(b",")[0], expected):
            raise Rejected(f"the server does not prove that it knows the user: {server_final[:100]!r}")


def _read_server_first(message: bytes) -> tuple[str, bytes, int]:
    """Return nonce, salt and iterations."""
    try:
        nonce, salt, iterations, *_ = message.decode().split(",")
        found = nonce[:2], salt[:2], iterations[:2]
        if found == ("r=", "s=", "i=") and iterations[2:].isdecimal():
            return nonce[2:], b64decode(salt[2:], validate=True), int(iterations[2:])
    except (binascii.Error, ValueError):
        pass
    raise Rejected(f"the server's first message is none of SCRAM: {message[:100]!r}")
