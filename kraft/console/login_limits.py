"""Limits of logins: who guesses passwords waits, by address, by user at an address, and by user from everywhere.

Wrong passwords from one address keep nobody else out. Those from many addresses keep a user waiting only at addresses
from which this user has not logged in yet: so whoever knows the user's name cannot lock the user out at the own desk.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final

WITHIN_MS: Final = 60_000
OF_USER_MAX: Final = 5
"""Attempts for one user of a cluster, from one address, within a minute that were refused, or are not answered yet."""

OF_USER_EVERYWHERE_MAX: Final = 20
"""Likewise from all addresses together from which the user has not logged in before."""

OF_ADDRESS_MAX: Final = 20
"""Likewise from one address, whoever the user is."""

REMEMBERED_MAX: Final = 10_000
"""Users and addresses that are remembered; the one without an attempt for the longest time is forgotten first. As many
places where somebody has logged in are remembered as well."""


class LoginLimits:
    def __init__(self) -> None:
        self._attempts: OrderedDict[tuple[str, ...], deque[int]] = OrderedDict()
        self._known: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        """Address, cluster and user of logins that were right."""

    def wait_ms(self, address: str, cluster: str, user: str, now_ms: int) -> int:
        """Return how long to wait before the next attempt; 0: it may be made now, and counts.

        The user is empty where somebody else asks for the password.
        """
        limits = self._limits(address, cluster, user)
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
        """Take back the last attempt: whoever knows the password does not guess, here and from now on."""
        self.unanswered(address, cluster, user)
        if user:
            self._known[address, cluster, user] = None
            self._known.move_to_end((address, cluster, user))
            while len(self._known) > REMEMBERED_MAX:
                self._known.popitem(last=False)

    def unanswered(self, address: str, cluster: str, user: str) -> None:
        """Take back the last attempt, as nobody said whether it was right."""
        for key in self._limits(address, cluster, user):
            attempts = self._attempts.get(key)
            if attempts:
                attempts.pop()

    def _limits(self, address: str, cluster: str, user: str) -> dict[tuple[str, ...], int]:
        """Return what an attempt counts for, and how often each may."""
        limits: dict[tuple[str, ...], int] = {("address", address): OF_ADDRESS_MAX}
        if user:
            limits["user", address, cluster, user] = OF_USER_MAX
            if (address, cluster, user) not in self._known:
                limits["user", cluster, user] = OF_USER_EVERYWHERE_MAX
        return limits

    def _wait_ms(self, key: tuple[str, ...], most: int, now_ms: int) -> int:
        attempts = self._attempts.get(key)
        if attempts is None:
            return 0
        while attempts and now_ms - attempts[0] >= WITHIN_MS:
            attempts.popleft()
        return attempts[0] + WITHIN_MS - now_ms if len(attempts) >= most else 0
