"""The last commits of a group for one partition."""

from __future__ import annotations

from array import array
from typing import Final

from kraft.coordinator.lag.states import Commit
from kraft.model.ids import Offset

COMMITS_KEPT: Final = 10
"""As many as Burrow keeps."""

_FIELDS: Final = 3
_NO_LAG: Final = -1


class CommitWindow:
    """An array of numbers: a hundred thousand of these take some 40 MiB."""

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers = array("q")

    def add(self, commit: Commit) -> None:
        """Add a commit, which replaces the oldest one if there are enough."""
        self._numbers.extend((commit.offset, commit.timestamp_ms, _NO_LAG if commit.lag is None else commit.lag))
        if len(self._numbers) > _FIELDS * COMMITS_KEPT:
            del self._numbers[:_FIELDS]

    def has_last(self, offset: Offset, timestamp_ms: int) -> bool:
        """Return whether this is the latest commit."""
        return len(self._numbers) > 0 and (self._numbers[-3], self._numbers[-2]) == (offset, timestamp_ms)

    def commits(self) -> list[Commit]:
        """Return the commits, oldest first."""
        numbers = self._numbers
        return [
            Commit(Offset(offset), timestamp_ms, None if lag == _NO_LAG else lag)
            for offset, timestamp_ms, lag in zip(
                numbers[::_FIELDS], numbers[1::_FIELDS], numbers[2::_FIELDS], strict=True
            )
        ]
