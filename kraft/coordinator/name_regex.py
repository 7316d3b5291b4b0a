r"""Regular expressions for names, in RE2's syntax, matched in time proportional to the name.

Names are those of topics and transactional ids. Python's own expressions may take exponential time, during which a
broker would answer nobody. These become a nondeterministic automaton, whose sets of states are followed and remembered.
An expression matches whole names, as in Kafka, which uses RE2J. Not supported, although RE2 has them: word boundaries
(\b, \B) and Unicode classes (\p{...}).
"""

from __future__ import annotations

import string
from collections.abc import Generator, Iterable, Set
from enum import Enum, auto
from typing import Final, TypeAlias

from msgspec import Struct

from kraft.coordinator.character_class import (
    CharacterClass,
    CharacterRange,
    character_class,
    complement,
    each_of,
    one,
    other_cases,
)

LENGTH_MAX: Final = 1_024
"""Limit on the characters of an expression: to read it takes time even if it is not valid."""

STATES_MAX: Final = 2_000
"""Limit on the states of one expression: it bounds the time for a name, and what an expression like a{1000} costs."""

REPEAT_MAX: Final = 1_000
DEPTH_MAX: Final = 50
"""Limit on groups inside of groups."""

_NODES_MAX: Final = 10 * STATES_MAX

REMEMBERED_MAX: Final = 100_000
"""Limit on the states in the remembered steps of one expression, each of which takes about 50 bytes."""

LOOKS_AT_ONCE: Final = 5_000
"""Looks at states between two pauses of a match: about a millisecond."""

_DIGITS: Final = [(ord("0"), ord("9"))]
_LOWER: Final = [(ord("a"), ord("z"))]
_UPPER: Final = [(ord("A"), ord("Z"))]
_WORD: Final = [*_DIGITS, *_UPPER, *_LOWER, one("_")]
_ESCAPED_CLASSES: Final = {"d": _DIGITS, "w": _WORD, "s": each_of("\t\n\f\r ")}
_NAMED_CLASSES: Final = {
    "alnum": [*_DIGITS, *_UPPER, *_LOWER],
    "alpha": [*_UPPER, *_LOWER],
    "ascii": [(0, 0x7F)],
    "blank": each_of("\t "),
    "cntrl": [(0, 0x1F), (0x7F, 0x7F)],
    "digit": _DIGITS,
    "graph": [(ord("!"), ord("~"))],
    "lower": _LOWER,
    "print": [(ord(" "), ord("~"))],
    "punct": each_of(string.punctuation),
    "space": each_of("\t\n\v\f\r "),
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": each_of(string.hexdigits),
}
_WORD_LETTERS: Final = frozenset(string.ascii_letters + string.digits + "_")
_CONTROLS: Final = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}

_ANY: Final = character_class((), is_negated=True)
_ANY_IN_LINE: Final = character_class([one("\n")], is_negated=True)

_IGNORES_CASE, _EACH_LINE, _ACROSS_LINES = "i", "m", "s"
"""Flags of (?flags)."""


Match: TypeAlias = Generator[None, None, bool]
"""A match in pieces: it pauses after each, and returns whether the expression matches."""


class InvalidRegex(ValueError):
    """The text is not a regular expression, or not one that is supported."""


# --- syntax --------------------------------------------------------------------------------------------------


class _Characters(Struct, frozen=True):
    accepted: CharacterClass


class _Edge(Enum):
    """A place in the name, of no width."""

    START = auto()
    END = auto()
    LINE_START = auto()
    """The start of the name, and behind every newline."""

    LINE_END = auto()


class _Sequence(Struct, frozen=True):
    items: tuple[_Node, ...]


class _Choice(Struct, frozen=True):
    options: tuple[_Node, ...]


class _Repeat(Struct, frozen=True):
    item: _Node
    least: int
    most: int | None


