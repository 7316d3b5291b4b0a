"""The access token of one login, renewed before it expires; the clients of that login take it from here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

from kraft.console.oidc.provider import Away, Refused, Tokens
from kraft.model.password import Password

RENEWED_SHARE: Final = 0.6
"""A token is renewed after this share of its life: before clients log in again with it, which they do after 0.8."""

UNKNOWN_LIFETIME_S: Final = 300.0
"""A token whose life is not known is renewed as if it had this one."""

RETRY_S: Final = 5.0
"""Pause after the provider could not be asked."""


class Renewing(Protocol):
    def refreshed(self, refresh: Password) -> Tokens: ...


class LoginEnded(Exception):
    """There is no token any more; the message is a sentence for the user."""


class AccessTokens:
    """Thread-safe; one thread renews, and others wait for it, as a refresh token may serve once only."""

    def __init__(
        self, provider: Renewing, host: str, tokens: Tokens, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._provider = provider
        self._host = host
        self._clock = clock
        self._lock = threading.Lock()
        self._next_attempt_s = 0.0
        self.ended = ""
        """Why the login has ended: a sentence for the user; empty while it goes on."""

        self._take(tokens)

    def current(self) -> str:
        """Return a token that is valid; this may block for a fetch. Raises LoginEnded."""
        with self._lock:
            if not self.ended:
                self._renew_if_due()
            if self.ended:
                raise LoginEnded(self.ended)
            return self._tokens.access.text

    def keep(self) -> None:
        """Renew the token if that is due, or note that the login has ended."""
        with self._lock:
            if not self.ended:
                self._renew_if_due()

    def _take(self, tokens: Tokens) -> None:
        now_s, lifetime_s = self._clock(), tokens.lifetime_s
        self._tokens = tokens
        self._expires_s = float("inf") if lifetime_s is None else now_s + lifetime_s
        self._due_s = now_s + RENEWED_SHARE * (UNKNOWN_LIFETIME_S if lifetime_s is None else lifetime_s)

    def _renew_if_due(self) -> None:
        now_s, reason = self._clock(), "it expired, and the provider gave no refresh token"
        if now_s < self._due_s:
            return
        if self._tokens.refresh is not None and now_s >= self._next_attempt_s:
            try:
                self._take(self._provider.refreshed(self._tokens.refresh))
                return
            except Refused as refused:
                self.ended = f"Your login has ended: {self._host} does not renew it ({refused}). Log in again."
                return
            except Away as away:
                reason = str(away)
                self._next_attempt_s = self._clock() + RETRY_S
        if self._clock() >= self._expires_s:
            self.ended = f"Your login at {self._host} has ended: it could not be renewed ({reason}). Log in again."
