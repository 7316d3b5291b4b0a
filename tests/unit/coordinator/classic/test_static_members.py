"""Static members (KIP-345): they come back to their place, and the id that they had before is fenced."""

from __future__ import annotations

from kraft.coordinator.classic.group import ClassicGroupState
from kraft.model.errors import ErrorCode
from kraft.wire.schema.join_group import JoinGroupResponse
from kraft.wire.schema.sync_group import SyncGroupResponse
from tests.unit.coordinator.classic.coordinator import REBALANCE_MS, SESSION_MS, Coordinator, protocols


def stable_static(coordinator: Coordinator, *instances: str) -> dict[str, str]:
    """Bring a group of static members to its first generation; return their member ids by instance id."""
    for instance in instances:
        coordinator.join(group_instance_id=instance)
    coordinator.advance(6_000)
    coordinator.settle(sorted(coordinator.live.members))
    return dict(coordinator.live.static_members)


def follower_of(coordinator: Coordinator, members: dict[str, str]) -> str:
    return next(instance for instance, member_id in members.items() if member_id != coordinator.live.leader)


def leader_of(coordinator: Coordinator, members: dict[str, str]) -> str:
    return next(instance for instance, member_id in members.items() if member_id == coordinator.live.leader)


def test_a_new_static_member_joins_at_once() -> None:
    coordinator = Coordinator()
    assert coordinator.waits(coordinator.join(group_instance_id="a"))
    assert list(coordinator.live.members) == ["a-0001"]


def test_a_follower_that_comes_back_keeps_its_assignment_without_a_rebalance() -> None:
    coordinator = Coordinator()
    members = stable_static(coordinator, "a", "b")
    instance = follower_of(coordinator, members)
    writes = len(coordinator.records)
    back = coordinator.answer(coordinator.join(group_instance_id=instance), JoinGroupResponse)
    assert coordinator.state is ClassicGroupState.STABLE
    assert back.member_id != members[instance]
    assert (back.generation_id, back.skip_assignment, back.members) == (1, False, ())
    assert len(coordinator.records) == writes + 1
    synced = coordinator.answer(coordinator.sync(back.member_id), SyncGroupResponse)
    assert synced.assignment == f"{members[instance]} in 1".encode()


def test_a_leader_that_comes_back_leads_with_nothing_to_assign() -> None:
    coordinator = Coordinator()
    members = stable_static(coordinator, "a", "b")
    instance = leader_of(coordinator, members)
    back = coordinator.answer(coordinator.join(group_instance_id=instance), JoinGroupResponse)
    assert back.skip_assignment
    assert back.leader == back.member_id == coordinator.live.leader
    assert len(back.members) == 2


def test_a_leader_whose_client_cannot_skip_the_assignment_takes_itself_for_a_follower() -> None:
    coordinator = Coordinator()
    members = stable_static(coordinator, "a", "b")
    instance = leader_of(coordinator, members)
    ticket = coordinator.join(group_instance_id=instance, version=8)
    back = coordinator.answer(ticket, JoinGroupResponse)
    assert (back.leader, back.members, back.skip_assignment) == (members[instance], (), False)
    assert coordinator.live.leader == back.member_id


def test_a_static_member_that_comes_back_with_another_protocol_causes_a_rebalance() -> None:
    coordinator = Coordinator()
    for instance in ("a", "b"):
        coordinator.join(group_instance_id=instance, protocols=protocols("range", "sticky"))
    coordinator.advance(6_000)
    coordinator.settle(sorted(coordinator.live.members))
    assert coordinator.live.protocol == "range"
    assert coordinator.waits(coordinator.join(group_instance_id="a", protocols=protocols("sticky")))
    assert coordinator.state is ClassicGroupState.PREPARING_REBALANCE


def test_an_unknown_instance_id_with_a_member_id_is_refused() -> None:
    coordinator = Coordinator()
    members = stable_static(coordinator, "a")
    ticket = coordinator.join(members["a"], group_instance_id="z")
    assert coordinator.refusal(ticket) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_join_that_waits_is_fenced_by_the_next_one_of_its_instance() -> None:
    coordinator = Coordinator()
    first = coordinator.join(group_instance_id="a")
    second = coordinator.join(group_instance_id="a")
    assert coordinator.refusal(first) is ErrorCode.FENCED_INSTANCE_ID
    coordinator.advance(6_000)
    assert coordinator.answer(second, JoinGroupResponse).generation_id == 1


def test_while_a_rebalance_is_completed_a_static_member_that_comes_back_begins_another() -> None:
    coordinator = Coordinator()
    for instance in ("a", "b"):
        coordinator.join(group_instance_id=instance)
    coordinator.advance(6_000)
    instance = follower_of(coordinator, dict(coordinator.live.static_members))
    waiting = coordinator.sync(coordinator.live.static_members[instance])
    ticket = coordinator.join(group_instance_id=instance)
    assert coordinator.refusal(waiting) is ErrorCode.FENCED_INSTANCE_ID
    assert coordinator.waits(ticket)
    assert coordinator.state is ClassicGroupState.PREPARING_REBALANCE


def test_without_any_member_back_a_rebalance_waits_for_the_sessions_to_end() -> None:
    coordinator = Coordinator()
    members = stable_static(coordinator, "a", "b")
    coordinator.load(size_max=1)
    for _ in range(REBALANCE_MS // 5_000 + 1):
        for instance, member_id in members.items():
            coordinator.heartbeat(member_id, instance=instance)
        coordinator.advance(5_000)
    assert coordinator.state is ClassicGroupState.PREPARING_REBALANCE
    assert coordinator.live.generation == 1
    coordinator.advance(SESSION_MS)
    assert coordinator.is_in(ClassicGroupState.EMPTY)


def test_static_members_that_are_away_count_when_another_one_joins() -> None:
    coordinator = Coordinator(size_max=2)
    members = stable_static(coordinator, "a", "b")
    coordinator.join(members["a"], group_instance_id="a", protocols=protocols("range", topics="others"))
    assert coordinator.state is ClassicGroupState.PREPARING_REBALANCE
    assert coordinator.refusal(coordinator.join(group_instance_id="c")) is ErrorCode.GROUP_MAX_SIZE_REACHED
    # It comes back after a restart.
    joined = coordinator.answer(coordinator.join(group_instance_id="b"), JoinGroupResponse)
    assert joined.generation_id == 2
    assert set(coordinator.live.static_members) == {"a", "b"}
