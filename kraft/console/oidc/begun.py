"""Logins that have begun: what goes to the provider and comes back is bound to one browser, and nothing is kept.

A random secret is in a cookie of the browser. State, nonce and PKCE's verifier follow from it and from the key of this
process, so that strangers who begin logins take no memory, and a state is worth nothing in another browser.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Final

import msgspec
from msgspec import Struct

from kraft.console import protection

LIFE_S: Final = 600
"""Longest time at the provider, from the console to its callback."""

_NEXT_LENGTH_MAX: Final = 500
_STATE_LENGTH_MAX: Final = 2_000


class Begun(Struct, frozen=True, kw_only=True, array_like=True):
    """One login on its way."""

    cluster: str
    after: str
    """The page that it leads to."""

    handle: str
    """The session of before, which gets another login; empty: none."""

    begun_s: int
    chance: str

    def state(self, key: bytes, browser: str) -> str:
        text = _text(msgspec.json.encode(self))
        return f"{text}.{_derived(key, 'state', browser, text)}"

    def nonce(self, key: bytes, browser: str) -> str:
        return _derived(key, "nonce", browser, _text(msgspec.json.encode(self)))

    def verifier(self, key: bytes, browser: str) -> str:
        return _derived(key, "verifier", browser, _text(msgspec.json.encode(self)))


class NotBegunHere(Exception):
    """The state is of another browser or another process, too old, or of nobody."""


def begun(cluster: str, after: str, handle: str, now_s: int, chance: str) -> Begun:
    safe = protection.safe_next(after)
    return Begun(
        cluster=cluster,
        after=safe if len(safe) <= _NEXT_LENGTH_MAX else "/",
        handle=handle,
        begun_s=now_s,
        chance=chance,
    )


def begun_of(state: str, key: bytes, browser: str, now_s: int) -> Begun:
    """Return the login that this browser began with the state. Raises NotBegunHere."""
    text, _, _ = state.partition(".")
    if not browser or len(state) > _STATE_LENGTH_MAX or not state.isascii():
        raise NotBegunHere
    if not protection.is_same(state, f"{text}.{_derived(key, 'state', browser, text)}"):
        raise NotBegunHere
    found = msgspec.json.decode(base64.urlsafe_b64decode(text), type=Begun)
    if not 0 <= now_s - found.begun_s <= LIFE_S:
        raise NotBegunHere
    return found


def challenge(verifier: str) -> str:
    """Return the challenge of PKCE by S256 (RFC 7636)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def _text(encoded: bytes) -> str:
    return base64.urlsafe_b64encode(encoded).decode()


def _derived(key: bytes, purpose: str, browser: str, text: str) -> str:
    return hmac.new(key, f"{purpose}\0{browser}\0{text}".encode(), hashlib.sha256).hexdigest()
