"""Deletion of a group: only an empty one."""

from __future__ import annotations

from kraft.coordinator.classic.group import ClassicGroupState
from kraft.coordinator.classic.messages import GroupDeleted, MemberIdRequired
from kraft.model.errors import ErrorCode, Refusal
from tests.unit.coordinator.classic.coordinator import SESSION_MS, Coordinator


def test_an_empty_group_is_deleted_with_the_ids_that_it_gave_out() -> None:
    coordinator = Coordinator()
    coordinator.stable(1)
    coordinator.advance(SESSION_MS)
    pending = coordinator.answer(coordinator.join(), MemberIdRequired).member_id
    assert coordinator.delete() == GroupDeleted()
    assert coordinator.state is ClassicGroupState.DEAD
    assert coordinator.records[-1] is None
    assert coordinator.refusal(coordinator.join(pending)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_that_was_never_recorded_is_deleted_without_a_record() -> None:
    coordinator = Coordinator()
    coordinator.join()
    assert coordinator.delete() == GroupDeleted()
    assert coordinator.records == []


def test_a_group_with_members_is_not_deleted() -> None:
    coordinator = Coordinator()
    coordinator.stable(1)
    refusal = coordinator.delete()
    assert isinstance(refusal, Refusal)
    assert refusal.error_code is ErrorCode.NON_EMPTY_GROUP
    assert coordinator.state is ClassicGroupState.STABLE


def test_a_group_that_does_not_exist_is_not_deleted() -> None:
    refusal = Coordinator().delete()
    assert isinstance(refusal, Refusal)
    assert refusal.error_code is ErrorCode.GROUP_ID_NOT_FOUND
