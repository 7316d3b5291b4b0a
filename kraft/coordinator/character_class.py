"""Sets of characters of a regular expression, such as `[a-z]`, as ranges of Unicode's numbers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, TypeAlias

from msgspec import Struct

CharacterRange: TypeAlias = tuple[int, int]
"""The numbers of the first character and of the last."""

_LAST: Final = 0x10FFFF


class CharacterClass(Struct, frozen=True):
    """A set of characters."""

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    """The last character of each range. The ranges ascend, and there are characters between them."""

    is_negated: bool = False
    ignores_case: bool = False
    """Also accepts a character whose other case is in the ranges; if negated, refuses it."""

    def accepts(self, letter: str) -> bool:
        """Return whether the character is in the set; takes about the same time for any set."""
        found = self._has(letter) or (self.ignores_case and any(map(self._has, other_cases(letter))))
        return found != self.is_negated

    @property
    def ranges(self) -> tuple[CharacterRange, ...]:
        """The ranges, as if not negated."""
        return tuple(zip(self.starts, self.ends, strict=True))

    def _has(self, letter: str) -> bool:
        place = bisect_right(self.starts, ord(letter)) - 1
        return place >= 0 and ord(letter) <= self.ends[place]


def character_class(
    ranges: Iterable[CharacterRange], *, is_negated: bool = False, ignores_case: bool = False
) -> CharacterClass:
    """Return the set of the characters in these ranges, which may overlap."""
    starts: list[int] = []
    ends: list[int] = []
    for start, end in sorted(ranges):
        if ends and start <= ends[-1] + 1:
            ends[-1] = max(ends[-1], end)
        else:
            starts.append(start)
            ends.append(end)
    return CharacterClass(tuple(starts), tuple(ends), is_negated, ignores_case)


def complement(ranges: Iterable[CharacterRange]) -> list[CharacterRange]:
    """Return the ranges of all other characters."""
    outside, next_number = [], 0
    for start, end in character_class(ranges).ranges:
        if start > next_number:
            outside.append((next_number, start - 1))
        next_number = end + 1
    return [*outside, (next_number, _LAST)] if next_number <= _LAST else outside


def one(letter: str) -> CharacterRange:
    """Return the range of one character."""
    return ord(letter), ord(letter)


def each_of(letters: str) -> list[CharacterRange]:
    """Return the ranges of these characters."""
    return [one(letter) for letter in letters]


def other_cases(letter: str) -> set[str]:
    """Return the same letter in other cases, as far as these are single characters.

    An ASCII letter has its other case in ASCII only, so not the Kelvin sign.
    """
    if letter.isascii():
        return {letter.swapcase()} - {letter}
    cases = {letter.lower(), letter.upper(), letter.upper().lower(), letter.lower().upper()} - {letter}
    return {each for each in cases if len(each) == 1 and not each.isascii()}
