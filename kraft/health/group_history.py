"""How far a group was behind over time, from samples of its offsets and of the ends of logs; in memory, and bounded.

What Kafka's protocol does not say of a group, its age and Burrow's states, is found out from the same samples, by the
rules of our coordinators. ADR 66.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec import Struct

from kraft.client import TopicPartition
from kraft.coordinator.lag.commit_window import COMMITS_KEPT, CommitWindow
from kraft.coordinator.lag.log_ends import Behind, LogEnds
from kraft.coordinator.lag.states import Commit, LagState, state_of, state_of_group
from kraft.coordinator.lag.tracker import Moment
from kraft.model.ids import Offset

__all__ = ["GroupHistory", "Judged", "Moment", "Series", "TopicSeries", "state_of_group"]

SAMPLE_S: Final = 10.0
"""Time between two samples of a group."""

POINTS_MAX: Final = 720
"""Samples that are kept of a group: two hours."""

TOPICS_MAX: Final = 10
"""Topics of a group with a line of their own, 12 KiB each; those first that were seen first."""

PARTITIONS_MAX: Final = 1_000
"""Partitions of a group; the history of one with more is not kept."""

_WINDOW_MS: Final = int(COMMITS_KEPT * SAMPLE_S * 1_000)
_GAP: Final = -1


class TopicSeries(Struct, frozen=True, kw_only=True):
    """Sums over the partitions of a topic at each time; None where they were not known."""

    topic: str
    committed: list[int | None]
    end: list[int | None]
    lag: list[int | None]


class Series(Struct, frozen=True, kw_only=True):
    times_ms: list[int]
    """Since 1970, ascending."""

    topics: list[TopicSeries]
    left_out: int
    """Topics above those with a line of their own."""


class Judged(NamedTuple):
    """What the samples say of one partition."""

    state: LagState
    behind: Behind
    committed_ms: int | None
    """When the last commit was seen; None: before the first sample."""


class _Line:
    __slots__ = ("committed", "end", "lag")

    def __init__(self, gaps: int) -> None:
        self.committed, self.end, self.lag = (array("q", [_GAP]) * gaps for _ in range(3))

    def add(self, committed: int, end: int, lag: int) -> None:
        self.committed.append(committed)
        self.end.append(end)
        self.lag.append(lag)

    def drop_first(self) -> None:
        del self.committed[0], self.end[0], self.lag[0]


class _Place:
    """One partition: its last commits, and the ends of its log."""

    __slots__ = ("commits", "ends", "is_first")

    def __init__(self) -> None:
        self.commits = CommitWindow()
        self.ends = LogEnds()
        self.is_first = True


class GroupHistory:
    """Samples of one group."""

    def __init__(self) -> None:
        self._times_ms = array("q")
        self._lines: dict[str, _Line] = {}
        self._left_out: frozenset[str] = frozenset()
        self._places: dict[TopicPartition, _Place] = {}

    @property
    def places(self) -> int:
        """Partitions that are judged."""
        return len(self._places)

    def add(
        self,
        now: Moment,
        committed: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        *,
        judges: bool,
    ) -> None:
        """Add a sample: committed offsets, and the ends of those logs whose end is known.

        With `judges`, the samples have to say what coordinators do not.
        """
        if len(self._times_ms) == POINTS_MAX:
            del self._times_ms[0]
            for line in self._lines.values():
                line.drop_first()
        sums = _sums(committed, ends)
        self._left_out = frozenset(sums) - self._lines.keys()
        for topic in sorted(self._left_out)[: TOPICS_MAX - len(self._lines)]:
            self._lines[topic] = _Line(len(self._times_ms))
        self._left_out -= self._lines.keys()
        self._times_ms.append(now.wall_ms)
        for topic, line in self._lines.items():
            line.add(*sums.get(topic, (_GAP, _GAP, _GAP)))
        self._note(now, committed if judges else {}, ends)

    def _note(self, now: Moment, committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> None:
        for gone in self._places.keys() - committed.keys():
            del self._places[gone]
        for place, offset in committed.items():
            known = self._places.get(place) or self._places.setdefault(place, _Place())
            end = ends.get(place)
            if end is not None:
                known.ends.add(now.monotonic_ms, Offset(end))
            commits = known.commits.commits()
            if not commits or commits[-1].offset != offset:
                known.is_first = not commits
                lag = None if end is None else max(0, end - offset)
                known.commits.add(Commit(Offset(offset), now.wall_ms, lag))

    def judged(self, place: TopicPartition, committed: int, now: Moment) -> Judged | None:
        """Return what is known of the partition, where this offset is committed now; None: nothing yet."""
        known = self._places.get(place)
        if known is None or known.ends.end is None:
            return None
        commits = known.commits.commits()
        lag = max(0, known.ends.end - committed)
        was_at_end = known.ends.was_within(Offset(committed), now.monotonic_ms - _WINDOW_MS)
        state = state_of(commits, lag, now.wall_ms, was_at_end=was_at_end, window_ms=_WINDOW_MS)
        behind = known.ends.behind(Offset(committed), now.monotonic_ms)
        return Judged(state, behind, None if known.is_first or not commits else commits[-1].timestamp_ms)

    def worst(self, now: Moment) -> Judged | None:
        """Return the state of the group, and how old the oldest record is that waits; None: nothing is known yet."""
        found = []
        for place, known in self._places.items():
            if commits := known.commits.commits():
                found.append(self.judged(place, commits[-1].offset, now))
        seen = [each for each in found if each is not None]
        if not seen:
            return None
        return Judged(state_of_group(each.state for each in seen), max(each.behind for each in seen), None)

    def series(self) -> Series:
        return Series(
            times_ms=list(self._times_ms),
            topics=[
                TopicSeries(topic=topic, committed=_known(line.committed), end=_known(line.end), lag=_known(line.lag))
                for topic, line in sorted(self._lines.items())
            ],
            left_out=len(self._left_out),
        )


def _sums(
    committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[str, tuple[int, int, int]]:
    """Return committed offset, end and lag of each topic; gaps where the end of a partition is not known."""
    found: dict[str, tuple[int, int, int]] = {}
    for place, offset in committed.items():
        before = found.get(place.topic, (0, 0, 0))
        end = ends.get(place)
        if end is None or before[1] == _GAP:
            found[place.topic] = (_GAP, _GAP, _GAP)
        else:
            found[place.topic] = (before[0] + offset, before[1] + end, before[2] + max(0, end - offset))
    return found


def _known(numbers: array[int]) -> list[int | None]:
    return [None if each == _GAP else each for each in numbers]
