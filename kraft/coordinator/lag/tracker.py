"""All that a coordinator remembers for the lag of its groups: it looks at the commits of its shards again and again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from kraft.coordinator.lag.commit_window import COMMITS_KEPT, CommitWindow
from kraft.coordinator.lag.log_ends import Behind, LogEnds
from kraft.coordinator.lag.states import Commit, LagState, state_of
from kraft.coordinator.offsets.committed_offset import CommittedOffset
from kraft.coordinator.offsets.committed_offsets import PartitionOffsets, TopicOffsets
from kraft.metadata.persistent_maps import PersistentMap
from kraft.model.ids import Offset, TopicPartition

WINDOWS_MAX: Final = 100_000
"""Partitions of groups that are remembered, of one broker. Those above are only known as they are now."""

LOOK_MS: Final = 10_000
"""Default of the time between two looks, as in Burrow."""

_Key = tuple[str, str, int]
_Groups = PersistentMap[str, TopicOffsets]

_NO_GROUPS: Final[_Groups] = PersistentMap()
_NO_TOPICS: Final[TopicOffsets] = PersistentMap()
_NO_PARTITIONS: Final[PartitionOffsets] = PersistentMap()


class Moment(NamedTuple):
    """The time by both clocks: commits have wall time, and looks at logs a time that never jumps."""

    wall_ms: int
    monotonic_ms: int


class PartitionLag(NamedTuple):
    """How far a group is behind in one partition."""

    partition: TopicPartition
    committed: Offset
    lag: int | None
    """Records that wait; None: the end of the log is not known."""

    behind: Behind | None
    """The same in time. None: not known."""

    state: LagState
    commits: tuple[Commit, ...]
    """The last commits that were seen, oldest first."""

    @property
    def completeness(self) -> float:
        """From 0 to 1: how much of the commits that the state is judged by this broker has seen."""
        return len(self.commits) / COMMITS_KEPT


class LagTracker:
    """Remembers commits by shard, so that all of a shard can be forgotten when another broker has its groups."""

    def __init__(self, look_interval_ms: int = LOOK_MS) -> None:
        self._window_ms = COMMITS_KEPT * look_interval_ms
        """Time that as many commits take at least. A group that had read everything so short a time ago has not
        stopped."""

        self._seen: dict[int, _Groups] = {}
        self._windows: dict[int, dict[_Key, CommitWindow]] = {}
        self._windows_count = 0
        self._readers: Counter[TopicPartition] = Counter()
        """How many groups have an offset of each partition."""

        self._ends: dict[TopicPartition, LogEnds] = {}

    def note_commits(self, shard: int, groups: _Groups) -> Iterator[None]:
        """Note what was committed in a shard since the last look; it costs what has changed.

        Yields after each partition. If the shard is forgotten in between, the rest of it is not noted.
        """
        windows = self._windows.setdefault(shard, {})
        before = self._seen.get(shard, _NO_GROUPS)
        for group in groups.differing_keys(before):
            topics, known_topics = groups.get(group, _NO_TOPICS), before.get(group, _NO_TOPICS)
            for topic in topics.differing_keys(known_topics):
                partitions = topics.get(topic, _NO_PARTITIONS)
                for partition in partitions.differing_keys(known_topics.get(topic, _NO_PARTITIONS)):
                    self._note(windows, (group, topic, partition), partitions)
                    yield
                    if self._windows.get(shard) is not windows:
                        return
        self._seen[shard] = groups

    def _note(self, windows: dict[_Key, CommitWindow], key: _Key, partitions: PartitionOffsets) -> None:
        place = TopicPartition(key[1], key[2])
        committed = partitions.get(key[2])
        window = windows.get(key)
        if committed is None:
            if window is not None:
                self._drop(windows, key)
            return
        if window is None:
            if self._windows_count >= WINDOWS_MAX:
                return
            windows[key] = window = CommitWindow()
            self._windows_count += 1
            self._readers[place] += 1
        ends = self._ends.get(place)
        lag = _lag(None if ends is None else ends.end, committed.offset)
        if not window.has_last(committed.offset, committed.commit_timestamp_ms):
            # A shard that was loaded again has the same commits as other objects.
            window.add(Commit(committed.offset, committed.commit_timestamp_ms, lag))

    def _drop(self, windows: dict[_Key, CommitWindow], key: _Key) -> None:
        del windows[key]
        self._windows_count -= 1
        place = TopicPartition(key[1], key[2])
        self._readers[place] -= 1
        if not self._readers[place]:
            del self._readers[place]
            self._ends.pop(place, None)

    def forget(self, shard: int) -> Iterator[None]:
        """Forget the groups of a shard that another broker has now, and yield after each partition."""
        self._seen.pop(shard, None)
        # Out of reach at once: what is noted of the shard from now on is new.
        windows = self._windows.pop(shard, {})
        for key in list(windows):
            self._drop(windows, key)
            yield

    @property
    def shards(self) -> frozenset[int]:
        return frozenset(self._windows)

    def watched(self) -> list[TopicPartition]:
        """Return the partitions whose ends have to be known."""
        return list(self._readers)

    def note_ends(self, ends: Iterable[tuple[TopicPartition, Offset]], monotonic_ms: int) -> Iterator[None]:
        """Note where logs end now, and yield after each. A partition that nobody reads any more is left out."""
        for place, end in ends:
            if place in self._readers:
                if (known := self._ends.get(place)) is None:
                    known = self._ends[place] = LogEnds()
                known.add(monotonic_ms, end)
            yield

    def lag_of(self, shard: int, group: str, topics: TopicOffsets, now: Moment) -> Iterator[PartitionLag]:
        """Yield how far a group with these committed offsets is behind, partition by partition, sorted."""
        windows: Mapping[_Key, CommitWindow] = self._windows.get(shard, {})
        for topic in sorted(topics):
            partitions = topics[topic]
            for partition in sorted(partitions):
                window = windows.get((group, topic, partition))
                yield self._lag_in(TopicPartition(topic, partition), partitions[partition], window, now)

    def _lag_in(
        self, place: TopicPartition, committed: CommittedOffset, window: CommitWindow | None, now: Moment
    ) -> PartitionLag:
        offset, ends = committed.offset, self._ends.get(place)
        first, end = (None, None) if ends is None else (ends.first, ends.end)
        # What was committed before the first look at the log is measured by that look.
        commits = [
            each if each.lag is not None else each._replace(lag=_lag(first, each.offset))
            for each in (() if window is None else window.commits())
        ]
        if window is None or not window.has_last(offset, committed.commit_timestamp_ms):
            # It came after the last look.
            commits = [*commits, Commit(offset, committed.commit_timestamp_ms, _lag(end, offset))][-COMMITS_KEPT:]
        if ends is None or end is None:
            return PartitionLag(place, offset, None, None, LagState.OK, tuple(commits))
        lag = max(0, end - offset)
        was_at_end = ends.was_within(offset, now.monotonic_ms - self._window_ms)
        state = state_of(commits, lag, now.wall_ms, was_at_end=was_at_end, window_ms=self._window_ms)
        return PartitionLag(place, offset, lag, ends.behind(offset, now.monotonic_ms), state, tuple(commits))


def _lag(end: Offset | None, offset: Offset) -> int | None:
    # The end may be older than the commit, which then was at the end, as far as is known.
    return None if end is None else max(0, end - offset)
