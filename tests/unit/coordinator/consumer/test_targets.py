"""A group gets a new target assignment when the interval since the last one has passed; members go on meanwhile."""

from __future__ import annotations

from kraft.coordinator.consumer.group import ConsumerGroupState
from kraft.coordinator.consumer.requests import AssignmentTimer
from kraft.coordinator.consumer.settings import GroupSettings
from tests.unit.coordinator.consumer.coordinator import GROUP, Coordinator, partitions

INTERVAL_MS = 1_000
START_MS = 1_000_000


def batching(**partition_counts: int) -> Coordinator:
    group = Coordinator(GroupSettings(assignment_interval_ms=INTERVAL_MS), **partition_counts)
    group.now_ms = START_MS
    return group


def test_the_first_assignment_of_a_group_does_not_wait() -> None:
    group = batching(a=2)
    joined = group.join("m1", "a")
    assert (joined.member_epoch, joined.assignment) == (2, partitions("a", 0, 1))
    assert group.group.assignment_ms == START_MS


def test_a_member_gives_up_what_it_has_unsubscribed_from_before_the_next_assignment() -> None:
    group = batching(a=2, b=2)
    group.join("m1", "a", "b")
    told = group.heartbeat("m1", 2, topics=frozenset({"a"}))
    assert (told.member_epoch, told.assignment) == (2, partitions("a", 0, 1))
    assert group.group.is_due
    group.heartbeat("m1", 2, owned=told.assignment)
    assert set(group.owners()) == partitions("a", 0, 1)


def test_a_member_that_subscribes_again_gets_back_what_the_last_assignment_gave_it() -> None:
    group = batching(a=1, b=1)
    group.join("m1", "a", "b")
    told = group.heartbeat("m1", 2, topics=frozenset({"a"}))
    response = group.heartbeat("m1", 2, topics=frozenset({"a", "b"}), owned=told.assignment)
    assert (response.member_epoch, response.assignment) == (2, partitions("a", 0) | partitions("b", 0))


def test_the_first_member_of_a_group_may_wait_for_its_expression_in_the_first_epoch() -> None:
    group = batching(a=1)
    joined = group.join("m1", topics=None, topic_regex="a.*")
    assert (joined.member_epoch, joined.assignment) == (1, frozenset())
    assert (group.group.epoch, group.group.assignment_epoch) == (1, 1)
    assert group.group.state is ConsumerGroupState.STABLE


def test_a_large_assignment_is_left_to_a_run() -> None:
    group = Coordinator(GroupSettings(assignment_interval_ms=0, assigned_at_once_max=4), a=4)
    joined = group.join("m1", "a")
    assert (joined.member_epoch, joined.assignment) == (1, frozenset())
    assert group.timers[AssignmentTimer(GROUP)] == 0
    group.settings = GroupSettings(assignment_interval_ms=0, assigned_at_once_max=4, offloads_assignor=False)
    assert group.heartbeat("m1", 1).assignment == partitions("a", 0, 1, 2, 3)
