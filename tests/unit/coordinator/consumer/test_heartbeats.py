from __future__ import annotations

from typing import Any

import pytest

from kraft.coordinator.assignors.assignor import NO_PARTITIONS
from kraft.coordinator.consumer.checks import TOPIC_NAMES_MAX
from kraft.coordinator.consumer.group import ConsumerGroupState, MemberState
from kraft.coordinator.consumer.requests import RebalanceTimeout, SessionTimeout
from kraft.coordinator.consumer.settings import GroupSettings
from tests.unit.coordinator.consumer.coordinator import (
    GROUP,
    Coordinator,
    image_of,
    pair,
    partitions,
    revoking_in_a_later_epoch,
)

JOIN: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "owned": NO_PARTITIONS, "topics": frozenset({"a"})}


# --- joining ---------------------------------------------------------------------------------------------------------


def test_only_a_joining_member_creates_a_group() -> None:
    group = Coordinator(a=2)
    assert group.refusal("m1", 2) == "GROUP_ID_NOT_FOUND"
    assert group.state is None


def test_a_second_member_gets_its_share_once_the_first_has_given_it_up() -> None:
    group = Coordinator(a=4)
    group.join("m1", "a")
    joined = group.join("m2", "a")
    assert (joined.member_epoch, joined.assignment) == (3, NO_PARTITIONS)
    assert group.member("m2").state is MemberState.UNRELEASED_PARTITIONS
    assert group.group.state.value == "Reconciling"

    revoke = group.heartbeat("m1", 2)
    kept = revoke.assignment
    assert kept is not None
    assert (revoke.member_epoch, len(kept)) == (2, 2)
    assert group.member("m1").state is MemberState.UNREVOKED_PARTITIONS
    assert group.timers[RebalanceTimeout(GROUP, "m1", 2)] == 60_000
    assert group.heartbeat("m2", 3).assignment is None, "nothing is given before it is given up"

    released = group.heartbeat("m1", 2, owned=kept)
    assert (released.member_epoch, released.assignment) == (3, None)
    assert RebalanceTimeout(GROUP, "m1", 2) not in group.timers
    assert group.heartbeat("m2", 3).assignment == partitions("a", 0, 1, 2, 3) - kept
    assert group.group.state is ConsumerGroupState.STABLE


def test_an_older_client_gets_its_member_id_from_the_coordinator() -> None:
    group = Coordinator(a=1)
    assert group.join("", "a", api_version=0).member_id == "random-1"
    assert group.refusal("", 0, **JOIN) == "INVALID_REQUEST"


def test_a_member_too_many_is_refused_and_those_in_the_group_go_on() -> None:
    group = Coordinator(GroupSettings(members_max=1, assignment_interval_ms=0), a=1)
    group.join("m1", "a")
    assert group.refusal("m2", 0, **JOIN) == "GROUP_MAX_SIZE_REACHED"
    assert group.refusal("", 0, **JOIN, api_version=0) == "GROUP_MAX_SIZE_REACHED"
    group.heartbeat("m1", 2)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"rebalance_timeout_ms": -1}, "INVALID_REQUEST"),
        ({"rebalance_timeout_ms": -2}, "INVALID_REQUEST"),
        ({"owned": None}, "INVALID_REQUEST"),
        ({"owned": partitions("a", 0)}, "INVALID_REQUEST"),
        ({"topics": None}, "INVALID_REQUEST"),
        ({"topics": frozenset(map(str, range(TOPIC_NAMES_MAX + 1)))}, "INVALID_REQUEST"),
        ({"instance_id": ""}, "INVALID_REQUEST"),
        ({"rack_id": ""}, "INVALID_REQUEST"),
        ({"server_assignor": "sticky"}, "UNSUPPORTED_ASSIGNOR"),
    ],
)
def test_an_incomplete_or_contradictory_join_is_refused(fields: dict[str, Any], error: str) -> None:
    assert Coordinator(a=1).refusal("m1", 0, **(JOIN | fields)) == error


