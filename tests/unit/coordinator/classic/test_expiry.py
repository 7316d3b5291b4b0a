"""The end of a session: the member is removed, unless it waits for the coordinator."""

from __future__ import annotations

from kraft.model.errors import ErrorCode
from kraft.wire.schema.join_group import JoinGroupResponse
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
    joined = coordinator.answer(coordinator.join(follower), JoinGroupResponse)
    assert (joined.generation_id, joined.leader) == (2, follower)


def test_the_session_of_a_member_that_waits_for_others_to_join_does_not_end() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.stable()
    ticket = coordinator.join(leader)
    for _ in range(3):
        coordinator.heartbeat(follower)
        coordinator.advance(SESSION_MS - 1)
    assert coordinator.waits(ticket)
    coordinator.join(follower)
    assert coordinator.answer(ticket, JoinGroupResponse).generation_id == 2
