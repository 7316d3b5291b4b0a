"""Heartbeat: keeps a session, and says when to join again."""

from __future__ import annotations

from kraft.coordinator.classic.group import ClassicGroupState
from kraft.coordinator.classic.messages import MemberIdRequired
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.heartbeat import HeartbeatResponse
from tests.unit.coordinator.classic.coordinator import SESSION_MS, Coordinator


def code(response: object) -> ErrorCode:
    assert isinstance(response, Refusal), response
    return response.error_code


def test_heartbeats_keep_the_session() -> None:
    coordinator = Coordinator()
    (member_id,) = coordinator.stable(1)
    for _ in range(3):
        coordinator.advance(SESSION_MS - 1)
        assert coordinator.heartbeat(member_id) == HeartbeatResponse(error_code=0)
    coordinator.advance(SESSION_MS - 1)
    assert member_id in coordinator.live.members
    coordinator.advance(1)
    assert coordinator.state is ClassicGroupState.EMPTY


def test_while_a_rebalance_is_completed_heartbeats_are_accepted() -> None:
    coordinator = Coordinator()
    member_id, _ = coordinator.join_with_id()
    coordinator.advance(3_000)
    assert coordinator.state is ClassicGroupState.COMPLETING_REBALANCE
    assert coordinator.heartbeat(member_id) == HeartbeatResponse(error_code=0)


def test_heartbeats_of_others_are_refused() -> None:
    coordinator = Coordinator()
    assert code(coordinator.heartbeat("someone", 0)) is ErrorCode.UNKNOWN_MEMBER_ID
    pending = coordinator.answer(coordinator.join(), MemberIdRequired).member_id
    assert code(coordinator.heartbeat(pending)) is ErrorCode.UNKNOWN_MEMBER_ID
    (member_id,) = coordinator.stable(1)
    assert code(coordinator.heartbeat(member_id, 0)) is ErrorCode.ILLEGAL_GENERATION
    assert code(coordinator.heartbeat(member_id, 2)) is ErrorCode.ILLEGAL_GENERATION
    assert code(coordinator.heartbeat("someone")) is ErrorCode.UNKNOWN_MEMBER_ID
