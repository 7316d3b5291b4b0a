from __future__ import annotations

from kraft.coordinator.assignors.assignor import NO_PARTITIONS
from kraft.coordinator.consumer.departures import decide_deletion, decide_loaded, decide_timer_ended
from kraft.coordinator.consumer.group import LEFT_STATIC_EPOCH, ConsumerGroupState, MemberState
from kraft.coordinator.consumer.requests import RebalanceTimeout, SessionTimeout
from kraft.coordinator.shard import Ticket
from kraft.model.errors import Refusal
from tests.unit.coordinator.consumer.coordinator import (
    GROUP,
    Coordinator,
    compacted,
    pair,
    partitions,
    replayed,
    revoking_in_a_later_epoch,
)


def static() -> Coordinator:
    group = Coordinator(a=2)
    group.join("m1", "a", instance_id="i1")
    return group


# --- leaving ---------------------------------------------------------------------------------------------------------


def test_what_a_leaving_member_owned_goes_to_the_others() -> None:
    group = pair()
    response = group.heartbeat("m1", -1)
    assert (response.member_id, response.member_epoch, response.assignment) == ("m1", -1, None)
    assert "m1" not in group.group.members
    assert "m1" not in group.group.targets
    assert group.group.state is ConsumerGroupState.ASSIGNING
    assert SessionTimeout(GROUP, "m1") not in group.timers
    assert group.heartbeat("m2", 3).assignment == partitions("a", 0, 1, 2, 3)


def test_a_member_without_heartbeats_is_removed_at_the_end_of_its_session() -> None:
    group = pair()
    group.end(SessionTimeout(GROUP, "m1"))
    assert group.refusal("m1", 3) == "UNKNOWN_MEMBER_ID"
    group.settle()
    assert group.member("m2").assigned == partitions("a", 0, 1, 2, 3)


def test_a_member_that_does_not_give_up_its_partitions_is_removed_at_the_end_of_its_rebalance_timeout() -> None:
    group = Coordinator(a=4)
    group.join("m1", "a")
    group.join("m2", "a")
    group.heartbeat("m1", 2)
    group.end(RebalanceTimeout(GROUP, "m1", 2))
    assert list(group.group.members) == ["m2"]
    assert group.timers == {SessionTimeout(GROUP, "m2"): 45_000}


def test_the_end_of_a_timer_that_no_longer_matters_changes_nothing() -> None:
    group = pair()
    for key in (RebalanceTimeout(GROUP, "m1", 2), RebalanceTimeout(GROUP, "m1", 3), SessionTimeout(GROUP, "m9")):
        assert decide_timer_ended(group.state, key, group.context()).records == ()
    assert decide_timer_ended(None, SessionTimeout(GROUP, "m1"), group.context()).records == ()


def test_the_rebalance_timeout_of_an_earlier_epoch_does_not_end_a_later_revocation() -> None:
    group = revoking_in_a_later_epoch()
    for epoch in (2, 3):
        key = RebalanceTimeout(GROUP, "m1", epoch)
        assert decide_timer_ended(group.state, key, group.context()).records == ()
    assert decide_timer_ended(group.state, RebalanceTimeout(GROUP, "m1", 4), group.context()).records != ()


def test_a_group_that_was_loaded_gives_its_members_the_whole_time_again() -> None:
    group = Coordinator(a=4)
    group.join("m1", "a")
    group.join("m2", "a")
    group.heartbeat("m1", 2)
    assert decide_loaded(group.group, group.settings, group.context()).timers == group.timers
    assert len(group.timers) == 3


# --- static members --------------------------------------------------------------------------------------------------


def test_a_static_member_returns_under_its_own_member_id() -> None:
    group = static()
    group.heartbeat("m1", LEFT_STATIC_EPOCH, instance_id="i1")
    assert group.join("m1", "a", instance_id="i1").assignment == partitions("a", 0, 1)
    assert SessionTimeout(GROUP, "m1") in group.timers


def test_an_instance_id_in_use_is_refused_to_a_second_member() -> None:
    group = static()
    assert (
        group.refusal(
            "m2",
            0,
            instance_id="i1",
            rebalance_timeout_ms=1,
            owned=NO_PARTITIONS,
            topics=frozenset({"a"}),
        )
        == "UNRELEASED_INSTANCE_ID"
    )


def test_a_static_member_that_missed_the_response_to_its_join_joins_again() -> None:
    group = static()
    assert group.join("m1", "a", instance_id="i1").assignment == partitions("a", 0, 1)
    assert group.group.epoch == 2


def test_a_static_member_that_has_left_for_a_while_is_fenced_if_it_goes_on() -> None:
    group = static()
    group.heartbeat("m1", LEFT_STATIC_EPOCH, instance_id="i1")
    assert group.refusal("m1", 2, instance_id="i1", owned=NO_PARTITIONS) == "FENCED_MEMBER_EPOCH"


def test_a_static_member_that_does_not_return_is_removed_at_the_end_of_its_session() -> None:
    group = static()
    group.heartbeat("m1", LEFT_STATIC_EPOCH, instance_id="i1")
    group.end(SessionTimeout(GROUP, "m1"))
    assert group.group.state is ConsumerGroupState.EMPTY
    assert group.group.instances == {}


def test_a_static_member_that_leaves_for_good_is_removed_at_once() -> None:
    group = static()
    group.heartbeat("m1", -1, instance_id="i1")
    assert group.group.state is ConsumerGroupState.EMPTY


def test_a_static_member_that_leaves_releases_what_it_had_to_give_up() -> None:
    group = Coordinator(a=4)
    group.join("m1", "a", instance_id="i1")
    group.join("m2", "a")
    group.heartbeat("m1", 2)
    group.heartbeat("m1", LEFT_STATIC_EPOCH, instance_id="i1")
    assert RebalanceTimeout(GROUP, "m1", 2) not in group.timers
    assert group.heartbeat("m2", 3).assignment == group.group.target("m2")
    assert group.member("m2").state is MemberState.STABLE
    group.join("m3", "a", instance_id="i1")
    group.settle()
    assert len(group.owners()) == 4


# --- deletion --------------------------------------------------------------------------------------------------------


def test_a_group_with_members_is_not_deleted() -> None:
    group = pair()
    [reply] = decide_deletion(group.group, Ticket(1)).replies
    assert isinstance(reply.response, Refusal)
    assert reply.response.error_code.name == "NON_EMPTY_GROUP"


def test_nothing_is_left_of_a_deleted_group() -> None:
    group = pair()
    group.heartbeat("m1", -1)
    group.heartbeat("m2", -1)
    group.apply(decide_deletion(group.group, Ticket(1)))
    assert group.state is None
    assert replayed(compacted(group.log)) is None
    assert all(record.value is None for record in compacted(group.log))
