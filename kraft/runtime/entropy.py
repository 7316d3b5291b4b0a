"""The interface for randomness, and the system's source."""

from __future__ import annotations

import random
from typing import Protocol


class Entropy(Protocol):
    """Source of randomness."""

    def bytes(self, count: int) -> bytes:
        """Return random bytes, for ids."""

    def below(self, bound: int) -> int:
        """Return a random number in [0, bound)."""


class SystemEntropy:
    """The operating system's source of randomness."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)
