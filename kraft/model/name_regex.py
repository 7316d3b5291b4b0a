r"""Regular expressions for names of topics and transactional ids, matched by RE2.

Kafka uses RE2J, the same library in Java. RE2 takes time in proportion to the name and to the expression, and memory
within a limit; Python's own expressions may take exponential time, during which a broker would answer nobody. Other
threads run while a name is matched. As in Kafka, an expression matches whole names. See
docs/adr/0049-names-are-matched-by-re2.md.
"""

from __future__ import annotations

import re
from typing import Final

import re2

LENGTH_MAX: Final = 1_024
"""Limit on the characters of an expression: to read it takes time even if it is not valid."""

UNICODE_CLASSES_MAX: Final = 100
r"""Limit on classes such as \pL in an expression, which take more time to read than all else: 15 ms for this number."""

MEMORY_MAX: Final = 256 << 10
"""Limit on the bytes of a compiled expression, and of what is remembered of its matches."""

_UNICODE_CLASS: Final = re.compile(r"\\[pP]")
_SHOWN_MAX: Final = 60


def _options() -> re2.Options:
    options = re2.Options()
    options.max_mem = MEMORY_MAX
    # It would write to standard error.
    options.log_errors = False
    # Where groups are in a name is of no interest, and takes longer to find.
    options.never_capture = True
    return options


_OPTIONS: Final = _options()


class InvalidRegex(ValueError):
    """The text is not a regular expression, or exceeds a limit."""


class NameRegex:
    """A regular expression that matches names. Raises InvalidRegex."""

    def __init__(self, text: str) -> None:
        if len(text) > LENGTH_MAX:
            raise InvalidRegex(f"it has {len(text)} characters, and may have {LENGTH_MAX}")
        if len(_UNICODE_CLASS.findall(text)) > UNICODE_CLASSES_MAX:
            raise InvalidRegex(rf"it has more than {UNICODE_CLASSES_MAX} classes such as \pL")
        try:
            self._compiled = re2.compile(text.encode(), _OPTIONS)
        except re2.error as error:
            raise InvalidRegex(_shown(error.args[0].decode(errors="replace"))) from None

    def matches(self, name: str) -> bool:
        """Return whether the expression matches the whole name."""
        return self._compiled.fullmatch(name.encode()) is not None


def regex_error(text: str) -> str | None:
    """Return what is wrong with a regular expression, in a sentence; None if it is valid."""
    try:
        NameRegex(text)
    except InvalidRegex as error:
        return f"the regular expression {_shown(text)!r} is not valid: {error}"
    return None


def _shown(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_SHOWN_MAX])
