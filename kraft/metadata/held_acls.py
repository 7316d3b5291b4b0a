"""What the ACLs of a few holders say about a name.

The prefixes are sorted, and each knows the longest other one that it begins with: so one that a name begins with is
found by a search, and those shorter than it have been asked before, however many there are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kraft.metadata.acls import DENIED_SHIFT, AclEntry, Bits, Holder, Pattern, entries_of
from kraft.model.access import ALLOWED_BY, WILDCARD, Operation, PatternType

DENIED: Final[Bits] = ~((1 << DENIED_SHIFT) - 1)
LITERAL_WILDCARD: Final[Pattern] = (PatternType.LITERAL.value, WILDCARD)


def _bits_of(*operations: Operation) -> Bits:
    return sum(1 << operation for operation in {*operations})


NAMED: Final = {each: _bits_of(each, Operation.ALL) for each in Operation}
"""The bits of an operation itself."""

DECIDING: Final = {
    each: bits << DENIED_SHIFT | bits | _bits_of(*ALLOWED_BY.get(each, ())) for each, bits in NAMED.items()
}
"""The bits of ACLs that allow an operation or deny it."""

Held = Sequence[tuple[Holder, Mapping[Pattern, Bits]]]
"""Holders whose ACLs concern a requester, with their patterns."""


class Said(NamedTuple):
    """The ACLs that decide about an operation; of several, the one with the most exact pattern."""

    denying: AclEntry | None
    allowing: AclEntry | None

    def or_else(self, less_exact: Said) -> Said:
        return Said(self.denying or less_exact.denying, self.allowing or less_exact.allowing)


NOTHING: Final = Said(None, None)

_NO_PREFIX: Final = -1


class HeldAcls:
    """The ACLs of all holders whose ACLs concern a requester."""

    __slots__ = ("_by_prefix", "_by_wildcard", "_held", "_prefixes", "_shorter")

    def __init__(self, held: Held) -> None:
        self._held = held
        prefixed = PatternType.PREFIXED
        self._prefixes = sorted({name for _, patterns in held for kind, name in patterns if kind == prefixed})
        self._shorter: list[int] = []
        """For each prefix the place of the longest one that it begins with itself, or _NO_PREFIX."""

        self._by_prefix: dict[tuple[int, Operation], Said] = {}
        """What each prefix and those shorter than it say, as far as it was asked for."""

        self._by_wildcard: dict[Operation, Said] = {}
        open_ones: list[int] = []
        for at, name in enumerate(self._prefixes):
            while open_ones and not name.startswith(self._prefixes[open_ones[-1]]):
                open_ones.pop()
            self._shorter.append(open_ones[-1] if open_ones else _NO_PREFIX)
            open_ones.append(at)

    def say(self, operation: Operation, name: str) -> Said:
        """Return what is said of an operation on the resource of that name."""
        said = said_at(self._held, (PatternType.LITERAL.value, name), operation)
        if said.denying is not None:
            return said
        said = said.or_else(self._of_prefixes(self._longest_of(name), operation))
        return said if name == WILDCARD else said.or_else(self._of_wildcard(operation))

    def _longest_of(self, name: str) -> int:
        """Return the place of the longest prefix of the name, or _NO_PREFIX."""
        # What is sorted between a prefix of the name and the name begins with that prefix, too.
        at = bisect_right(self._prefixes, name) - 1
        while at != _NO_PREFIX and not name.startswith(self._prefixes[at]):
            at = self._shorter[at]
        return at

    def _of_prefixes(self, at: int, operation: Operation) -> Said:
        """Return what the prefix at that place says, and those that it begins with."""
        unknown: list[int] = []
        while at != _NO_PREFIX and (at, operation) not in self._by_prefix:
            unknown.append(at)
            at = self._shorter[at]
        said = NOTHING if at == _NO_PREFIX else self._by_prefix[at, operation]
        for longer in reversed(unknown):
            own = said_at(self._held, (PatternType.PREFIXED.value, self._prefixes[longer]), operation)
            said = self._by_prefix[longer, operation] = own.or_else(said)
        return said

    def _of_wildcard(self, operation: Operation) -> Said:
        said = self._by_wildcard.get(operation)
        if said is None:
            said = self._by_wildcard[operation] = said_at(self._held, LITERAL_WILDCARD, operation)
        return said


def said_at(held: Held, pattern: Pattern, operation: Operation) -> Said:
    """Return what the holders' ACLs for this very pattern say."""
    allowing: AclEntry | None = None
    for holder, patterns in held:
        bits = patterns.get(pattern, 0) & DECIDING[operation]
        if bits & DENIED:
            return Said(next(entries_of(holder, pattern, bits & DENIED)), allowing)
        if bits and allowing is None:
            allowing = next(entries_of(holder, pattern, bits))
    return NOTHING if allowing is None else Said(None, allowing)
