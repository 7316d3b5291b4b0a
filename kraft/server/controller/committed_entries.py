"""The latest committed entries of the metadata log, kept for the brokers that follow it."""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import Final

from msgspec import Struct

KEPT_BELOW_SNAPSHOT: Final = 1_000
"""Entries kept although a snapshot contains them, so that a broker a little behind does not need the snapshot."""

_INDEX = attrgetter("index")


class CommittedEntry(Struct, frozen=True, kw_only=True):
    """One entry of the metadata log; `payload` is the encoded records."""

    index: int
    term: int
    payload: bytes


class CommittedEntries:
    """Entries by ascending index, which has gaps; the oldest are dropped when a snapshot contains them."""

    def __init__(self) -> None:
        self._entries: list[CommittedEntry] = []
        self._dropped_index = 0

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, entry: CommittedEntry) -> None:
        self._entries.append(entry)

    def after(self, index: int) -> list[CommittedEntry] | None:
        """Return the entries above `index`; None if some of them were dropped."""
        if index < self._dropped_index:
            return None
        return self._entries[bisect_right(self._entries, index, key=_INDEX) :]

    def begin_after(self, index: int) -> None:
        """Drop everything; the next entry comes after `index`."""
        self._entries.clear()
        self._dropped_index = index

    def snapshot_taken(self, index: int) -> None:
        """Drop entries that a snapshot up to `index` contains, except the last KEPT_BELOW_SNAPSHOT."""
        count = bisect_right(self._entries, index, key=_INDEX) - KEPT_BELOW_SNAPSHOT
        if count > 0:
            self._dropped_index = self._entries[count - 1].index
            del self._entries[:count]
