"""Names of topics at the target, and the cycles that names can show."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

_POSITIONS: Final = re.compile(r".+\.[A-Za-z0-9_-]+-[A-Za-z0-9_-]+\.positions")

Pair: TypeAlias = tuple[str, str]
"""Aliases of a source and of its target."""


class Naming(Struct, frozen=True, kw_only=True):
    """How one source's topics are called at the target: as they are, or behind the alias of the source."""

    source: str
    target: str
    prefixed: bool
    separator: str = "."

    def at_target(self, topic: str) -> str:
        return f"{self.source}{self.separator}{topic}" if self.prefixed else topic

    def came_from_target(self, topic: str, aliases: frozenset[str]) -> bool:
        """Return whether a topic of the source is itself a mirrored one of the target, by its prefixes."""
        return self.prefixed and self.target in self._origins(topic, aliases)

    def _origins(self, topic: str, aliases: frozenset[str]) -> Iterator[str]:
        # An alias may have the separator in it.
        starts = {alias: f"{alias}{self.separator}" for alias in aliases}
        for alias, start in starts.items():
            if topic.startswith(start) and topic != start:
                yield alias
                yield from self._origins(topic.removeprefix(start), aliases)


def positions_topic(mirror: str, source: str, target: str) -> str:
    """Return the topic at the target that keeps the positions of one pair."""
    return f"{mirror}.{source}-{target}.positions"


def is_positions_topic(topic: str) -> bool:
    """Return whether the name is one that `positions_topic` returns: NAME.SOURCE-TARGET.positions."""
    return _POSITIONS.fullmatch(topic) is not None


def cycle_in(pairs: Sequence[Pair], are_apart: Callable[[Pair, Pair], bool] = lambda *_: False) -> list[str]:
    """Return the aliases of a cycle of sources and targets, first one again at the end; empty without one.

    Two pairs that are apart have no topic in common, so that no record goes through both.
    """
    for first in pairs:
        if found := _cycle_from([first], pairs, are_apart):
            return found
    return []


def _cycle_from(path: list[Pair], pairs: Sequence[Pair], are_apart: Callable[[Pair, Pair], bool]) -> list[str]:
    if path[-1][1] == path[0][0]:
        return [*(source for source, _ in path), path[0][0]]
    reached = {source for source, _ in path[1:]}
    for following in pairs:
        if following[0] != path[-1][1] or following[1] in reached or any(are_apart(following, each) for each in path):
            continue
        if found := _cycle_from([*path, following], pairs, are_apart):
            return found
    return []