def test_a_member_names_as_many_topics_as_it_may() -> None:
    group = Coordinator(a=1)
    names = frozenset(("a", *map(str, range(TOPIC_NAMES_MAX - 1))))
    group.heartbeat("m1", 0, **(JOIN | {"topics": names}))
    assert group.member("m1").topics == names


@pytest.mark.parametrize(("member_id", "epoch"), [("m1", -3), ("m1", -2), ("", 1), ("", -1)])
def test_a_member_epoch_that_makes_no_sense_is_refused(member_id: str, epoch: int) -> None:
    assert pair().refusal(member_id, epoch, api_version=0) == "INVALID_REQUEST"


# --- fencing ---------------------------------------------------------------------------------------------------------


def test_a_member_that_missed_the_response_with_its_new_epoch_is_served() -> None:
    group = Coordinator(a=4)
    group.join("m1", "a")
    group.join("m2", "a")
    kept = group.heartbeat("m1", 2).assignment
    group.heartbeat("m1", 2, owned=kept)
    again = group.heartbeat("m1", 2, owned=kept, topics=frozenset({"a"}), rebalance_timeout_ms=60_000)
    assert (again.member_epoch, again.assignment) == (3, kept)


def test_a_late_copy_of_a_join_releases_nothing_that_the_member_has_got_since() -> None:
    group = Coordinator(a=4)
    group.join("m1", "a")
    group.join("m2", "a")
    group.join("m1", "a")
    assert group.member("m1").state is MemberState.UNREVOKED_PARTITIONS
    assert group.member("m1").owned == partitions("a", 0, 1, 2, 3)


def test_a_late_copy_of_a_join_does_not_release_what_the_member_has_to_give_up() -> None:
    group = Coordinator(a=4)
    group.join("m1", "a")
    group.join("m2", "a")
    group.heartbeat("m1", 2)
    group.join("m1", "a")
    assert group.member("m1").state is MemberState.UNREVOKED_PARTITIONS
    assert len(group.member("m1").owned) == 4


def test_a_late_copy_of_a_heartbeat_does_not_release_what_the_member_has_got_since() -> None:
    group = revoking_in_a_later_epoch()
    member = group.member("m1")
    kept = member.assigned
    assert group.refusal("m1", 3, owned=kept) == "FENCED_MEMBER_EPOCH"
    assert group.member("m1") == member
    assert len(member.owned) == 4


# --- responses that the member did not get ---------------------------------------------------------------------------


def test_a_member_in_its_previous_epoch_is_told_what_it_has_got_since() -> None:
    group = Coordinator(a=2)
    group.join("m1", "a")
    group.image = image_of({"a": 3})
    late = group.join("m1", "a")
    assert (late.member_epoch, late.assignment) == (3, partitions("a", 0, 1, 2))
    response = group.heartbeat("m1", 2, owned=partitions("a", 0, 1))
    assert (response.member_epoch, response.assignment) == (3, partitions("a", 0, 1, 2))


def test_a_member_in_its_previous_epoch_that_owns_its_assignment_is_not_told_again() -> None:
    group = Coordinator(a=4)
    group.join("m1", "a")
    group.join("m2", "a")
    kept = group.heartbeat("m1", 2).assignment
    group.heartbeat("m1", 2, owned=kept)
    response = group.heartbeat("m1", 2, owned=kept)
    assert (response.member_epoch, response.assignment) == (3, None)


def test_a_member_is_told_what_a_late_copy_of_its_join_got_in_its_epoch() -> None:
    group = Coordinator(a=4)
    group.join("m1", "a")
    group.join("m2", "a")
    group.heartbeat("m1", 2)
    group.heartbeat("m1", 2, owned=group.member("m1").assigned)
    late = group.join("m2", "a")
    assert (late.member_epoch, late.assignment) == (3, group.group.target("m2"))
    assert group.heartbeat("m2", 3).assignment == group.group.target("m2")


