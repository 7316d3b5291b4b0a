"""Limits of logins: who guesses passwords waits longer and longer, by address and by user."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final

WITHIN_MS: Final = 60_000
OF_USER_MAX: Final = 5
"""Attempts for one user of a cluster within a minute that were refused, or are not answered yet."""

OF_ADDRESS_MAX: Final = 20
"""Likewise from one address, whoever the user is."""

REMEMBERED_MAX: Final = 10_000
"""Users and addresses that are remembered; the one without an attempt for the longest time is forgotten first."""


class LoginLimits:
    def __init__(self) -> None:
        self._attempts: OrderedDict[tuple[str, ...], deque[int]] = OrderedDict()

    def wait_ms(self, address: str, cluster: str, user: str, now_ms: int) -> int:
        """Return how long to wait before the next attempt; 0: it may be made now, and counts.

        The user is empty where somebody else asks for the password.
        """
        limits: dict[tuple[str, ...], int] = {("address", address): OF_ADDRESS_MAX}
        if user:
            limits["user", cluster, user] = OF_USER_MAX
        waits = [self._wait_ms(key, most, now_ms) for key, most in limits.items()]
        if longest := max(waits):
            return longest
        for key in limits:
            self._attempts.setdefault(key, deque()).append(now_ms)
            self._attempts.move_to_end(key)
        while len(self._attempts) > REMEMBERED_MAX:
            self._attempts.popitem(last=False)
        return 0

    def succeeded(self, address: str, cluster: str, user: str) -> None:
        """Take back the last attempt: whoever knows the password does not guess."""
        for key in (("address", address), ("user", cluster, user)):
            attempts = self._attempts.get(key)
            if attempts:
                attempts.pop()

    def _wait_ms(self, key: tuple[str, ...], most: int, now_ms: int) -> int:
        attempts = self._attempts.get(key)
        if attempts is None:
            return 0
        while attempts and now_ms - attempts[0] >= WITHIN_MS:
            attempts.popleft()
        return attempts[0] + WITHIN_MS - now_ms if len(attempts) >= most else 0
