"""Refusals that more than one kind of group, or more than one request, has."""

from __future__ import annotations

from kraft.model.errors import ErrorCode, Refusal


def empty_group_id(error_code: ErrorCode = ErrorCode.INVALID_GROUP_ID) -> Refusal:
    return Refusal(error_code, "the group id is empty: set group.id")


def no_group(group_id: str) -> Refusal:
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id!r}")


def no_offsets(group_id: str) -> Refusal:
    """Return the refusal of what is asked about the committed offsets of a group that exists."""
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} has committed no offsets")


def not_of_protocol(group_id: str, protocol: str) -> Refusal:
    """Return the refusal of a request for groups of one protocol: `classic` or `consumer`."""
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id!r} of the {protocol} protocol")


def group_not_empty(group_id: str) -> Refusal:
    return Refusal(ErrorCode.NON_EMPTY_GROUP, f"group {group_id!r} has members: stop them first")
