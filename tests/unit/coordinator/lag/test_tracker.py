from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import pytest
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from hypothesis.strategies import integers, sampled_from

from kraft.coordinator.lag import tracker
from kraft.coordinator.lag.commit_window import COMMITS_KEPT
from kraft.coordinator.lag.log_ends import Behind
from kraft.coordinator.lag.states import Commit, LagState
from kraft.coordinator.lag.tracker import LagTracker, Moment, PartitionLag
from kraft.coordinator.offsets.committed_offset import CommittedOffset
from kraft.coordinator.offsets.committed_offsets import TopicOffsets
from kraft.coordinator.offsets.group_topic_partition import GroupTopicPartition, with_items
from kraft.metadata.persistent_maps import PersistentMap
from kraft.model.ids import Offset, TopicPartition

ORDERS = TopicPartition("orders", 0)

Groups = PersistentMap[str, TopicOffsets]


def groups_of(group: str = "billing", *, offset: int = 10, at_ms: int = 0, before: Groups | None = None) -> Groups:
    committed = CommittedOffset(offset=Offset(offset), commit_timestamp_ms=at_ms)
    return with_items(
        PersistentMap() if before is None else before, {GroupTopicPartition(group, "orders", 0): committed}
    )


def looked(lags: LagTracker, groups: Groups, *, shard: int = 7) -> None:
    for _ in lags.note_commits(shard, groups):
        pass


def end_at(lags: LagTracker, ends: list[tuple[TopicPartition, Offset]], now_ms: int) -> None:
    for _ in lags.note_ends(ends, now_ms):
        pass


def lag_in(lags: LagTracker, groups: Groups, *, now_ms: int = 0, shard: int = 7) -> PartitionLag:
    (found,) = lags.lag_of(shard, "billing", groups["billing"], Moment(now_ms, now_ms))
    return found


def test_a_commit_has_the_lag_of_the_end_that_was_known_then() -> None:
    lags, groups = LagTracker(), groups_of(offset=10, at_ms=1_000)
    looked(lags, groups)
    end_at(lags, [(ORDERS, Offset(15))], 1_000)
    again = groups_of(offset=12, at_ms=2_000, before=groups)
    looked(lags, again)
    end_at(lags, [(ORDERS, Offset(30))], 11_000)
    found = lag_in(lags, again, now_ms=11_000)
    # The first one was committed before the first look at the log, which it is measured by.
    assert found.commits == (Commit(Offset(10), 1_000, 5), Commit(Offset(12), 2_000, 3))
    assert found.lag == 18
    assert found.completeness == 2 / COMMITS_KEPT


def test_the_end_of_a_log_that_nobody_reads_is_not_remembered() -> None:
    lags, groups = LagTracker(), groups_of()
    end_at(lags, [(ORDERS, Offset(15))], 0)
    looked(lags, groups)
    assert lag_in(lags, groups).lag is None


def test_without_the_end_of_the_log_nothing_is_claimed() -> None:
    lags, groups = LagTracker(), groups_of()
    looked(lags, groups)
    found = lag_in(lags, groups)
    assert (found.lag, found.behind, found.state) == (None, None, LagState.OK)


def test_a_commit_that_is_read_past_the_known_end_was_at_the_end() -> None:
    lags, groups = LagTracker(), groups_of(offset=10)
    looked(lags, groups)
    end_at(lags, [(ORDERS, Offset(10))], 0)
    again = groups_of(offset=400, at_ms=9_000, before=groups)
    looked(lags, again)
    assert lag_in(lags, again, now_ms=9_000).commits[-1].lag == 0
    assert lag_in(lags, again, now_ms=9_000).lag == 0


def test_a_commit_counts_before_the_next_look_finds_it() -> None:
    lags, groups = LagTracker(), groups_of(offset=10, at_ms=1_000)
    looked(lags, groups)
    end_at(lags, [(ORDERS, Offset(15))], 1_000)
    again = groups_of(offset=12, at_ms=2_000, before=groups)
    before_the_look = lag_in(lags, again, now_ms=3_000)
    looked(lags, again)
    assert before_the_look.commits == (Commit(Offset(10), 1_000, 5), Commit(Offset(12), 2_000, 3))
    assert before_the_look == lag_in(lags, again, now_ms=3_000)


def test_a_full_window_has_room_for_a_commit_that_no_look_has_found() -> None:
    lags, groups = LagTracker(), groups_of()
    for at in range(COMMITS_KEPT):
        groups = groups_of(offset=at, at_ms=at, before=groups)
        looked(lags, groups)
    found = lag_in(lags, groups_of(offset=50, at_ms=50, before=groups))
    assert (len(found.commits), found.commits[0].offset, found.commits[-1].offset) == (COMMITS_KEPT, 1, 50)