def test_a_member_is_told_what_it_has_to_give_up_since_a_late_copy_of_its_join() -> None:
    group = Coordinator(a=4)
    group.join("m1", "a")
    group.join("m2", "a")
    kept = group.join("m1", "a").assignment
    response = group.heartbeat("m1", 2)
    assert (response.member_epoch, response.assignment) == (2, kept)
    released = group.heartbeat("m1", 2, owned=kept)
    assert released.member_epoch == 3
    assert group.heartbeat("m1", 3).assignment is None, "by this epoch it shows that it has heard"


def test_a_member_is_told_what_a_late_copy_of_a_heartbeat_of_its_previous_epoch_got() -> None:
    group = Coordinator(a=4)
    group.join("m1", "a")
    group.join("m2", "a")
    group.join("m3", "a")
    assert (group.heartbeat("m2", 3).member_epoch, group.member("m2").previous_epoch) == (4, 3)
    group.heartbeat("m1", 2)
    group.heartbeat("m1", 2, owned=group.member("m1").assigned)
    group.heartbeat("m2", 3, owned=NO_PARTITIONS)
    got = group.member("m2").assigned
    assert got
    assert group.heartbeat("m2", 4).assignment == got


def test_a_removed_member_that_a_late_copy_of_its_join_brings_back_hears_that_it_owns_nothing() -> None:
    group = Coordinator(GroupSettings(assignment_interval_ms=1_000), a=2)
    group.now_ms = 1_000
    joined = group.join("m1", "a")
    group.end(SessionTimeout(GROUP, "m1"))
    late = group.join("m1", "a")
    assert late.member_epoch == joined.member_epoch, "nothing but the assignment tells one from the other"
    for _ in range(2):
        assert group.heartbeat("m1", joined.member_epoch).assignment == NO_PARTITIONS
    group.now_ms += 1_000
    again = group.heartbeat("m1", joined.member_epoch)
    assert (again.member_epoch, again.assignment) == (4, partitions("a", 0, 1))
    assert group.heartbeat("m1", 4).assignment is None


def test_a_static_member_that_missed_the_response_to_its_join_while_the_group_was_due_joins_again() -> None:
    group = Coordinator(GroupSettings(assignment_interval_ms=1_000), a=2)
    group.now_ms = 1_000
    group.join("m1", "a")
    assert group.join("m2", "a", instance_id="i") == group.join("m2", "a", instance_id="i")


# --- changes ---------------------------------------------------------------------------------------------------------


def test_the_response_to_a_full_heartbeat_has_the_assignment() -> None:
    group = pair()
    member = group.member("m1")
    response = group.heartbeat("m1", member.epoch, **(JOIN | {"owned": member.assigned}))
    assert response.assignment == member.assigned


def test_members_of_a_topic_that_grows_share_the_new_partitions() -> None:
    group = pair()
    group.image = image_of({"a": 6})
    epoch = group.group.epoch
    group.settle()
    assert group.group.epoch == epoch + 1
    assert sorted(len(member.assigned) for member in group.group.members.values()) == [3, 3]


def test_a_topic_that_is_created_after_its_subscriber_joined_is_assigned() -> None:
    group = Coordinator()
    assert group.join("m1", "a").assignment == NO_PARTITIONS
    group.image = image_of({"a": 1})
    assert group.heartbeat("m1", 2).assignment == partitions("a", 0)


def test_the_partitions_of_a_deleted_topic_are_revoked() -> None:
    group = Coordinator(a=2, b=1)
    group.join("m1", "a", "b")
    group.image = image_of({"b": 1})
    assert group.heartbeat("m1", 2).assignment == partitions("b", 0)


def test_other_metadata_does_not_bump_the_epoch() -> None:
    group = pair()
    epoch = group.group.epoch
    group.image = image_of({"a": 4, "other": 9})
    group.settle()
    assert group.group.epoch == epoch


def test_the_assignor_that_most_members_ask_for_is_used() -> None:
    group = Coordinator(a=2, b=2)
    group.join("m1", "a", "b", server_assignor="range")
    group.join("m2", "a", "b")
    group.settle()
    assert group.member("m1").assigned == partitions("a", 0) | partitions("b", 0)
