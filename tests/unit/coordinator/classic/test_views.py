"""Groups as administrators see them."""

from __future__ import annotations

from kraft.coordinator.classic.group import ClassicGroupState
from kraft.coordinator.classic.views import described
from tests.unit.coordinator.classic.coordinator import Coordinator


def test_a_stable_group_is_described_with_metadata_and_assignments() -> None:
    coordinator = Coordinator()
    (member_id,) = coordinator.stable(1)
    group = described(coordinator.live)
    assert (group.group_state, group.protocol_type, group.protocol_data) == (
        ClassicGroupState.STABLE.value,
        "consumer",
        "range",
    )
    (member,) = group.members
    assert (member.member_id, member.client_host) == (member_id, "/10.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (b"range:orders", f"{member_id} in 1".encode())


def test_a_group_that_rebalances_is_described_without_protocol_and_metadata() -> None:
    coordinator = Coordinator()
    leader, _ = coordinator.stable()
    coordinator.join(leader)
    group = described(coordinator.live)
    assert (group.group_state, group.protocol_data) == (ClassicGroupState.PREPARING_REBALANCE.value, "")
    assert [member.member_metadata for member in group.members] == [b"", b""]
