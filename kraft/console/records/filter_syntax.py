"""The words of a filter: text to tokens, each with its place for the sentence that says what is wrong."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from msgspec import Struct

from kraft.console.forms import WrongInput
from kraft.model.printable import printable

LENGTH_MAX: Final = 1_000
TOKENS_MAX: Final = 300

WORDS: Final = frozenset({"and", "or", "not", "exists", "contains", "starts", "ends", "with", "matches", "in"})
CONSTANTS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None}

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\]|\\.)*")"""
    r"""|(?P<number>-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)"""
    r"""|(?P<name>[^\W0-9]\w*(?:-\w+)*)"""
    r"""|(?P<sign>==|!=|<=|>=|[<>()\[\],.]))"""
)
"""Each alternative begins with other characters, and none repeats what repeats: nothing is tried twice."""


class WrongFilter(WrongInput):
    """The filter cannot be read: one sentence that says where, and what was expected."""


class Token(Struct, frozen=True):
    kind: str
    """string, number, name, sign or end."""

    text: str
    at: int
    """Characters before it."""

    value: Any = None
    """What a string or a number says."""

    @property
    def word(self) -> str:
        """Return the name or the sign; nothing for a string, whatever it says."""
        return self.text if self.kind in ("name", "sign") else ""


def tokens_of(text: str) -> list[Token]:
    """Return the tokens, and one for the end. Raises WrongFilter."""
    if len(text) > LENGTH_MAX:
        raise WrongFilter(f"the filter has {len(text):,} characters, and may have {LENGTH_MAX:,}")
    found: list[Token] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at, end)
        if match is None:
            raise wrong(text, at + len(text[at:]) - len(text[at:].lstrip()), "this is no part of a filter")
        kind = match.lastgroup or ""
        found.append(Token(kind, match[kind], match.start(kind), _value(text, kind, match[kind], match.start(kind))))
        if len(found) > TOKENS_MAX:
            raise WrongFilter(f"the filter has more than {TOKENS_MAX} words and signs")
        at = match.end()
    return [*found, Token("end", "", end)]


def _value(text: str, kind: str, part: str, at: int) -> Any:
    if kind not in ("string", "number"):
        return None
    try:
        return msgspec.json.decode(part)
    except msgspec.DecodeError:
        what = "numbers and strings are written as in JSON"
        raise wrong(text, at, what) from None


def wrong(text: str, at: int, what: str) -> WrongFilter:
    near = printable(text[at : at + 20])
    place = f"at character {at + 1}, near {near!r}" if near else "at its end"
    return WrongFilter(f"the filter is wrong {place}: {what}")
