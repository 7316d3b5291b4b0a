"""The interface for randomness, and the system's source."""

from __future__ import annotations

import random
from typing import Protocol
from uuid import UUID


class Entropy(Protocol):
    """Source of randomness."""

    def bytes(self, count: int) -> bytes:
        """Return random bytes, for ids."""

    def below(self, bound: int) -> int:
        """Return a random number in [0, bound)."""


def random_uuid(entropy: Entropy) -> UUID:
    return UUID(bytes=entropy.bytes(16), version=4)


class SystemEntropy:
    """The operating system's source of randomness."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)
