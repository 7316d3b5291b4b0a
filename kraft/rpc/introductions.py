"""Mutual proof that two nodes know their cluster's secret, without sending it.

Sans-IO: message authentication codes, and a record of the calls that were made. `membership.proto` shows the exchange.
A code binds a call to one method, one answering process and one use. It does not cover the content of the call: only
TLS protects against someone who can change bytes on the network.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

HEADER: Final = "kraft-introduction"
NONCE_BYTES: Final = 32
SECRET_ID_BYTES: Final = 8
PROCESS_BYTES: Final = 16
NUMBER_BYTES: Final = 8
SESSION_BYTES: Final = PROCESS_BYTES + NUMBER_BYTES

SESSIONS_MAX: Final = 4096
"""Sessions remembered at a time. A peer with an older one has to ask for a new challenge."""

WINDOW: Final = 1024
"""Concurrent calls may arrive out of order by this many."""

SECRET_DIFFERS: Final = (
    "its cluster secret differs: set cluster.secret.file on both nodes to copies of one file (by default it is "
    "CLUSTER_ID.secret in $XDG_STATE_HOME/kraft or ~/.local/state/kraft of the node's user)"
)
"""Callers with several secrets recognise this exact text and try another, so it must be the same in all versions."""

CLUSTER_ID_CHARACTERS_MAX: Final = 64


def cluster_differs(own: str, theirs: str) -> str:
    """Return the reason why a node of cluster `theirs` is refused, for the logs of both nodes."""
    return (
        f"cluster.id differs: the caller's is {theirs[:CLUSTER_ID_CHARACTERS_MAX]!r}, that of the node it called is"
        f" {own!r}: a node belongs to one cluster, so correct its file, or format it for this cluster"
    )


SESSION_FORGOTTEN: Final = "its session is of an earlier process, or too old: it has to ask for a new challenge"
"""Callers recognise this exact text and open a new session, so it must be the same in all versions."""

_VERSION: Final = "1"
_PARTS: Final = 7


class Unintroduced(Exception):
    """A call is not proven to come from a node of this cluster. The text is one line without anything secret."""


class SessionForgotten(Unintroduced):
    """The caller knows the secret, but this process does not know its session, as after a restart of this node."""

    def __init__(self) -> None:
        super().__init__(SESSION_FORGOTTEN)


class Secret(Struct, frozen=True):
    """A shared secret, and the public id by which both sides refer to it."""

    key: bytes
    secret_id: bytes


class ClusterSecrets:
    """Secrets in `cluster.secret.file`: the first is used, all are accepted, so that one can replace another."""

    def __init__(self, secrets: Sequence[bytes]) -> None:
        assert secrets, "a cluster has at least one secret"
        self.known: Sequence[Secret] = [_secret(text) for text in secrets]
        self.generation = 0
        """Counts how often they were replaced."""

    @property
    def primary(self) -> Secret:
        return self.known[0]

    def find(self, secret_id: bytes) -> Secret | None:
        return next((secret for secret in self.known if secret.secret_id == secret_id), None)

    def replace(self, found: ClusterSecrets) -> bool:
        """Use and accept those that were found from now on; return False if they are the same."""
        if found.known == self.known:
            return False
        self.known = found.known
        self.generation += 1
        return True


def _secret(text: bytes) -> Secret:
    key = hashlib.sha256(b"kraft cluster secret\0" + text).digest()
    return Secret(key, _code(key, b"id")[:SECRET_ID_BYTES])


def _code(key: bytes, *fields: bytes) -> bytes:
    """Return a code over the fields, each with its length, so that different lists never give the same bytes."""
    return hmac.new(key, b"".join(len(field).to_bytes(4, "big") + field for field in fields), hashlib.sha256).digest()


def prove(secret: Secret, nonce: bytes, session: bytes) -> bytes:
    """Return the answering node's proof for the caller's nonce."""
    return _code(secret.key, b"answer", nonce, session)


def prove_connection(secret: Secret, nonce: bytes, session: bytes) -> bytes:
    """Return the answering node's proof for a connection on which a caller of the session introduced itself."""
    return _code(secret.key, b"connection", nonce, session)


