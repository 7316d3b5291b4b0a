"""Randomness, as an argument."""

from __future__ import annotations

import random
from typing import Protocol


class Entropy(Protocol):
    def bytes(self, count: int) -> bytes:
        """Random bytes, for ids."""

    def below(self, bound: int) -> int:
        """A number in [0, bound)."""


class SystemEntropy:
    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)
