from __future__ import annotations

from kraft.coordinator.consumer.description import describe
from kraft.coordinator.consumer.group import ConsumerGroupState
from kraft.coordinator.consumer.requests import MemberDescription
from kraft.coordinator.consumer.settings import GroupSettings
from kraft.coordinator.consumer.targets import preferred_assignor
from tests.unit.coordinator.consumer.coordinator import GROUP, Coordinator


def test_a_group_is_described_with_its_members_by_id_and_what_they_shall_have() -> None:
    group = Coordinator(a=4)
    group.join("m2", "a")
    group.join("m1", "a")
    described = describe(group.group, group.settings)
    assert (described.group_id, described.state, described.assignor) == (
        GROUP,
        ConsumerGroupState.RECONCILING,
        "uniform",
    )
    assert (described.epoch, described.assignment_epoch) == (3, 3)
    assert described.members == tuple(
        MemberDescription(member=group.member(member_id), target=group.group.target(member_id))
        for member_id in ("m1", "m2")
    )


def test_the_first_assignor_is_used_where_none_is_asked_for_and_those_no_longer_supported_do_not_count() -> None:
    group = Coordinator(a=1)
    group.join("m1", "a")
    assert preferred_assignor(group.group, GroupSettings(assignors=("range", "uniform"))) == "range"
    group.heartbeat("m1", 2, server_assignor="uniform")
    assert preferred_assignor(group.group, GroupSettings(assignors=("range", "uniform"))) == "uniform"
    assert preferred_assignor(group.group, GroupSettings(assignors=("range",))) == "range"


def test_of_two_assignors_with_equally_many_votes_the_first_in_the_alphabet_is_used() -> None:
    group = Coordinator(a=1)
    group.join("m1", "a", server_assignor="uniform")
    group.join("m2", "a", server_assignor="range")
    assert preferred_assignor(group.group, group.settings) == "range"
