from __future__ import annotations

from typing import Any

import pytest

from kraft.coordinator.assignors.assignor import NO_PARTITIONS
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


def test_the_first_member_gets_everything_at_once() -> None:
    group = Coordinator(a=2)
    response = group.join("m1", "a", client_id="c", client_host="h")
    assert (response.member_id, response.member_epoch) == ("m1", 2)
    assert response.heartbeat_interval_ms == 5_000
    assert response.assignment == partitions("a", 0, 1)
    assert group.group.state is ConsumerGroupState.STABLE
    assert (group.member("m1").client_id, group.member("m1").client_host) == ("c", "h")
    assert group.timers == {SessionTimeout(GROUP, "m1"): 45_000}


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


def test_a_member_that_still_owns_a_revoked_partition_or_does_not_say_gets_no_further() -> None:
    group = Coordinator(a=4)
    group.join("m1", "a")
    group.join("m2", "a")
    group.heartbeat("m1", 2)
    records = len(group.log)
    for owned in (None, partitions("a", 0, 1, 2, 3), group.group.target("m2")):
        assert group.heartbeat("m1", 2, owned=owned).member_epoch == 2
    assert len(group.log) == records
    assert group.member("m1").state is MemberState.UNREVOKED_PARTITIONS


def test_an_older_client_gets_its_member_id_from_the_coordinator() -> None:
    group = Coordinator(a=1)
    assert group.join("", "a", api_version=0).member_id == "random-1"
    assert group.refusal("", 0, **JOIN) == "INVALID_REQUEST"


def test_a_member_that_joins_with_no_topics_belongs_to_the_group_and_moves_nothing() -> None:
    group = pair()
    response = group.join("m3")
    assert response.assignment == NO_PARTITIONS
    assert group.group.epoch == group.group.assignment_epoch == response.member_epoch


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
        ({"instance_id": ""}, "INVALID_REQUEST"),
        ({"rack_id": ""}, "INVALID_REQUEST"),
        ({"server_assignor": "sticky"}, "UNSUPPORTED_ASSIGNOR"),
    ],
)
def test_an_incomplete_or_contradictory_join_is_refused(fields: dict[str, Any], error: str) -> None:
    assert Coordinator(a=1).refusal("m1", 0, **(JOIN | fields)) == error


@pytest.mark.parametrize(("member_id", "epoch"), [("m1", -3), ("m1", -2), ("", 1), ("", -1)])
def test_a_member_epoch_that_makes_no_sense_is_refused(member_id: str, epoch: int) -> None:
    assert pair().refusal(member_id, epoch, api_version=0) == "INVALID_REQUEST"


# --- fencing ---------------------------------------------------------------------------------------------------------


def test_an_unknown_member_is_refused() -> None:
    assert pair().refusal("m9", 3) == "UNKNOWN_MEMBER_ID"


@pytest.mark.parametrize("epoch", [1, 4])
def test_a_member_in_another_epoch_is_fenced(epoch: int) -> None:
    group = pair()
    assert group.refusal("m2", epoch, owned=NO_PARTITIONS) == "FENCED_MEMBER_EPOCH"


def test_a_member_that_missed_the_response_with_its_new_epoch_is_served() -> None:
    group = Coordinator(a=4)
    group.join("m1", "a")
    group.join("m2", "a")
    kept = group.heartbeat("m1", 2).assignment
    group.heartbeat("m1", 2, owned=kept)
    again = group.heartbeat("m1", 2, owned=kept, topics=frozenset({"a"}), rebalance_timeout_ms=60_000)
    assert (again.member_epoch, again.assignment) == (3, kept)


def test_a_member_in_its_previous_epoch_that_owns_more_than_it_is_assigned_or_does_not_say_is_fenced() -> None:
    group = Coordinator(a=4)
    group.join("m1", "a")
    group.join("m2", "a")
    group.heartbeat("m1", 2, owned=group.group.target("m1"))
    assert group.member("m1").epoch == 3
    assert group.refusal("m1", 2, owned=partitions("a", 0, 1, 2, 3)) == "FENCED_MEMBER_EPOCH"
    assert group.refusal("m1", 2) == "FENCED_MEMBER_EPOCH"


def test_a_member_that_missed_the_response_to_its_join_joins_again() -> None:
    group = Coordinator(a=2)
    assert group.join("m1", "a") == group.join("m1", "a")
    assert group.group.epoch == 2


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


def test_a_fenced_member_joins_again_under_its_id() -> None:
    group = Coordinator(a=4)
    group.join("m1", "a")
    group.join("m2", "a")
    group.heartbeat("m1", 2)
    assert group.refusal("m1", 8) == "FENCED_MEMBER_EPOCH"
    again = group.join("m1", "a")
    kept = again.assignment
    assert (again.member_epoch, kept) == (2, group.group.target("m1"))
    assert group.heartbeat("m1", 2, owned=kept).member_epoch == 3
    group.settle()
    assert len(group.owners()) == 4


def test_a_refusal_changes_nothing() -> None:
    group = pair()
    before, timers = group.state, dict(group.timers)
    group.refusal("m2", 10)
    assert group.state is before
    assert group.timers == timers


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


def test_a_heartbeat_without_changes_writes_no_record_and_returns_no_assignment() -> None:
    group = pair()
    records = len(group.log)
    assert group.heartbeat("m1", group.member("m1").epoch).assignment is None
    assert len(group.log) == records


def test_the_response_to_a_full_heartbeat_has_the_assignment() -> None:
    group = pair()
    member = group.member("m1")
    response = group.heartbeat("m1", member.epoch, **(JOIN | {"owned": member.assigned}))
    assert response.assignment == member.assigned


def test_a_new_subscription_bumps_the_group_epoch_and_what_it_leaves_out_is_revoked_at_once() -> None:
    group = Coordinator(a=2, b=2)
    group.join("m1", "a", "b")
    response = group.heartbeat("m1", 2, topics=frozenset({"b"}))
    assert group.group.epoch == 3
    assert (response.member_epoch, response.assignment) == (2, partitions("b", 0, 1))
    group.settle()
    assert group.group.topic_counts == {"b": 1}
    assert group.member("m1").owned == partitions("b", 0, 1)


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


def test_a_released_partition_that_the_member_shall_have_again_is_given_back() -> None:
    group = Coordinator(a=2)
    group.join("m1", "a")
    group.join("m2", "a")
    group.heartbeat("m1", 2)
    group.heartbeat("m2", -1)
    response = group.heartbeat("m1", 2, owned=group.member("m1").assigned)
    assert (response.member_epoch, response.assignment) == (4, partitions("a", 0, 1))
