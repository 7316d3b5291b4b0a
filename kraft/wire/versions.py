"""Version ranges in the notation of Kafka's message definitions: `3-13`, `9+`, `2`, `none`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

VERSION_MAX: Final = 0x7FFF
"""Versions are int16 on the wire."""


class Versions(Struct, frozen=True):
    """Range of versions from `first` to `last`, both included; empty if `first` is greater."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Parse a range. Raises ValueError if the text is not in the notation."""
        if text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), VERSION_MAX)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1))

    def __str__(self) -> str:
        if self.first > self.last:
            return "none"
        if self.last == VERSION_MAX:
            return f"{self.first}+"
        return f"{self.first}-{self.last}" if self.first < self.last else str(self.first)


EVERY_VERSION: Final = Versions(0, VERSION_MAX)
NO_VERSION: Final = Versions(0, -1)
