"""How fast connections may be opened: in all, and of one address whose clients have to log in.

Pure. Beyond `max.connection.creation.rate` connections wait to be accepted, as in Kafka. Beyond the rate of one address
those of that address are closed at once, before they cost a hundredth of a login, and the others do not wait.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Final

ADDRESS_PER_SECOND: Final = 250
ADDRESS_BURST: Final = 1_000
"""Connections that one address may open at once where clients log in, and then in each second. An application's
instances behind one address log in at once after a restart; a login takes up to a millisecond of the loop, so one
address gets a quarter of it.
"""

FAILURE_COST: Final = 10
"""A connection that ends without login counts as so many: an address tries no more than 25 passwords in a second."""

ADDRESSES_MAX: Final = 10_000
"""Addresses that are remembered. One that is forgotten may open a burst again."""


class Allowance:
    """So many in each second, and as many at once as `burst`."""

    def __init__(self, per_second: float, burst: float, now_s: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._left = burst
        self._at_s = now_s

    def take(self, now_s: float) -> bool:
        """Take one. Return False if none is left."""
        self._refill(now_s)
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def charge(self, count: float, now_s: float) -> None:
        """Take so many, also those that come later: at most as many as `burst` in advance."""
        self._refill(now_s)
        self._left = max(self._left - count, -self._burst)

    def wait_s(self, now_s: float) -> float:
        """Return the time until one is left."""
        self._refill(now_s)
        if self._left >= 1:
            return 0.0
        return (1 - self._left) / self._per_second if self._per_second else math.inf

    def _refill(self, now_s: float) -> None:
        self._left = min(self._burst, self._left + (now_s - self._at_s) * self._per_second)
        self._at_s = now_s


class AddressRates:
    """The allowance of each address that opened a connection lately."""

    def __init__(self, per_second: float = ADDRESS_PER_SECOND, burst: float = ADDRESS_BURST) -> None:
        self._per_second = per_second
        self._burst = burst
        self._allowances: OrderedDict[str, Allowance] = OrderedDict()

    def take(self, address: str, now_s: float) -> bool:
        """Return whether the address may open one more connection."""
        return self._allowance(address, now_s).take(now_s)

    def failed(self, address: str, now_s: float) -> None:
        """Note that a connection of the address ended without login."""
        self._allowance(address, now_s).charge(FAILURE_COST, now_s)

    def _allowance(self, address: str, now_s: float) -> Allowance:
        allowance = self._allowances.pop(address, None) or Allowance(self._per_second, self._burst, now_s)
        self._allowances[address] = allowance
        if len(self._allowances) > ADDRESSES_MAX:
            self._allowances.popitem(last=False)
        return allowance
