"""The end of a session: the member is removed, unless it waits for the coordinator."""

from __future__ import annotations

from kraft.coordinator.classic.group import ClassicGroupState
from kraft.coordinator.classic.messages import JoinedGroup, SyncedGroup
from kraft.model.errors import ErrorCode
from tests.unit.coordinator.classic.coordinator import SESSION_MS, Coordinator


def test_a_member_whose_session_ended_is_removed_and_the_others_rebalance() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.stable()
    coordinator.advance(SESSION_MS // 2)
    coordinator.heartbeat(follower)
    coordinator.advance(SESSION_MS // 2)
    assert list(coordinator.live.members) == [follower]
    assert coordinator.live.leader is None
    assert coordinator.refusal(coordinator.join(leader)) is ErrorCode.UNKNOWN_MEMBER_ID
    joined = coordinator.answer(coordinator.join(follower), JoinedGroup)
    assert (joined.generation, joined.leader) == (2, follower)


def test_the_session_of_a_member_that_waits_for_others_to_join_does_not_end() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.stable()
    ticket = coordinator.join(leader)
    for _ in range(3):
        coordinator.heartbeat(follower)
        coordinator.advance(SESSION_MS - 1)
    assert coordinator.waits(ticket)
    coordinator.join(follower)
    assert coordinator.answer(ticket, JoinedGroup).generation == 2


def test_the_session_of_a_member_that_waits_for_its_assignment_does_not_end_and_then_begins_again() -> None:
    coordinator = Coordinator()
    joined = [coordinator.join_with_id()[0] for _ in range(2)]
    coordinator.advance(6_000)
    leader = coordinator.live.leader
    assert leader is not None
    (follower,) = (member_id for member_id in joined if member_id != leader)
    ticket = coordinator.sync(follower)
    for _ in range(2):
        coordinator.advance(SESSION_MS - 1)
        coordinator.heartbeat(leader)
    coordinator.sync(leader)
    assert coordinator.answer(ticket, SyncedGroup).protocol == "range"
    coordinator.advance(SESSION_MS - 1)
    assert follower in coordinator.live.members


def test_a_new_member_whose_join_waits_too_long_is_removed() -> None:
    coordinator = Coordinator(new_member_join_timeout_ms=20_000)
    members = coordinator.stable(1)
    _, ticket = coordinator.join_with_id()
    for _ in range(3):
        coordinator.advance(7_000)
        coordinator.heartbeat(members[0])
    assert coordinator.refusal(ticket) is ErrorCode.UNKNOWN_MEMBER_ID
    assert list(coordinator.live.members) == members


def test_the_last_session_that_ends_leaves_an_empty_group_on_record() -> None:
    coordinator = Coordinator()
    coordinator.stable(2)
    coordinator.advance(SESSION_MS)
    assert coordinator.state is ClassicGroupState.EMPTY
    value = coordinator.recorded
    assert value is not None
    assert (value.generation, value.protocol, value.leader, value.members) == (2, None, None, ())
    assert value.protocol_type == "consumer"
    assert value.current_state_timestamp == coordinator.now_ms
