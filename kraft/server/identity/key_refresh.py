"""When the keys of an authorization server are fetched: now and then, again after a failure, and for an unknown key.

A stranger can name any key, so that unknown keys bring at most one fetch in a while.
"""

from __future__ import annotations

from typing import Final

UNKNOWN_KEY_PAUSE_MS: Final = 10_000
"""A key that is not known brings a fetch if the last one ended at least this long ago."""

LOGGED_AGAIN_AFTER_MS: Final = 60_000
"""Failures that follow each other are logged once in this time."""

_DOUBLINGS_MAX: Final = 30


class KeyRefresh:
    def __init__(self, *, refresh_ms: int, backoff_ms: int, backoff_ms_max: int, now_ms: int) -> None:
        self._refresh_ms = refresh_ms
        self._backoff_ms = backoff_ms
        self._backoff_ms_max = max(backoff_ms, backoff_ms_max)
        self._failures = 0
        self._ended_ms = now_ms
        self._logged_ms: int | None = None
        self.due_ms = now_ms
        """When the keys are to be fetched next."""

    def succeeded(self, now_ms: int) -> None:
        self._failures, self._logged_ms = 0, None
        self._ended_ms = now_ms
        self.due_ms = now_ms + self._refresh_ms

    def failed(self, now_ms: int) -> bool:
        """Return whether the failure is to be logged."""
        pause_ms = self._backoff_ms << min(self._failures, _DOUBLINGS_MAX)
        self._failures += 1
        self._ended_ms = now_ms
        self.due_ms = now_ms + min(pause_ms, self._backoff_ms_max)
        if self._logged_ms is not None and now_ms - self._logged_ms < LOGGED_AGAIN_AFTER_MS:
            return False
        self._logged_ms = now_ms
        return True

    def unknown_key(self, now_ms: int) -> bool:
        """Return whether a key that is not known makes a fetch due now. After a failure it does not."""
        if self._failures or now_ms - self._ended_ms < UNKNOWN_KEY_PAUSE_MS:
            return False
        self.due_ms = min(self.due_ms, now_ms)
        return True
