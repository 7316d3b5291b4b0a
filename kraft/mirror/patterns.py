"""Which topics and groups a mirror takes: lists of regular expressions, as in MirrorMaker's file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

_STAR: Final = re.compile(r"(^|[|(])\*")
"""A star with nothing before it, which no regular expression has."""

_FIXED: Final = re.compile(r"([A-Za-z0-9_-])|\\([._-])|(\.)")
"""What stands for exactly one character of a name: the character itself, or a dot for any."""

_ANY: Final = ""


class InvalidPattern(ValueError):
    """A pattern that is no regular expression; the message is one line."""


class Chosen(Struct, frozen=True, kw_only=True):
    """Names that match a pattern of `taken`, and none of `left_out`."""

    taken: tuple[re.Pattern[str], ...]
    left_out: tuple[re.Pattern[str], ...] = ()

    def has(self, name: str) -> bool:
        return _any(self.taken, name) and not _any(self.left_out, name)

    def is_apart(self, other: Chosen) -> bool:
        """Return whether it is certain that no name is chosen by both; False where that is not known."""
        left_out = {each.pattern for each in (*self.left_out, *other.left_out)}
        ours, theirs = (
            [_beginning(each.pattern) for each in some.taken if each.pattern not in left_out] for some in (self, other)
        )
        return all(_differ(mine, its) for mine in ours for its in theirs)


def patterns(text: str) -> tuple[re.Pattern[str], ...]:
    """Return the patterns of a comma-separated list; a star alone, or at the beginning, means `.*`.

    Raises InvalidPattern.
    """
    return compiled(plain_list(text))


def compiled(some: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    """Return these patterns, compiled. Raises InvalidPattern."""
    return tuple(_pattern(each) for each in some)


def plain_list(text: str) -> Iterator[str]:
    """Yield the elements of a comma-separated list."""
    return (each.strip() for each in text.split(",") if each.strip())


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(_STAR.sub(r"\1.*", text))
    except re.error as error:
        raise InvalidPattern(f"{text!r} is no regular expression: {error.msg}") from None


def _any(some: tuple[re.Pattern[str], ...], name: str) -> bool:
    return any(each.fullmatch(name) for each in some)


def _beginning(pattern: str) -> tuple[list[str], bool]:
    """Return the first characters of all names that match, as far as they are certain, and whether these are all."""
    found: list[str] = []
    position = 0
    if "|" in pattern:
        return found, False
    while match := _FIXED.match(pattern, position):
        if pattern[match.end() : match.end() + 1] in ("*", "+", "?", "{"):
            break
        found.append(match[1] or match[2] or _ANY)
        position = match.end()
    return found, position == len(pattern)


def _differ(mine: tuple[list[str], bool], its: tuple[list[str], bool]) -> bool:
    """Return whether names with these beginnings are never the same."""
    for (short, is_all), (long, _) in ((mine, its), (its, mine)):
        if is_all and len(short) < len(long):
            return True
    return any(one != other and _ANY not in (one, other) for one, other in zip(mine[0], its[0], strict=False))
