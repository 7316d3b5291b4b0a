"""Immutable maps whose changed copies share nearly everything with the original.

The cost of copying a dict grows with its size, and so would the cost of each change to a large cluster's metadata. Here
a change copies only the few nodes on the path to it, and a comparison of two versions skips the parts that they share.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from itertools import chain
from typing import Any, Final, Generic, TypeVar, Union, overload

Key = TypeVar("Key")
Item = TypeVar("Item")
Default = TypeVar("Default")

_BITS: Final = 5
_FAN_OUT: Final = 1 << _BITS
_MASK: Final = _FAN_OUT - 1
_LEAF_MAX: Final = 2 * _FAN_OUT
_DEPTH_MAX: Final = 10
"""Keys whose hashes agree in all bits up to this depth share a leaf of any size."""

_CHUNK_BITS: Final = 6
_CHUNK: Final = 1 << _CHUNK_BITS

_Node = Union[dict[Key, Item], "tuple[_Node[Key, Item], ...]"]
"""A leaf with its items, or the nodes for each value of the next bits of the hash."""


class PersistentMap(Mapping[Key, Item]):
    """A trie by the keys' hashes. Its iteration order has no meaning."""

    __slots__ = ("_count", "_root")

    def __init__(self, items: Mapping[Key, Item] | None = None) -> None:
        self._root: _Node[Key, Item] = {}
        self._count = 0
        if items:
            self._root, self._count = _changed(self._root, 0, [(hash(key), key, item) for key, item in items.items()])

    @classmethod
    def of(cls, items: Mapping[Key, Item]) -> PersistentMap[Key, Item]:
        return items if isinstance(items, PersistentMap) else cls(items)

    def with_changes(self, changes: Mapping[Key, Item | None]) -> PersistentMap[Key, Item]:
        """Return a map with these items set; None removes a key."""
        if not changes:
            return self
        after: PersistentMap[Key, Item] = PersistentMap()
        after._root, added = _changed(self._root, 0, [(hash(key), key, item) for key, item in changes.items()])
        after._count = self._count + added
        return after

    def differing_keys(self, other: Mapping[Key, Item]) -> Iterator[Key]:
        """Yield the keys whose items are not the same object in both, or that one of them lacks."""
        yield from _differing(self._root, PersistentMap.of(other)._root)

    def __getitem__(self, key: Key) -> Item:
        node, rest = self._root, hash(key)
        while isinstance(node, tuple):
            node = node[rest & _MASK]
            rest >>= _BITS
        return node[key]

    @overload
    def get(self, key: Key, /) -> Item | None: ...

    @overload
    def get(self, key: Key, /, default: Item | Default) -> Item | Default: ...

    def get(self, key: Key, /, default: Item | Default | None = None) -> Item | Default | None:
        node, rest = self._root, hash(key)
        while isinstance(node, tuple):
            node = node[rest & _MASK]
            rest >>= _BITS
        return node.get(key, default)

    def __contains__(self, key: object) -> bool:
        node, rest = self._root, hash(key)
        while isinstance(node, tuple):
            node = node[rest & _MASK]
            rest >>= _BITS
        return key in node

    def __iter__(self) -> Iterator[Key]:
        return chain.from_iterable(_leaves(self._root))

    def items(self) -> ItemsView[Key, Item]:
        return _Items(self)

    def values(self) -> ValuesView[Item]:
        return _Values(self)

    def leaves(self) -> Iterator[dict[Key, Item]]:
        """Yield the items in parts."""
        return _leaves(self._root)

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"PersistentMap({dict(self)!r})"


class _Items(ItemsView[Key, Item]):
    """The items as a view that looks up none of them by its key."""

    _mapping: PersistentMap[Key, Item]

    def __iter__(self) -> Iterator[tuple[Key, Item]]:
        return chain.from_iterable(map(dict.items, self._mapping.leaves()))


class _Values(ValuesView[Item]):
    """The values as a view that looks up none of them by its key."""

    _mapping: PersistentMap[Any, Item]

    def __iter__(self) -> Iterator[Item]:
        return chain.from_iterable(map(dict.values, self._mapping.leaves()))


def _changed(
    node: _Node[Key, Item], depth: int, changes: list[tuple[int, Key, Item | None]]
) -> tuple[_Node[Key, Item], int]:
    """Return the changed node and by how many items it grew; the bits of the hashes used so far are shifted out."""
    if isinstance(node, tuple):
        return _changed_branch(node, depth, changes)
    leaf = dict(node)
    for _, key, item in changes:
        if item is None:
            leaf.pop(key, None)
        else:
            leaf[key] = item
    grown = len(leaf) - len(node)
    return (_split(leaf, depth) if len(leaf) > _LEAF_MAX and depth < _DEPTH_MAX else leaf), grown


def _changed_branch(
    node: tuple[_Node[Key, Item], ...], depth: int, changes: list[tuple[int, Key, Item | None]]
) -> tuple[_Node[Key, Item], int]:
    by_child: dict[int, list[tuple[int, Key, Item | None]]] = defaultdict(list)
    for rest, key, item in changes:
        by_child[rest & _MASK].append((rest >> _BITS, key, item))
    children, grown = list(node), 0
    for place, concerned in by_child.items():
        children[place], more = _changed(children[place], depth + 1, concerned)
        grown += more
    return tuple(children), grown