_Node: TypeAlias = "_Characters | _Edge | _Sequence | _Choice | _Repeat"


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._flags: frozenset[str] = frozenset()
        self._depth = 0

    def parse(self) -> _Node:
        node = self._choice()
        if self._at < len(self._text):
            raise InvalidRegex("it has a ) without a (")
        return node

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, text: str) -> bool:
        """Skip the text if it comes next."""
        found = self._text.startswith(text, self._at)
        self._at += len(text) if found else 0
        return found

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise InvalidRegex("it ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _until(self, end: str) -> str:
        start = self._at
        self._at = self._text.find(end, start) + len(end)
        if self._at < start + len(end):
            raise InvalidRegex(f"it has no {end} at the end of {self._text[start : start + 20]!r}")
        return self._text[start : self._at - len(end)]

    def _choice(self) -> _Node:
        # Flags that are set inside of a group end with it.
        flags = self._flags
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise InvalidRegex(f"it has more than {DEPTH_MAX} groups inside of each other")
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        self._depth -= 1
        self._flags = flags
        return options[0] if len(options) == 1 else _Choice(tuple(options))

    def _sequence(self) -> _Node:
        items: list[_Node] = []
        while self._peek() not in ("", "|", ")"):
            if self._take("\\Q"):
                quoted = self._text[self._at :].partition("\\E")[0]
                self._at = min(self._at + len(quoted) + len("\\E"), len(self._text))
                items += [self._literal(letter) for letter in quoted]
                continue
            item = self._atom()
            if item is not None:
                items.append(self._repeated(item))
        return _Sequence(tuple(items))

    def _repeated(self, item: _Node) -> _Node:
        repeats = 0
        while True:
            bounds = self._bounds()
            if bounds is None:
                return item
            if repeats:
                raise InvalidRegex("it has two repetitions in a row")
            repeats += 1
            # Whether the shortest or the longest match is preferred makes no difference to whole names.
            self._take("?")
            item = _Repeat(item, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        for operator, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(operator):
                return bounds
        if self._peek() != "{":
            return None
        least, comma, most = self._text[self._at + 1 :].partition("}")[0].partition(",")
        digits_only = least.isascii() and least.isdigit() and (not most or (most.isascii() and most.isdigit()))
        if not digits_only or "}" not in self._text[self._at :]:
            return None  # As in RE2, the brace is a literal then.
        self._until("}")
        if len(least) > 4 or len(most) > 4 or max(int(least), int(most or 0)) > REPEAT_MAX:
            raise InvalidRegex(f"it repeats something more than {REPEAT_MAX} times")
        if most and int(most) < int(least):
            raise InvalidRegex(f"it repeats something at least {least} and at most {most} times")
        return int(least), (int(most) if most else None) if comma else int(least)

    def _atom(self) -> _Node | None:
        """Return the next item; None if it was nothing but flags."""
        letter = self._next()
        match letter:
            case "(":
                return self._group()
            case "[":
                return _Characters(self._class())
            case ".":
                return _Characters(_ANY if _ACROSS_LINES in self._flags else _ANY_IN_LINE)
            case "^":
                return _Edge.LINE_START if _EACH_LINE in self._flags else _Edge.START
            case "$":
                return _Edge.LINE_END if _EACH_LINE in self._flags else _Edge.END
            case "\\":
                return self._escape()
            case "*" | "+" | "?":
                raise InvalidRegex(f"it has a {letter} with nothing to repeat")
            case _:
                return self._literal(letter)

    def _group(self) -> _Node | None:
        before = self._flags
        if self._take("?P<") or self._take("?<"):
            name = self._until(">")
            if not name or not set(name) <= _WORD_LETTERS:
                raise InvalidRegex(f"it has a group with the name {name[:20]!r}")
        elif self._take("?") and self._set_flags() == ")":
            return None
        inner = self._choice()
        self._flags = before
        if not self._take(")"):
            raise InvalidRegex("it has a ( without a )")
        return inner

    def _set_flags(self) -> str:
        """Read the flags of (?flags) or (?flags:...), and return the character that ends them."""
        is_on = True
        while (flag := self._next()) not in (":", ")"):
            if flag == "-" and is_on:
                is_on = False
            elif flag in (_IGNORES_CASE, _EACH_LINE, _ACROSS_LINES):
                self._flags = self._flags | {flag} if is_on else self._flags - {flag}
            elif flag != "U":
                raise InvalidRegex(f"it has (?{flag}, which is not supported")
        return flag

    def _escape(self) -> _Node:
        letter = self._next()
        if letter == "A":
            return _Edge.START
        if letter == "z":
            return _Edge.END
        found = self._escaped(letter)
        return self._literal(found) if isinstance(found, str) else _Characters(character_class(found))

    def _escaped(self, letter: str) -> str | list[CharacterRange]:
        """Return the character or the class that a backslash before the letter means."""
        if letter.lower() in _ESCAPED_CLASSES:
            accepted = _ESCAPED_CLASSES[letter.lower()]
            return accepted if letter.islower() else complement(accepted)
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter == "x":
            return self._by_number()
        if letter in string.ascii_letters or letter in string.digits:
            raise InvalidRegex(f"it has \\{letter}, which is not supported")
        return letter

    def _by_number(self) -> str:
        digits = self._until("}") if self._take("{") else self._next() + self._next()
        if not 1 <= len(digits) <= 6 or not set(digits) <= set(string.hexdigits) or int(digits, 16) > 0x10FFFF:
            raise InvalidRegex(f"it has \\x with {digits[:20]!r}, which is no number of a character")
        return chr(int(digits, 16))

    def _literal(self, letter: str) -> _Characters:
        if _IGNORES_CASE not in self._flags:
            return _Characters(character_class([one(letter)]))
        return _Characters(character_class(map(one, {letter, *other_cases(letter)}), ignores_case=True))

    # --- classes in brackets ---------------------------------------------------------------------------------

    def _class(self) -> CharacterClass:
        is_negated = self._take("^")
        accepted: list[CharacterRange] = []
        is_first = True
        while is_first or self._peek() != "]":
            is_first = False
            if self._take("[:"):
                accepted += self._named_class()
                continue
            start = self._class_item()
            if isinstance(start, list):
                accepted += start
                continue
            end: str | list[CharacterRange] = start
            if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                self._next()
                end = self._class_item()
            if isinstance(end, list) or end < start:
                raise InvalidRegex(f"it has a range in brackets that begins with {start!r} and has no end")
            accepted.append((ord(start), ord(end)))
        self._next()
        return character_class(accepted, is_negated=is_negated, ignores_case=_IGNORES_CASE in self._flags)

    def _class_item(self) -> str | list[CharacterRange]:
        letter = self._next()
        return self._escaped(self._next()) if letter == "\\" else letter

    def _named_class(self) -> list[CharacterRange]:
        name = self._until(":]")
        accepted = _NAMED_CLASSES.get(name.removeprefix("^"))
        if accepted is None:
            raise InvalidRegex(f"it has [:{name[:20]}:], which is no class")
        return complement(accepted) if name.startswith("^") else accepted


# --- automaton -----------------------------------------------------------------------------------------------


class _State:
    """A state: the characters that lead on to `then`, or, without characters, the states that count as well."""

    __slots__ = ("accepted", "also", "edge", "then")

    def __init__(self) -> None:
        self.accepted: CharacterClass | None = None
        self.then = -1
        self.also: list[int] = []
        self.edge: _Edge | None = None
        """If set, `also` counts only there."""

    def accepts(self, letter: str) -> bool:
        return self.accepted is not None and self.accepted.accepts(letter)


class NameRegex:
    """A regular expression that matches names. Raises InvalidRegex."""

    def __init__(self, text: str) -> None:
        self._states: list[_State] = []
        self._built_nodes = 0
        self._end = self._new()
        self._start = self._built(_Parser(text).parse(), self._end)
        self.looks = 0
        """How many states all matches have looked at: the time that they took."""
        self._pause_at = LOOKS_AT_ONCE
        self._steps: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._remembered = 0
        self._beginning = self._closed([self._start], {_Edge.START, _Edge.LINE_START})

    def matches(self, name: str) -> bool:
        """Return whether the expression matches the whole name."""
        match = self.match(name)
        while True:
            try:
                next(match)
            except StopIteration as end:
                return bool(end.value)

    def match(self, name: str) -> Match:
        """Match the whole name in pieces. One match of an expression at a time."""
        current, before = self._beginning, ""
        for letter in name:
            if "\n" in (before, letter):
                current = self._closed(current, _edges(before, letter))
            current = self._step(current, letter)
            if not current:
                break
            before = letter
            if self.looks >= self._pause_at:
                self._pause_at = self.looks + LOOKS_AT_ONCE
                yield
        return bool(current) and self._end in self._closed(current, _edges(before, ""))

    def _step(self, states: frozenset[int], letter: str) -> frozenset[int]:
        self.looks += 1
        step = self._steps.get((states, letter))
        if step is None:
            step = self._closed(state.then for each in states if (state := self._states[each]).accepts(letter))
            self.looks += len(states) + len(step)
            self._remember((states, letter), step)
        return step

    def _remember(self, place: tuple[frozenset[int], str], step: frozenset[int]) -> None:
        # The states before the step are those after an earlier one, which may have been forgotten.
        size = len(place[0]) + len(step) + 1
        if self._remembered + size > REMEMBERED_MAX:
            self._steps.clear()
            self._remembered = 0
        self._steps[place] = step
        self._remembered += size

    def _closed(self, states: Iterable[int], edges: Set[_Edge] = frozenset()) -> frozenset[int]:
        """Return the states, and those that count with them at a place of the name that is on these edges."""
        found: set[int] = set()
        rest = list(states)
        while rest:
            number = rest.pop()
            if number not in found:
                found.add(number)
                state = self._states[number]
                if state.edge is None or state.edge in edges:
                    rest += state.also
        return frozenset(found)

    # --- building: from the end of the expression to its start -----------------------------------------------

    def _new(self) -> int:
        if len(self._states) >= STATES_MAX:
            raise InvalidRegex(f"it is too large: more than {STATES_MAX} states")
        self._states.append(_State())
        return len(self._states) - 1

    def _built(self, node: _Node, then: int) -> int:
        """Return the state in which what remains of a name has to match the node and then what `then` stands for."""
        # Repetitions of nothing have no states.
        self._built_nodes += 1
        if self._built_nodes > _NODES_MAX:
            raise InvalidRegex("it is too large: it repeats too much")
        match node:
            case _Characters():
                number = self._new()
                self._states[number].accepted, self._states[number].then = node.accepted, then
                return number
            case _Edge():
                number = self._new()
                self._states[number].edge = node
                self._states[number].also = [then]
                return number
            case _Sequence():
                for item in reversed(node.items):
                    then = self._built(item, then)
                return then
            case _Choice():
                number = self._new()
                self._states[number].also = [self._built(option, then) for option in node.options]
                return number
            case _Repeat():
                return self._built_repeat(node, then)

    def _built_repeat(self, node: _Repeat, then: int) -> int:
        if node.most is None:
            loop = self._new()
            self._states[loop].also = [self._built(node.item, loop), then]
            start = loop
        else:
            start = then
            for _ in range(node.most - node.least):
                optional = self._new()
                self._states[optional].also = [self._built(node.item, start), then]
                start = optional
        for _ in range(node.least):
            start = self._built(node.item, start)
        return start


def _edges(before: str, behind: str) -> set[_Edge]:
    """Return the edges that are between two characters of a name; an empty one is outside of it."""
    edges = {_Edge.LINE_START} if before in ("", "\n") else set()
    if behind in ("", "\n"):
        edges.add(_Edge.LINE_END)
    if not before:
        edges.add(_Edge.START)
    if not behind:
        edges.add(_Edge.END)
    return edges


def regex_error(text: str) -> str | None:
    """Return what is wrong with a regular expression, in a sentence; None if it is valid."""
    try:
        if len(text) > LENGTH_MAX:
            raise InvalidRegex(f"it has {len(text)} characters, and may have {LENGTH_MAX}")
        NameRegex(text)
    except InvalidRegex as error:
        shown = "".join(letter if letter.isprintable() else "?" for letter in text[:60])
        return f"the regular expression {shown!r} is not valid: {error}"
    return None
