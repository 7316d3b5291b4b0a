"""Offset commits: from members of the current generation, and from anyone while the group is empty."""

from __future__ import annotations

from typing import Any

from kraft.coordinator.classic.group import ClassicGroupState
from kraft.coordinator.classic.offset_commits import (
    session_after_commit,
    validate_offset_commit,
    validate_offset_delete,
)
from kraft.coordinator.classic.timers import SessionTimer
from kraft.coordinator.offsets.committer import Committer
from kraft.model.errors import ErrorCode
from tests.unit.coordinator.classic.coordinator import GROUP, SESSION_MS, Coordinator


def verdict(coordinator: Coordinator, **committer: Any) -> ErrorCode:
    refusal = validate_offset_commit(coordinator.group, GROUP, Committer(**committer))
    return ErrorCode.NONE if refusal is None else refusal.error_code


def test_while_a_group_has_members_a_commit_without_a_member_is_refused_unless_a_transaction_makes_it() -> None:
    coordinator = Coordinator()
    coordinator.stable(1)
    assert verdict(coordinator) is ErrorCode.UNKNOWN_MEMBER_ID
    assert verdict(coordinator, is_transactional=True) is ErrorCode.NONE


def test_while_a_rebalance_is_completed_members_are_to_wait() -> None:
    coordinator = Coordinator()
    member_id, _ = coordinator.join_with_id()
    coordinator.advance(3_000)
    assert verdict(coordinator, generation=1, member_id=member_id) is ErrorCode.REBALANCE_IN_PROGRESS
    assert verdict(coordinator, generation=1, member_id=member_id, is_transactional=True) is ErrorCode.NONE


def test_a_commit_keeps_the_session_as_a_heartbeat_does() -> None:
    coordinator = Coordinator()
    (member_id,) = coordinator.stable(1)
    committer = Committer(generation=1, member_id=member_id)
    assert session_after_commit(coordinator.group, committer) == {SessionTimer(GROUP, member_id): SESSION_MS}
    assert session_after_commit(coordinator.group, Committer()) == {}
    assert session_after_commit(None, Committer()) == {}


def test_offsets_of_a_group_with_members_are_deleted_only_where_its_topics_are_known() -> None:
    coordinator = Coordinator()
    coordinator.stable(1, protocol_type="connect")
    refusal = validate_offset_delete(coordinator.live)
    assert refusal is not None
    assert refusal.error_code is ErrorCode.NON_EMPTY_GROUP
    coordinator.advance(SESSION_MS)
    assert coordinator.state is ClassicGroupState.EMPTY
    assert validate_offset_delete(coordinator.live) is None
    coordinator.stable(1)
    assert validate_offset_delete(coordinator.live) is None
