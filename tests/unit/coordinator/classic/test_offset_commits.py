"""Offset commits: from members of the current generation, and from anyone while the group is empty."""

from __future__ import annotations

from typing import Any

import pytest

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


def test_anyone_may_commit_for_a_group_that_does_not_exist_but_not_as_a_member() -> None:
    assert verdict(Coordinator()) is ErrorCode.NONE
    assert verdict(Coordinator(), generation=1, member_id="someone") is ErrorCode.ILLEGAL_GENERATION


def test_anyone_may_commit_for_an_empty_group_but_not_as_a_member() -> None:
    coordinator = Coordinator()
    coordinator.stable(1)
    coordinator.advance(SESSION_MS)
    assert verdict(coordinator) is ErrorCode.NONE
    assert verdict(coordinator, generation=2, member_id="someone") is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("is_transactional", [False, True])
def test_members_commit_for_their_generation_only(is_transactional: bool) -> None:
    coordinator = Coordinator()
    (member_id,) = coordinator.stable(1)
    fields = {"member_id": member_id, "is_transactional": is_transactional}
    assert verdict(coordinator, generation=1, **fields) is ErrorCode.NONE
    assert verdict(coordinator, generation=0, **fields) is ErrorCode.ILLEGAL_GENERATION
    assert verdict(coordinator, generation=2, **fields) is ErrorCode.ILLEGAL_GENERATION
    assert verdict(coordinator, generation=-1, **fields) is ErrorCode.ILLEGAL_GENERATION
    assert verdict(coordinator, generation=1, member_id="someone") is ErrorCode.UNKNOWN_MEMBER_ID
    assert verdict(coordinator, generation=1, group_instance_id="z", **fields) is ErrorCode.UNKNOWN_MEMBER_ID


def test_while_a_group_has_members_a_commit_without_a_member_is_refused_unless_a_transaction_makes_it() -> None:
    coordinator = Coordinator()
    coordinator.stable(1)
    assert verdict(coordinator) is ErrorCode.UNKNOWN_MEMBER_ID
    assert verdict(coordinator, is_transactional=True) is ErrorCode.NONE


def test_while_a_rebalance_is_prepared_members_commit_what_they_have_read() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.stable()
    coordinator.join(leader)
    assert verdict(coordinator, generation=1, member_id=follower) is ErrorCode.NONE


def test_while_a_rebalance_is_completed_members_are_to_wait() -> None:
    coordinator = Coordinator()
    member_id, _ = coordinator.join_with_id()
    coordinator.advance(3_000)
    assert verdict(coordinator, generation=1, member_id=member_id) is ErrorCode.REBALANCE_IN_PROGRESS
    assert verdict(coordinator, generation=1, member_id=member_id, is_transactional=True) is ErrorCode.NONE


def test_a_fenced_static_member_may_not_commit() -> None:
    coordinator = Coordinator()
    coordinator.join(group_instance_id="a")
    coordinator.advance(6_000)
    coordinator.settle(sorted(coordinator.live.members))
    old_id = coordinator.live.static_members["a"]
    coordinator.join(group_instance_id="a")
    committer = {"generation": 1, "member_id": old_id, "group_instance_id": "a"}
    assert verdict(coordinator, **committer) is ErrorCode.FENCED_INSTANCE_ID


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
