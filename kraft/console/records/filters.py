"""Filters: a small language over one record, parsed into values that are evaluated, never run as code.

    filter     = all { "or" all } ;  all = one { "and" one }
    one        = "not" one | "(" filter ")" | path test
    test       = "exists" | "contains" literal | "starts" "with" string | "ends" "with" string
               | "matches" string | "in" "(" literal { "," literal } ")" | sign literal
    sign       = "==" | "!=" | "<" | "<=" | ">" | ">="
    path       = root { "." name | "[" string "]" | "[" number "]" }
    root       = "key" | "value" | "headers" | "offset" | "partition" | "timestamp"

A filter is bounded in length, words and depth, and takes time in proportion to the record. It reads what the user may
see, masked as on the page.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import Struct

from kraft.console.records.decoding import Decoded
from kraft.console.records.filter_syntax import CONSTANTS, WORDS, Token, tokens_of, wrong
from kraft.model.moments import parse_datetime
from kraft.model.name_regex import InvalidRegex, NameRegex

DEPTH_MAX: Final = 30
"""Parentheses and "not" inside each other."""

SEGMENTS_MAX: Final = 20
MATCHED_CHARACTERS_MAX: Final = 64 << 10
"""Longer texts match no regular expression: RE2 takes 0.1 s for so many at worst."""

ROOTS: Final = ("key", "value", "headers", "offset", "partition", "timestamp")


class Subject(Struct, frozen=True, kw_only=True):
    """A record as its viewer sees it."""

    partition: int
    offset: int
    timestamp_ms: int
    key: Decoded
    value: Decoded
    headers: tuple[tuple[str, Decoded], ...] = ()


class Path(Struct, frozen=True):
    root: str
    segments: tuple[str | int, ...] = ()

    def found(self, subject: Subject) -> Iterator[Any]:
        """Yield what stands there: nothing, one value, or for the whole of a key, value or header its text, too."""
        match self.root:
            case "offset":
                yield subject.offset
            case "partition":
                yield subject.partition
            case "timestamp":
                yield subject.timestamp_ms
            case "key":
                yield from _inside(subject.key, self.segments)
            case "value":
                yield from _inside(subject.value, self.segments)
            case _:
                for name, decoded in subject.headers:
                    if not self.segments:
                        yield name
                    elif name == self.segments[0]:
                        yield from _inside(decoded, self.segments[1:])


def _inside(decoded: Decoded, segments: tuple[str | int, ...]) -> Iterator[Any]:
    if decoded.format == "null":
        if not segments:
            yield None
        return
    value = decoded.value
    if not segments:
        yield decoded.text
        if value is not None and not isinstance(value, (dict, list)) and value != decoded.text:
            yield value
        return
    for each in segments:
        is_member = isinstance(value, dict) and isinstance(each, str) and each in value
        if not is_member and not (isinstance(value, list) and type(each) is int and -len(value) <= each < len(value)):
            return
        value = value[each]
    yield value


Filter = Callable[[Subject], bool]
Test = Callable[[Any], bool]


# --- tests of one value ------------------------------------------------------------------------------------------


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _equals(wanted: Any) -> Test:
    return lambda value: value == wanted and (type(value) is type(wanted) or (_is_number(value) and _is_number(wanted)))


def _differs(wanted: Any) -> Test:
    same = _equals(wanted)
    return lambda value: not same(value)


def _ordered(sign: str, wanted: Any) -> Test:
    compare: Callable[[Any, Any], bool] = _ORDERS[sign]
    if _is_number(wanted):
        return lambda value: _is_number(value) and compare(value, wanted)
    return lambda value: isinstance(value, str) and compare(value, wanted)


def _contains(wanted: Any) -> Test:
    same = _equals(wanted)

    def test(value: Any) -> bool:
        if isinstance(value, str):
            return isinstance(wanted, str) and wanted in value
        return isinstance(value, list) and any(map(same, value))

    return test


def _begins(wanted: str) -> Test:
    return lambda value: isinstance(value, str) and value.startswith(wanted)


def _ends(wanted: str) -> Test:
    return lambda value: isinstance(value, str) and value.endswith(wanted)


def _matches(regex: NameRegex) -> Test:
    return lambda value: isinstance(value, str) and len(value) <= MATCHED_CHARACTERS_MAX and regex.matches(value)


def _one_of(wanted: list[Any]) -> Test:
    tests = [_equals(each) for each in wanted]
    return lambda value: any(each(value) for each in tests)


_ORDERS: Final = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def _any(path: Path, test: Test) -> Filter:
    return lambda subject: any(test(each) for each in path.found(subject))


def _every(path: Path, test: Test) -> Filter:
    """The negative of a test: what stands there has to pass in each of its forms, and something has to stand there."""

    def passes(subject: Subject) -> bool:
        found = list(path.found(subject))
        return bool(found) and all(map(test, found))

    return passes


# --- parsing -----------------------------------------------------------------------------------------------------


def parse(text: str) -> Filter:
    """Return the filter. Raises WrongFilter."""
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens_of(text)
        self._at = 0
        self._depth = 0

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def whole(self) -> Filter:
        found = self._or()
        if self._next.kind != "end":
            raise self._wrong("expected and, or, or the end")
        return found

    def _or(self) -> Filter:
        parts = [self._and()]
        while self._took("or"):
            parts.append(self._and())
        return parts[0] if len(parts) == 1 else lambda subject: any(each(subject) for each in parts)

    def _and(self) -> Filter:
        parts = [self._one()]
        while self._took("and"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else lambda subject: all(each(subject) for each in parts)

    def _one(self) -> Filter:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._wrong(f"parentheses and not may stand in each other {DEPTH_MAX} times")
        try:
            if self._took("not"):
                inner = self._one()
                return lambda subject: not inner(subject)
            if self._took("("):
                found = self._or()
                self._expect(")")
                return found
            return self._test(self._path())
        finally:
            self._depth -= 1

    def _path(self) -> Path:
        token = self._next
        if token.word not in ROOTS:
            raise self._wrong(f"expected one of {', '.join(ROOTS)}, or not, or a parenthesis")
        self._at += 1
        segments: list[str | int] = []
        while self._next.word in (".", "["):
            if token.word not in ("key", "value", "headers"):
                raise self._wrong(f"{token.word} has nothing inside it")
            if len(segments) == SEGMENTS_MAX:
                raise self._wrong(f"a path may have {SEGMENTS_MAX} parts")
            segments.append(self._name() if self._took(".") else self._index())
        return Path(token.word, tuple(segments))

    def _name(self) -> str:
        if self._next.kind != "name":
            raise self._wrong('expected a name; other names are written as ["a name"]')
        self._at += 1
        return self._tokens[self._at - 1].text

    def _index(self) -> str | int:
        self._expect("[")
        token = self._next
        if not isinstance(token.value, (str, int)):
            raise self._wrong('expected a number or a string, such as [0] or ["a name"]')
        self._at += 1
        self._expect("]")
        return token.value

    def _test(self, path: Path) -> Filter:
        token = self._next
        self._at += 1
        match token.word:
            case "exists":
                return lambda subject: any(True for _ in path.found(subject))
            case "==":
                return _any(path, _equals(self._literal(path)))
            case "!=":
                return _every(path, _differs(self._literal(path)))
            case "<" | "<=" | ">" | ">=" as sign:
                wanted = self._literal(path)
                if not _is_number(wanted) and not isinstance(wanted, str):
                    raise wrong(self._text, token.at, f"{sign} compares numbers or strings")
                return _any(path, _ordered(sign, wanted))
            case "contains":
                return _any(path, _contains(self._literal(path)))
            case "starts":
                self._expect("with")
                return _any(path, _begins(self._string()))
            case "ends":
                self._expect("with")
                return _any(path, _ends(self._string()))
            case "matches":
                return _any(path, _matches(self._regex()))
            case "in":
                return _any(path, _one_of(self._list(path)))
            case _:
                self._at -= 1
                raise self._wrong(
                    "expected ==, !=, <, <=, >, >=, exists, contains, starts with, ends with, matches or in"
                )

    def _literal(self, path: Path) -> Any:
        token = self._next
        if token.kind == "name" and token.text in CONSTANTS:
            self._at += 1
            return CONSTANTS[token.text]
        if token.kind not in ("string", "number"):
            hint = "" if token.word in WORDS or not token.word else f'; text is in quotes: "{token.text}"'
            raise self._wrong(f"expected a string in quotes, a number, true, false or null{hint}")
        self._at += 1
        if path.root == "timestamp" and isinstance(token.value, str):
            return self._time(token)
        return token.value

    def _time(self, token: Token) -> int:
        try:
            return parse_datetime(token.value)
        except ValueError:
            raise wrong(self._text, token.at, 'a time is written as "2026-01-31T23:59:00Z", or in ms') from None

    def _string(self) -> str:
        token = self._next
        if token.kind != "string":
            raise self._wrong("expected a string in quotes")
        self._at += 1
        return str(token.value)

    def _regex(self) -> NameRegex:
        at = self._next.at
        try:
            return NameRegex(self._string())
        except (InvalidRegex, UnicodeEncodeError) as error:
            raise wrong(self._text, at, f"the regular expression is not valid: {error}") from None

    def _list(self, path: Path) -> list[Any]:
        self._expect("(")
        found = [self._literal(path)]
        while self._took(","):
            found.append(self._literal(path))
        self._expect(")")
        return found

    def _took(self, word: str) -> bool:
        is_next = self._next.word == word
        self._at += is_next
        return is_next

    def _expect(self, word: str) -> None:
        if not self._took(word):
            raise self._wrong(f"expected {word}")

    def _wrong(self, what: str) -> Exception:
        return wrong(self._text, self._next.at, what)
