"""Whether a request comes from a current member of a classic group, and the refusals of requests that do not."""

from __future__ import annotations

from kraft.coordinator.classic.group import ClassicGroup
from kraft.coordinator.classic.settings import ClassicSettings
from kraft.coordinator.group_refusals import empty_group_id
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.join_group import JoinGroupRequest


def validate_group_id(group_id: str) -> Refusal | None:
    return None if group_id else empty_group_id()


def validate_join(request: JoinGroupRequest, settings: ClassicSettings) -> Refusal | None:
    """Return what is wrong with a JoinGroup whatever the group is, or None."""
    least, most = settings.session_timeout_min_ms, settings.session_timeout_max_ms
    if not request.group_id or least <= request.session_timeout_ms <= most:
        return validate_group_id(request.group_id)
    message = f"the session timeout is {request.session_timeout_ms} ms: set session.timeout.ms to {least} to {most}"
    return Refusal(ErrorCode.INVALID_SESSION_TIMEOUT, message)


def validate_member(group: ClassicGroup, member_id: str, group_instance_id: str | None) -> Refusal | None:
    """Return why a request does not come from a member of the group, or None if it does."""
    current = group.static_members.get(group_instance_id) if group_instance_id is not None else member_id
    if current is not None and current != member_id and group_instance_id is not None:
        return instance_fenced(group_instance_id)
    if current is None or member_id not in group.members:
        return unknown_member(group.group_id, member_id)
    return None


def validate_generation(
    group: ClassicGroup, member_id: str, group_instance_id: str | None, generation: int
) -> Refusal | None:
    """Return why a request does not come from a member of the group's current generation, or None if it does."""
    refusal = validate_member(group, member_id, group_instance_id)
    if refusal is None and generation != group.generation:
        return illegal_generation(group.group_id, generation)
    return refusal


def instance_fenced(group_instance_id: str) -> Refusal:
    message = f"another member uses the instance id {group_instance_id!r}: set another group.instance.id"
    return Refusal(ErrorCode.FENCED_INSTANCE_ID, message)


def no_member(group_id: str, member_id: str) -> Refusal:
    """Return why a request to a group that does not exist is refused."""
    return validate_group_id(group_id) or unknown_member(group_id, member_id)


def unknown_member(group_id: str, member_id: str) -> Refusal:
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"group {group_id!r} has no member {member_id!r}: join again")


def illegal_generation(group_id: str, generation: int) -> Refusal:
    message = f"generation {generation} is not the current one of group {group_id!r}: join again"
    return Refusal(ErrorCode.ILLEGAL_GENERATION, message)


def rebalance_in_progress(group_id: str) -> Refusal:
    return Refusal(ErrorCode.REBALANCE_IN_PROGRESS, f"group {group_id!r} rebalances: join again")
