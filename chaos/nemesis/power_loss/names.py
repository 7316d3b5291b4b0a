"""The names of a file system: what programs see, what is durable, and the changes between the two in their order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from chaos.nemesis.power_loss.loss import Loss

NodeId = int
"""A file or a directory, whatever it is called."""

ROOT: Final[NodeId] = 1

Place = tuple[NodeId, str]
"""A directory, and a name in it."""

_Entry = tuple[Place, NodeId]
_Entries = dict[Place, NodeId]


@dataclass(frozen=True, slots=True)
class _Link:
    place: Place
    node: NodeId

    @property
    def entry(self) -> _Entry:
        return self.place, self.node

    def apply(self, entries: _Entries) -> None:
        entries[self.place] = self.node

    def directories(self) -> tuple[NodeId, ...]:
        return (self.place[0],)


@dataclass(frozen=True, slots=True)
class _Unlink:
    place: Place

    def apply(self, entries: _Entries) -> None:
        entries.pop(self.place, None)

    def directories(self) -> tuple[NodeId, ...]:
        return (self.place[0],)


@dataclass(frozen=True, slots=True)
class _Rename:
    """One step: no moment has both names, or neither."""

    source: Place
    target: Place
    node: NodeId

    @property
    def entry(self) -> _Entry:
        return self.target, self.node

    def apply(self, entries: _Entries) -> None:
        if entries.get(self.source) == self.node:
            del entries[self.source]
        entries[self.target] = self.node

    def directories(self) -> tuple[NodeId, ...]:
        return (self.source[0], self.target[0])


_Change = _Link | _Unlink | _Rename


class Names:
    """Knows nothing of what the nodes are. Not for several threads at once."""

    def __init__(self) -> None:
        self._current: _Entries = {}
        self._durable: _Entries = {}
        self._pending: list[tuple[int, _Change]] = []
        self.mark = 0
        """Number of changes so far, for `sync`."""

    def find(self, place: Place) -> NodeId | None:
        return self._current.get(place)

    def walk(self, parts: Iterable[str]) -> NodeId | None:
        """The node at the end of that path from the root."""
        node: NodeId | None = ROOT
        for part in parts:
            if node is None:
                return None
            node = self._current.get((node, part))
        return node

    def list(self, directory: NodeId) -> Sequence[str]:
        return [name for inside, name in self._current if inside == directory]

    def link(self, place: Place, node: NodeId) -> None:
        self._change(_Link(place, node))

    def unlink(self, place: Place) -> None:
        self._change(_Unlink(place))

    def rename(self, source: Place, target: Place) -> None:
        self._change(_Rename(source, target, self._current[source]))

    def _change(self, change: _Change) -> None:
        change.apply(self._current)
        self.mark += 1
        self._pending.append((self.mark, change))

    @property
    def unsynced(self) -> int:
        return len(self._pending)

    def sync(self, directory: NodeId, mark: int) -> None:
        """Makes durable what had been changed in that directory when the mark was taken."""
        later = []
        for number, change in self._pending:
            if number <= mark and directory in change.directories():
                change.apply(self._durable)
            else:
                later.append((number, change))
        self._pending = later

    def lose_power(self, loss: Loss, chance: Random) -> None:
        """Keep only the changes that survive; they become durable."""
        for change in self._survivors(loss, chance):
            change.apply(self._durable)
        reachable = _reachable(self._durable.items())
        # What stands in a directory whose own name did not survive is lost with it.
        self._durable = {place: node for place, node in self._durable.items() if place[0] in reachable}
        self._current = dict(self._durable)
        self._pending.clear()

    def _survivors(self, loss: Loss, chance: Random) -> Sequence[_Change]:
        changes = [change for _, change in self._pending]
        match loss:
            case Loss.ALL:
                return []
            case Loss.PAGES if chance.random() < 0.5:
                return [change for change in changes if chance.random() < 0.5]
            case _:
                return changes[: chance.randint(0, len(changes))]

    def forget_unreachable(self) -> set[NodeId]:
        """Forgets the names in directories that are gone for good.

        Returns all nodes that have a name, or may get one back when the power is lost.
        """
        entries = [*self._current.items(), *self._durable.items()]
        entries += [change.entry for _, change in self._pending if not isinstance(change, _Unlink)]
        alive = _reachable(entries)
        self._durable = {place: node for place, node in self._durable.items() if place[0] in alive}
        self._pending = [each for each in self._pending if not alive.isdisjoint(each[1].directories())]
        return alive


def _reachable(entries: Iterable[_Entry]) -> set[NodeId]:
    """The nodes to which a path leads from the root."""
    children: dict[NodeId, list[NodeId]] = {}
    for (directory, _), node in entries:
        children.setdefault(directory, []).append(node)
    found, waiting = {ROOT}, [ROOT]
    while waiting:
        for node in children.get(waiting.pop(), ()):
            if node not in found:
                found.add(node)
                waiting.append(node)
    return found