def is_proof(secret: Secret, nonce: bytes, session: bytes, proof: bytes) -> bool:
    return hmac.compare_digest(prove(secret, nonce, session), proof)


class Introduction(Struct, frozen=True, kw_only=True):
    """Caller of one call, and the number of the call in its session."""

    cluster_id: str
    node_id: int
    session: bytes
    count: int

    def to_header(self, secret: Secret, method: str) -> str:
        named = (self.cluster_id, str(self.node_id), self.session.hex(), str(self.count))
        return " ".join((_VERSION, secret.secret_id.hex(), *named, self._code(secret, method).hex()))

    def _code(self, secret: Secret, method: str) -> bytes:
        named = (method, self.cluster_id, str(self.node_id), self.session.hex(), str(self.count))
        return _code(secret.key, b"call", *(field.encode() for field in named))

    @classmethod
    def from_header(cls, secrets: ClusterSecrets, method: str, header: str) -> Introduction:
        """Parse the introduction of a call and verify its code. Raises Unintroduced."""
        parts = header.split(" ")
        if len(parts) != _PARTS or parts[0] != _VERSION:
            raise Unintroduced("its introduction has an unknown version")
        try:
            secret_id, session, code = (bytes.fromhex(parts[index]) for index in (1, 4, 6))
            introduction = cls(cluster_id=parts[2], node_id=int(parts[3]), session=session, count=int(parts[5]))
        except ValueError:
            raise Unintroduced("its introduction cannot be parsed") from None
        secret = secrets.find(secret_id)
        if secret is None or not hmac.compare_digest(introduction._code(secret, method), code):
            raise Unintroduced(SECRET_DIFFERS)
        return introduction


def secret_of(secrets: ClusterSecrets, header: str) -> Secret:
    """Return the secret that a verified introduction uses."""
    secret = secrets.find(bytes.fromhex(header.split(" ")[1]))
    assert secret is not None, "the introduction was verified with it"
    return secret


class SessionBook:
    """Calls made in the sessions of one process, so that none is admitted twice.

    A session takes no memory until its first valid introduction, so that strangers cannot fill the book.
    """

    def __init__(self, process: bytes) -> None:
        assert len(process) == PROCESS_BYTES, "a process has 16 random bytes"
        self._process = process
        self._opened = 0
        self._forgotten = 0
        self._calls: dict[int, _CallWindow] = {}

    def open(self) -> bytes:
        """Return a new session."""
        self._opened += 1
        return self._process + self._opened.to_bytes(NUMBER_BYTES, "big")

    def admit(self, introduction: Introduction) -> None:
        """Admit a call once. Raises SessionForgotten if its session is of another process or too old, and Unintroduced
        for a repeated call or a session that was never opened.
        """
        session = introduction.session
        number = int.from_bytes(session[PROCESS_BYTES:], "big")
        if len(session) != SESSION_BYTES:
            raise Unintroduced("its session has the wrong length")
        if not hmac.compare_digest(session[:PROCESS_BYTES], self._process):
            raise SessionForgotten
        if not 0 < number <= self._opened:
            raise Unintroduced("its session was never opened")
        if number <= self._forgotten:
            raise SessionForgotten
        calls = self._calls.setdefault(number, _CallWindow())
        if not calls.is_first(introduction.count):
            raise Unintroduced("the call was repeated, by the node or by someone who recorded it")
        if len(self._calls) > SESSIONS_MAX:
            self._forgotten = min(self._calls)
            del self._calls[self._forgotten]


class _CallWindow:
    """Numbers of the calls of one session: the highest, and a bit for each of the WINDOW numbers up to it."""

    def __init__(self) -> None:
        self._highest = 0
        self._seen = 0

    def is_first(self, count: int) -> bool:
        if count > self._highest:
            # A jump beyond the window clears all bits, so the shift need not be longer.
            self._seen = (self._seen << min(count - self._highest, WINDOW) | 1) & ((1 << WINDOW) - 1)
            self._highest = count
            return True
        bit = 1 << (self._highest - count) if count > 0 and self._highest - count < WINDOW else 0
        if bit == 0 or self._seen & bit:
            return False
        self._seen |= bit
        return True
