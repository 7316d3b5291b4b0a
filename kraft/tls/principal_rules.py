r"""Which name of a principal stands for the owner of a certificate: `ssl.principal.mapping.rules` (KIP-371).

A list of `DEFAULT` and `RULE:pattern/replacement/` with L or U behind it for lower or upper case. The first rule whose
pattern matches the whole distinguished name decides. `\/` is a slash in a pattern or a replacement, `$1` what the
pattern's first group matched. Patterns are RE2's, as those of names of topics: see
docs/adr/0049-names-are-matched-by-re2.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import re2
from msgspec import Struct

_DEFAULT: Final = "DEFAULT"
_RULE: Final = "RULE:"
_CASES: Final[dict[str, Callable[[str], str]]] = {"L": str.lower, "U": str.upper}

_PART: Final = re.compile(r"((?:\\.|[^\\/])*)/")
_REPLACED: Final = re.compile(r"\\(.)|\$(\d+)")


class InvalidPrincipalRules(ValueError):
    """The text is no list of rules. It is one line with the remedy."""


class NoPrincipal(Exception):
    """No rule matches, or there is no name that could. The text is one line."""


class _Rule(Struct, frozen=True):
    pattern: str
    replacement: str
    change_case: Callable[[str], str]

    def name(self, distinguished_name: str) -> str | None:
        compiled = re2.compile(self.pattern)
        if compiled.fullmatch(distinguished_name) is None:
            return None
        named: str = compiled.sub(lambda match: _replacement(self.replacement, match), distinguished_name)
        return self.change_case(named)


class PrincipalRules:
    def __init__(self, text: str) -> None:
        """Raises InvalidPrincipalRules."""
        self._rules = _parse(text)

    def name(self, distinguished_name: str) -> str:
        """Return the principal's name. Raises NoPrincipal."""
        for rule in self._rules:
            named = distinguished_name if rule is None else rule.name(distinguished_name)
            if named is not None:
                return named
        raise NoPrincipal(f"no rule of ssl.principal.mapping.rules matches {distinguished_name!r}")


def _parse(text: str) -> list[_Rule | None]:
    """Return the rules in their order, None for DEFAULT."""
    rules: list[_Rule | None] = []
    at = 0
    while at < len(text):
        if text[at] == "," or text[at].isspace():
            at += 1
            continue
        begin = at
        if text.startswith(_DEFAULT, at):
            at += len(_DEFAULT)
            rules.append(None)
        elif text.startswith(_RULE, at):
            pattern, at = _part(text, at + len(_RULE), begin)
            replacement, at = _part(text, at, begin)
            change_case = _CASES.get(text[at : at + 1])
            at += change_case is not None
            rules.append(_Rule(_valid(pattern), replacement, change_case or _unchanged))
        else:
            raise _invalid(text, begin)
        if text[at:].lstrip()[:1] not in ("", ","):
            raise _invalid(text, begin)
    return rules


def _part(text: str, at: int, begin: int) -> tuple[str, int]:
    """Return what stands before the next slash, and where the text goes on behind it."""
    found = _PART.match(text, at)
    if found is None:
        raise _invalid(text, begin)
    return found[1], found.end()


def _valid(pattern: str) -> str:
    options = re2.Options()
    # It would write to standard error.
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace")
        raise InvalidPrincipalRules(f"the pattern {pattern!r} is not valid ({reason}): correct it") from None
    return pattern


def _replacement(text: str, match: Any) -> str:
    groups = match.re.groups

    def part(found: re.Match[str]) -> str:
        if found[1] is not None:
            return found[1]
        digits = found[2]
        # Of $123 with 12 groups, the 3 is text; so is all of it where there is no such group, as in Kafka.
        for length in range(len(digits), 0, -1):
            if int(digits[:length]) <= groups:
                return (match.group(int(digits[:length])) or "") + digits[length:]
        return found[0]

    return _REPLACED.sub(part, text)


def _invalid(text: str, begin: int) -> InvalidPrincipalRules:
    return InvalidPrincipalRules(
        f"there is no rule in {text[begin : begin + 60]!r}: write DEFAULT, or RULE:pattern/replacement/ with L or U "
        "behind it for lower or upper case"
    )


def _unchanged(name: str) -> str:
    return name
