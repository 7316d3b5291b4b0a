"""The names in a log directory: listed once, and kept up to date by those who create, rename and remove directories."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from threading import Lock
from typing import Final

PARTITION_DIRECTORY: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>[0-9]{1,9})")


class DirectoryNames:
    """Set of names that knows how many of them are of partitions: each new replica asks for it."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = set(names)
        # A thread may create a log in another directory than its own, if that has no room.
        self._changing = Lock()
        self.partition_count = sum(map(_is_partition, self._names))

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def add(self, name: str) -> None:
        with self._changing:
            if name not in self._names:
                self._names.add(name)
                self.partition_count += _is_partition(name)

    def discard(self, name: str) -> None:
        with self._changing:
            if name in self._names:
                self._names.remove(name)
                self.partition_count -= _is_partition(name)


def _is_partition(name: str) -> bool:
    return PARTITION_DIRECTORY.fullmatch(name) is not None
