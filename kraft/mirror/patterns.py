"""Which topics and groups a mirror takes: lists of regular expressions, as in MirrorMaker's file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

_STAR: Final = re.compile(r"(^|[|(])\*")
"""A star with nothing before it, which no regular expression has."""


class InvalidPattern(ValueError):
    """A pattern that is no regular expression; the message is one line."""


class Chosen(Struct, frozen=True, kw_only=True):
    """Names that match a pattern of `taken`, and none of `left_out`."""

    taken: tuple[re.Pattern[str], ...]
    left_out: tuple[re.Pattern[str], ...] = ()

    def has(self, name: str) -> bool:
        return _any(self.taken, name) and not _any(self.left_out, name)


def patterns(text: str) -> tuple[re.Pattern[str], ...]:
    """Return the patterns of a comma-separated list; a star alone, or at the beginning, means `.*`.

    Raises InvalidPattern.
    """
    return tuple(_pattern(each) for each in plain_list(text))


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
