"""SCRAM: keys, messages, and the server's half of an exchange (RFC 5802, RFC 7677).

Channel binding is not offered, and delegation tokens, which Kafka's clients announce by an extension, are refused.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

from msgspec import Struct

from kraft.sasl.exchange import Authenticated, Challenge, Rejected, Step

ITERATIONS_MIN: Final = 4_096
"""RFC 7677 and Kafka accept no fewer."""

ITERATIONS_MAX: Final = 16_384
"""Kafka's maximum: a client, and a broker that checks PLAIN, pays for them."""

SALT_BYTES: Final = 16

_NO_BINDING: Final = ("n", "y")
"""The client does not bind to a channel, or would if the server could."""

_ESCAPE: Final = re.compile("=(2C|3D)?")
_PRINTABLE: Final = re.compile(r"[!-+\--~]+")


class ScramMechanism(Enum):
    """The value is the mechanism's name."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"

    @property
    def hash_name(self) -> str:
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"

    @property
    def key_bytes(self) -> int:
        return hashlib.new(self.hash_name).digest_size

    def hash(self, data: bytes) -> bytes:
        return hashlib.new(self.hash_name, data).digest()

    def hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self.hash_name)


class ScramCredential(Struct, frozen=True, kw_only=True):
    """What a server keeps of a password. Whoever has it can pose as the server, but not log in."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return what the keys are derived from. Takes 1.4 to 3.2 ms for 4,096 iterations."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def credential_of(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return the credential for a salted password, Kafka's form of it."""
    client_key = mechanism.hmac(salted, b"Client Key")
    return ScramCredential(
        salt=salt,
        iterations=iterations,
        stored_key=mechanism.hash(client_key),
        server_key=mechanism.hmac(salted, b"Server Key"),
    )


def has_password(mechanism: ScramMechanism, credential: ScramCredential, password: str) -> bool:
    """Return whether the credential is of that password, in a time that does not depend on the answer."""
    salted = salted_password(mechanism, password, credential.salt, credential.iterations)
    found = credential_of(mechanism, salted, credential.salt, credential.iterations)
    return hmac.compare_digest(found.stored_key, credential.stored_key)


def has_password_in_one_time(
    mechanism: ScramMechanism, credential: ScramCredential, password: str, iterations: int
) -> bool:
    """Return the same. To find that it is not takes the same work for all users, and for those that do not exist.

    It is `iterations` of each mechanism: as many as any credential has.
    """
    if has_password(mechanism, credential, password):
        return True
    for each in ScramMechanism:
        left = iterations - credential.iterations if each is mechanism else iterations
        if left > 0:
            salted_password(each, password, credential.salt, left)
    return False


def fake_credential(mechanism: ScramMechanism, key: bytes, user: str) -> ScramCredential:
    """Return a credential of no password, always the same for a name, so that nobody finds out which users exist.

    `key` is a secret of the cluster, so that nobody else can compute the salt.
    """

    def derived(purpose: str) -> bytes:
        return mechanism.hmac(key, f"{purpose}:{mechanism.value}:{user}".encode())

    return ScramCredential(
        salt=derived("salt")[:SALT_BYTES],
        iterations=ITERATIONS_MIN,
        stored_key=derived("stored"),
        server_key=derived("server"),
    )


class ScramServer:
    """The server's half of one exchange."""

    def __init__(
        self, mechanism: ScramMechanism, nonce: str, credential_of_user: Callable[[str], ScramCredential]
    ) -> None:
        """`nonce` is the server's part, printable and without commas. An unknown user has a fake credential.

        The credential is looked up for each message: a password that was changed between them fits no more.
        """
        self._mechanism = mechanism
        self._nonce = nonce
        self._credential_of_user = credential_of_user
        self._asked: _Asked | None = None

    def received(self, message: bytes) -> Step:
        if self._asked is None:
            self._asked = self._first(message)
            return Challenge(self._asked.server_first.encode())
        return self._final(self._asked, message)

    def _first(self, message: bytes) -> _Asked:
        header, first_bare, user, client_nonce = _read_client_first(_text(message))
        credential = self._credential_of_user(user)
        nonce = client_nonce + self._nonce
        return _Asked(
            user=user,
            header=header,
            first_bare=first_bare,
            nonce=nonce,
            credential=credential,
            server_first=f"r={nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}",
        )

    def _final(self, asked: _Asked, message: bytes) -> Authenticated:
        without_proof, has_proof, proof = _text(message).rpartition(",p=")
        if not has_proof:
            raise Rejected("the last message of the client has no proof")
        binding, nonce, *_ = [*_attributes(without_proof), "", ""]
        if binding != f"c={b64encode(asked.header.encode()).decode()}":
            raise Rejected("the last message of the client binds to another channel than the first one")
        if nonce != f"r={asked.nonce}":
            # Kafka 4 refuses it, too.
            raise Rejected("the last message of the client has another nonce: librdkafka does this before 2.6.1")
        signed = f"{asked.first_bare},{asked.server_first},{without_proof}".encode()
        mechanism, credential = self._mechanism, asked.credential
        signature = mechanism.hmac(credential.stored_key, signed)
        client_key = _xor(_decoded(proof, mechanism.key_bytes), signature)
        has_password = hmac.compare_digest(mechanism.hash(client_key), credential.stored_key)
        if self._credential_of_user(asked.user) != credential or not has_password:
            raise Rejected(f"user {asked.user!r} does not exist, or has another password")
        server_signature = mechanism.hmac(credential.server_key, signed)
        return Authenticated(asked.user, b"v=" + b64encode(server_signature))


class _Asked(Struct, frozen=True, kw_only=True):
    """The first two messages."""

    user: str
    header: str
    first_bare: str
    nonce: str
    credential: ScramCredential
    server_first: str


def _read_client_first(message: str) -> tuple[str, str, str, str]:
    """Return the header, what follows it, the user and the nonce. Raises Rejected."""
    flag, authorization_id, first_bare, *_ = [*message.split(",", 2), "", ""]
    user_attribute, nonce_attribute, *extensions = [*_attributes(first_bare), "", ""]
    if flag not in _NO_BINDING or not (authorization_id == "" or authorization_id.startswith("a=")):
        raise Rejected("the first message of the client does not begin as one of SCRAM without channel binding")
    if not user_attribute.startswith("n=") or not nonce_attribute.startswith("r="):
        raise Rejected("the first message of the client has no user and nonce")
    user, client_nonce = unescaped(user_attribute[2:]), nonce_attribute[2:]
    if not user or not _PRINTABLE.fullmatch(client_nonce):
        raise Rejected("the first message of the client has no user or no nonce")
    if authorization_id and unescaped(authorization_id[2:]) != user:
        raise Rejected(
            f"user {user!r} requested another authorization id",
            told="Authentication failed: Client requested an authorization id that is different from username",
        )
    if "tokenauth=true" in extensions:
        raise Rejected(f"{user!r} logs in with a delegation token", told="Delegation tokens are not supported")
    return f"{flag},{authorization_id},", first_bare, user, client_nonce


def _attributes(message: str) -> Sequence[str]:
    return message.split(",")


def _text(message: bytes) -> str:
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise Rejected("a message of the client is not UTF-8") from None
    if "\0" in text:
        raise Rejected("a message of the client has a zero byte")
    return text


def _decoded(proof: str, size: int) -> bytes:
    try:
        decoded = b64decode(proof, validate=True)
    except (binascii.Error, ValueError):
        raise Rejected("the proof of the client is not Base64") from None
    if len(decoded) != size:
        raise Rejected(f"the proof of the client has {len(decoded)} bytes, not {size}")
    return decoded


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(left, right, strict=True))


def escaped(user: str) -> str:
    """Return the name as messages have it: `,` and `=` are escaped."""
    return user.replace("=", "=3D").replace(",", "=2C")


def unescaped(name: str) -> str:
    """Return the user's name. Raises Rejected for another `=`."""

    def character(escape: re.Match[str]) -> str:
        if escape[1] is None:
            raise Rejected("the name in a message of the client has a '=' that is no escape")
        return "," if escape[1] == "2C" else "="

    return _ESCAPE.sub(character, name)
