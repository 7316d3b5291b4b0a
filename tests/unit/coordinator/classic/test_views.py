"""Groups as administrators see them."""

from __future__ import annotations

from kraft.coordinator.classic.group import GroupState
from kraft.coordinator.classic.views import described, listed
from tests.unit.coordinator.classic.coordinator import GROUP, Coordinator


def test_a_group_that_does_not_exist_is_dead() -> None:
    group = described(GROUP, None)
    assert (group.state, group.members) == (GroupState.DEAD, ())


def test_a_stable_group_is_described_with_metadata_and_assignments() -> None:
    coordinator = Coordinator()
    (member_id,) = coordinator.stable(1)
    group = described(GROUP, coordinator.group)
    assert (group.state, group.protocol_type, group.protocol) == (GroupState.STABLE, "consumer", "range")
    (member,) = group.members
    assert (member.member_id, member.client_host) == (member_id, "/10.0.0.1")
    assert (member.metadata, member.assignment) == (b"range:orders", f"{member_id} in 1".encode())


def test_a_group_that_rebalances_is_described_without_protocol_and_metadata() -> None:
    coordinator = Coordinator()
    leader, _ = coordinator.stable()
    coordinator.join(leader)
    group = described(GROUP, coordinator.group)
    assert (group.state, group.protocol) == (GroupState.PREPARING_REBALANCE, "")
    assert [member.metadata for member in group.members] == [b"", b""]


def test_groups_are_listed_with_type_and_state() -> None:
    coordinator = Coordinator()
    coordinator.join()
    assert (listed(coordinator.live).protocol_type, listed(coordinator.live).state.value) == ("", "Empty")
    coordinator.stable(1)
    assert (listed(coordinator.live).protocol_type, listed(coordinator.live).state.value) == ("consumer", "Stable")