@pytest.mark.parametrize("step_ms", [3_600_000, -3_600_000])
def test_a_step_of_the_wall_clock_changes_no_age(step_ms: int) -> None:
    lags, groups = LagTracker(), groups_of(offset=10, at_ms=0)
    looked(lags, groups)
    end_at(lags, [(ORDERS, Offset(10))], 0)
    end_at(lags, [(ORDERS, Offset(20))], 10_000)
    ((stepped,), unstepped) = (
        lags.lag_of(7, "billing", groups["billing"], Moment(12_000 + step_ms, 12_000)),
        lag_in(lags, groups, now_ms=12_000),
    )
    assert (
        (stepped.behind, stepped.state) == (unstepped.behind, unstepped.state) == (Behind(12_000, False), LagState.OK)
    )


def test_of_more_than_may_be_remembered_the_lag_is_known_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker, "WINDOWS_MAX", 1)
    lags, groups = LagTracker(), groups_of("audit", before=groups_of("billing"))
    looked(lags, groups)
    end_at(lags, [(ORDERS, Offset(30))], 0)
    found = [next(lags.lag_of(7, group, groups[group], Moment(0, 0))) for group in ("audit", "billing")]
    assert [each.lag for each in found] == [20, 20]
    later = [groups_of(group, offset=25, at_ms=1, before=groups)[group] for group in ("audit", "billing")]
    known = [
        next(lags.lag_of(7, group, each, Moment(1, 1))) for group, each in zip(("audit", "billing"), later, strict=True)
    ]
    assert sorted(len(each.commits) for each in known) == [1, 2], "one of them is not remembered"


def test_a_shard_that_is_forgotten_in_the_middle_of_a_look_leaves_nothing() -> None:
    lags = LagTracker()
    steps = lags.note_commits(7, groups_of("audit", before=groups_of("billing")))
    next(steps)
    deque(lags.forget(7))
    assert list(steps) == []
    assert not lags.watched()
    assert not lags.shards


class Lags(RuleBasedStateMachine):
    """A tracker that looks at two shards, beside a plain list of what it saw."""

    def __init__(self) -> None:
        super().__init__()
        self.lags = LagTracker()
        self.groups: dict[int, Groups] = {0: PersistentMap(), 1: PersistentMap()}
        self.looked: dict[int, dict[GroupTopicPartition, int]] = {0: {}, 1: {}}
        self.seen: dict[int, dict[GroupTopicPartition, deque[int]]] = {0: {}, 1: {}}
        self.now_ms = 0

    shards, partitions, names = sampled_from((0, 1)), integers(0, 2), sampled_from(("audit", "billing"))

    @rule(shard=shards, name=names, partition=partitions, offset=integers(0, 40))
    def commit(self, shard: int, name: str, partition: int, offset: int) -> None:
        self.now_ms += 1
        committed = CommittedOffset(offset=Offset(offset), commit_timestamp_ms=self.now_ms)
        key = GroupTopicPartition(f"{name}-{shard}", "orders", partition)
        self.groups[shard] = with_items(self.groups[shard], {key: committed})

    @rule(shard=shards, name=names, partition=partitions)
    def delete(self, shard: int, name: str, partition: int) -> None:
        if (key := GroupTopicPartition(f"{name}-{shard}", "orders", partition)) in dict(self.committed(shard)):
            self.groups[shard] = with_items(self.groups[shard], {key: None})

    @rule(shard=shards)
    def look(self, shard: int) -> None:
        looked(self.lags, self.groups[shard], shard=shard)
        now = {key: each.commit_timestamp_ms for key, each in self.committed(shard)}
        for key, at_ms in now.items():
            if self.looked[shard].get(key) != at_ms:
                self.seen[shard].setdefault(key, deque(maxlen=COMMITS_KEPT)).append(at_ms)
        self.seen[shard] = {key: each for key, each in self.seen[shard].items() if key in now}
        self.looked[shard] = now

    @rule(shard=shards)
    def forget(self, shard: int) -> None:
        deque(self.lags.forget(shard))
        self.seen[shard], self.looked[shard] = {}, {}

    @invariant()
    def it_watches_what_groups_read(self) -> None:
        read = {TopicPartition(key.topic, key.partition) for shard in self.seen.values() for key in shard}
        assert set(self.lags.watched()) == read

    @invariant()
    def it_remembers_the_last_commits_that_it_saw_and_knows_the_newest(self) -> None:
        for shard, seen in self.seen.items():
            for group, topics in self.groups[shard].items():
                for found in self.lags.lag_of(shard, group, topics, Moment(self.now_ms, self.now_ms)):
                    key = GroupTopicPartition(group, found.partition.topic, found.partition.partition)
                    newest = topics[key.topic][key.partition].commit_timestamp_ms
                    known = [each for each in seen.get(key, ()) if each != newest]
                    assert [each.timestamp_ms for each in found.commits] == [*known, newest][-COMMITS_KEPT:]

    def committed(self, shard: int) -> Iterator[tuple[GroupTopicPartition, CommittedOffset]]:
        for group, topics in self.groups[shard].items():
            for topic, partitions in topics.items():
                for partition, each in partitions.items():
                    yield GroupTopicPartition(group, topic, partition), each


TestLags = Lags.TestCase
