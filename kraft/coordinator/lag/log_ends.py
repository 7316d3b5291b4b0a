"""The end of one partition's log over time, which says when an offset was appended."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Final, NamedTuple

from kraft.model.ids import Offset

LOOKS_KEPT: Final = 64
"""More than that are thinned out: the older a look, the farther it is from its neighbours, and none ends the array."""


class Behind(NamedTuple):
    """How far a reader is behind in time."""

    ms: int
    is_at_least: bool
    """True: the record is older than the first look at the log."""


class LogEnds:
    """An array of looks, each with its time and the end of the log that it found."""

    __slots__ = ("_ends", "_times_ms")

    def __init__(self) -> None:
        self._times_ms = array("q")
        self._ends = array("q")

    @property
    def end(self) -> Offset | None:
        """The last end that was found; None before the first look."""
        return Offset(self._ends[-1]) if self._ends else None

    @property
    def first(self) -> Offset | None:
        """The end that was found first, of those that are remembered."""
        return Offset(self._ends[0]) if self._ends else None

    def add(self, now_ms: int, end: Offset) -> None:
        """Add a look. Of a log that lost records, what was known of the lost offsets is forgotten."""
        while self._ends and self._ends[-1] > end:
            self._ends.pop()
            self._times_ms.pop()
        if len(self._ends) > 1 and self._ends[-1] == end == self._ends[-2]:
            # The first look that found this end, and the last one, are enough.
            self._times_ms[-1] = now_ms
            return
        self._times_ms.append(now_ms)
        self._ends.append(end)
        if len(self._ends) > LOOKS_KEPT:
            # Every second look of the older half, without the very first one.
            half = slice(1, LOOKS_KEPT // 2, 2)
            del self._times_ms[half], self._ends[half]

    def was_within(self, offset: Offset, since_ms: int) -> bool:
        """Return whether the log ended at this offset, or before it, at a look after then."""
        return any(
            end <= offset and time_ms > since_ms
            for time_ms, end in zip(reversed(self._times_ms), reversed(self._ends), strict=True)
        )

    def behind(self, offset: Offset, now_ms: int) -> Behind:
        """Return the age of the record at the offset: zero if the log has none there yet."""
        above = bisect_right(self._ends, offset)
        if above == len(self._ends):
            return Behind(0, is_at_least=False)
        if above == 0:
            return Behind(max(0, now_ms - self._times_ms[0]), is_at_least=True)
        before_ms, after_ms = self._times_ms[above - 1], self._times_ms[above]
        first, end = self._ends[above - 1], self._ends[above]
        # Between two looks, records are taken to have come evenly.
        appended_ms = before_ms + (after_ms - before_ms) * (offset - first) // (end - first)
        return Behind(max(0, now_ms - appended_ms), is_at_least=False)
