"""How nodes of one cluster show each other that they know its secret, without telling it.

Sans-IO: codes over bytes, and a book of the calls that were made already. `membership.proto` draws the exchange.
A code binds a call to one method, one process that answers, and one use. It does not cover what the call carries:
whoever can change the bytes of a connection on their way is kept out by TLS only.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

HEADER: Final = "kraft-introduction"
NONCE_BYTES: Final = 32
SECRET_ID_BYTES: Final = 8
PROCESS_BYTES: Final = 16
NUMBER_BYTES: Final = 8
SESSION_BYTES: Final = PROCESS_BYTES + NUMBER_BYTES

SESSIONS_MAX: Final = 4096
"""Kept apart at a time; who belongs to an older one asks for a new challenge."""

WINDOW: Final = 1024
"""Calls that are under way at once may overtake each other by this many."""

SECRET_DIFFERS: Final = (
    "its cluster secret is another one: set cluster.secret.file on both nodes, to copies of one file (unset, it is "
    "CLUSTER_ID.secret in $XDG_STATE_HOME/kraft or ~/.local/state/kraft of the node's user)"
)

SESSION_FORGOTTEN: Final = "its session is of an earlier process, or too old: it has to ask for a new challenge"
"""Callers know by these words that a new session is all that they need, so nodes of all versions use the same."""

_VERSION: Final = "1"
_PARTS: Final = 7


class Unintroduced(Exception):
    """Why a call is not taken for one of this cluster's nodes: one line, without anything secret."""


class SessionForgotten(Unintroduced):
    """The caller knows the secret, and this process does not know its session: as after each restart of this node."""

    def __init__(self) -> None:
        super().__init__(SESSION_FORGOTTEN)


@dataclass(frozen=True, slots=True)
class Secret:
    """One shared secret, and the public name under which both sides speak of it."""

    key: bytes
    secret_id: bytes


class ClusterSecrets:
    """What `cluster.secret.file` holds: the first is spoken, each is understood, so that one can replace another."""

    def __init__(self, secrets: Sequence[bytes]) -> None:
        assert secrets, "a cluster's secrets are at least one"
        known = [_secret(text) for text in secrets]
        self.spoken = known[0]
        self._by_id = {secret.secret_id: secret for secret in known}

    def find(self, secret_id: bytes) -> Secret | None:
        return self._by_id.get(secret_id)


def _secret(text: bytes) -> Secret:
    key = hashlib.sha256(b"kraft cluster secret\0" + text).digest()
    return Secret(key, _code(key, b"id")[:SECRET_ID_BYTES])


def _code(key: bytes, *fields: bytes) -> bytes:
    """Each field with its length before it, so that no two lists of fields make the same bytes."""
    return hmac.new(key, b"".join(len(field).to_bytes(4, "big") + field for field in fields), hashlib.sha256).digest()


def prove(secret: Secret, nonce: bytes, session: bytes) -> bytes:
    """The answering node's proof to whoever drew the nonce."""
    return _code(secret.key, b"answer", nonce, session)


def is_proof(secret: Secret, nonce: bytes, session: bytes, proof: bytes) -> bool:
    return hmac.compare_digest(prove(secret, nonce, session), proof)


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduction:
    """Who calls, and which call it is."""

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
        """The introduction of a call, its code verified. Raises Unintroduced."""
        parts = header.split(" ")
        if len(parts) != _PARTS or parts[0] != _VERSION:
            raise Unintroduced("its introduction is not of this version")
        try:
            secret_id, session, code = (bytes.fromhex(parts[index]) for index in (1, 4, 6))
            introduction = cls(cluster_id=parts[2], node_id=int(parts[3]), session=session, count=int(parts[5]))
        except ValueError:
            raise Unintroduced("its introduction is garbled") from None
        secret = secrets.find(secret_id)
        if secret is None or not hmac.compare_digest(introduction._code(secret, method), code):
            raise Unintroduced(SECRET_DIFFERS)
        return introduction


class SessionBook:
    """Which calls were made, in the sessions of one process: none counts twice.

    A session costs nothing until the first sound introduction in it, so that strangers cannot fill the book.
    """

    def __init__(self, process: bytes) -> None:
        assert len(process) == PROCESS_BYTES, "a process has 16 bytes of chance"
        self._process = process
        self._opened = 0
        self._forgotten = 0
        self._calls: dict[int, _Calls] = {}

    def open(self) -> bytes:
        """A new session."""
        self._opened += 1
        return self._process + self._opened.to_bytes(NUMBER_BYTES, "big")

    def admit(self, introduction: Introduction) -> None:
        """Raises SessionForgotten when the session is of another process or too old, and Unintroduced for a call that
        was made before, or in a session that nobody opened.
        """
        session = introduction.session
        number = int.from_bytes(session[PROCESS_BYTES:], "big")
        if len(session) != SESSION_BYTES:
            raise Unintroduced("its session is garbled")
        if not hmac.compare_digest(session[:PROCESS_BYTES], self._process):
            raise SessionForgotten
        if not 0 < number <= self._opened:
            raise Unintroduced("its session was never opened")
        if number <= self._forgotten:
            raise SessionForgotten
        calls = self._calls.setdefault(number, _Calls())
        if not calls.is_first(introduction.count):
            raise Unintroduced("a call was repeated by somebody")
        if len(self._calls) > SESSIONS_MAX:
            self._forgotten = min(self._calls)
            del self._calls[self._forgotten]


class _Calls:
    """The highest number so far, and a bit for each of the WINDOW numbers from there down."""

    def __init__(self) -> None:
        self._highest = 0
        self._seen = 0

    def is_first(self, count: int) -> bool:
        if count > self._highest:
            # A leap beyond the window forgets all of it, so the shift need not be any longer.
            self._seen = (self._seen << min(count - self._highest, WINDOW) | 1) & ((1 << WINDOW) - 1)
            self._highest = count
            return True
        bit = 1 << (self._highest - count) if count > 0 and self._highest - count < WINDOW else 0
        if bit == 0 or self._seen & bit:
            return False
        self._seen |= bit
        return True