def _split(leaf: dict[Key, Item], depth: int) -> _Node[Key, Item]:
    children: list[dict[Key, Item]] = [{} for _ in range(_FAN_OUT)]
    for key, item in leaf.items():
        children[(hash(key) >> (_BITS * depth)) & _MASK][key] = item
    return tuple(
        _split(child, depth + 1) if len(child) > _LEAF_MAX and depth + 1 < _DEPTH_MAX else child for child in children
    )


def _leaves(node: _Node[Key, Item]) -> Iterator[dict[Key, Item]]:
    if isinstance(node, tuple):
        for child in node:
            yield from _leaves(child)
    else:
        yield node


def _differing(one: _Node[Key, Item], other: _Node[Key, Item]) -> Iterator[Key]:
    if one is other:
        return
    if isinstance(one, tuple) and isinstance(other, tuple):
        for child, other_child in zip(one, other, strict=True):
            if child is not other_child:
                yield from _differing(child, other_child)
        return
    # One of them may have been split between the two versions.
    items, other_items = _flat(one), _flat(other)
    for key, item in items.items():
        if other_items.get(key) is not item:
            yield key
    for key in other_items:
        if key not in items:
            yield key


def _flat(node: _Node[Key, Item]) -> dict[Key, Item]:
    return node if isinstance(node, dict) else {key: item for leaf in _leaves(node) for key, item in leaf.items()}


class PersistentSequence(Mapping[int, Item], Generic[Item]):
    """Items numbered from 0 without gaps, iterated in that order."""

    __slots__ = ("_chunks", "_count")

    def __init__(self, items: Iterable[Item] = ()) -> None:
        flat = tuple(items)
        self._count = len(flat)
        self._chunks = tuple(flat[start : start + _CHUNK] for start in range(0, len(flat), _CHUNK))

    @classmethod
    def of(cls, items: Mapping[int, Item]) -> PersistentSequence[Item]:
        if isinstance(items, PersistentSequence):
            return items
        return cls(items[number] for number in range(len(items)))

    def with_changes(self, changes: Mapping[int, Item]) -> PersistentSequence[Item]:
        """Return a sequence with these items set; numbers from the length on are appended and must have no gaps."""
        if not changes:
            return self
        chunks = list(self._chunks)
        drafts: dict[int, list[Item]] = {}
        count = self._count
        for number in sorted(changes):
            place, within = number >> _CHUNK_BITS, number & (_CHUNK - 1)
            if place not in drafts:
                drafts[place] = list(chunks[place]) if place < len(chunks) else []
            if number < count:
                drafts[place][within] = changes[number]
            else:
                assert number == count, f"item {number} after {count} items"
                drafts[place].append(changes[number])
                count += 1
        chunks += [()] * (max(drafts) + 1 - len(chunks))
        for place, draft in drafts.items():
            chunks[place] = tuple(draft)
        after: PersistentSequence[Item] = PersistentSequence()
        after._chunks, after._count = tuple(chunks), count
        return after

    def differing_keys(self, other: Mapping[int, Item]) -> Iterator[int]:
        """Yield the numbers, ascending, whose items are not the same object in both, or that one of them lacks."""
        others = PersistentSequence.of(other)._chunks
        for place in range(max(len(self._chunks), len(others))):
            chunk = self._chunks[place] if place < len(self._chunks) else ()
            other_chunk = others[place] if place < len(others) else ()
            if chunk is not other_chunk:
                for within in range(max(len(chunk), len(other_chunk))):
                    both = within < len(chunk) and within < len(other_chunk)
                    if not both or chunk[within] is not other_chunk[within]:
                        yield place * _CHUNK + within

    def __getitem__(self, number: int) -> Item:
        if not 0 <= number < self._count:
            raise KeyError(number)
        return self._chunks[number >> _CHUNK_BITS][number & (_CHUNK - 1)]

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._count))

    def items(self) -> ItemsView[int, Item]:
        return _NumberedItems(self)

    def values(self) -> ValuesView[Item]:
        return _SequenceValues(self)

    def in_order(self) -> Iterator[Item]:
        """Yield the items by their numbers."""
        return chain.from_iterable(self._chunks)

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"PersistentSequence({list(self.in_order())!r})"


class _NumberedItems(ItemsView[int, Item]):
    """The items as a view that looks up none of them by its number."""

    _mapping: PersistentSequence[Item]

    def __iter__(self) -> Iterator[tuple[int, Item]]:
        return enumerate(self._mapping.in_order())


class _SequenceValues(ValuesView[Item]):
    """The values as a view that looks up none of them by its number."""

    _mapping: PersistentSequence[Item]

    def __iter__(self) -> Iterator[Item]:
        return self._mapping.in_order()


class SequenceDraft(Generic[Item]):
    """A sequence while items are set in it."""

    __slots__ = ("_before", "_changes", "_count")

    def __init__(self, before: Mapping[int, Item]) -> None:
        self._before = before
        self._changes: dict[int, Item] = {}
        self._count = len(before)

    def __len__(self) -> int:
        return self._count

    def get(self, number: int) -> Item | None:
        return self._changes.get(number) or self._before.get(number)

    def __setitem__(self, number: int, item: Item) -> None:
        self._changes[number] = item
        self._count = max(self._count, number + 1)

    def sequence(self) -> PersistentSequence[Item]:
        return PersistentSequence.of(self._before).with_changes(self._changes)
