"""The memory that the members of classic groups take, as an estimate that follows each change."""

from __future__ import annotations

from typing import Final

from kraft.coordinator.classic.group import ClassicGroup
from kraft.coordinator.classic.messages import JoinGroup
from kraft.coordinator.classic.sync import assignments
from kraft.wire.schema.join_group import JoinGroupRequestProtocol
from kraft.wire.schema.sync_group import SyncGroupRequest

GROUP_BYTES: Final = 1_024
"""Memory of a group without members, besides its texts."""

MEMBER_BYTES: Final = 1_024
"""Memory of a member, or of an id that was given out for one, with its timer, besides its texts and assignment."""

PROTOCOL_BYTES: Final = 128

_CHARACTER_BYTES_MAX: Final = 4


def wanted_bytes(group: ClassicGroup | None, command: JoinGroup | SyncGroupRequest) -> int:
    """Return how much more memory the group may take after the request than before."""
    if isinstance(command, SyncGroupRequest):
        given = assignments(command).items() if group is not None else ()
        return sum(len(data) - _assigned_bytes(group, member_id) for member_id, data in given)
    request, client = command.request, command.client
    new_group = GROUP_BYTES + text_bytes(request.group_id, request.protocol_type) if group is None else 0
    texts = (request.member_id, request.group_instance_id, client.client_id, client.client_host)
    member = _member_bytes(request.group_id, *texts, protocols=request.protocols)
    return new_group + member - _held_bytes(group, request.member_id)


def added_bytes(before: ClassicGroup | None, after: ClassicGroup | None) -> int:
    """Return how much more memory a group takes than before; None is a group that does not exist."""
    group = before or after
    if group is None:
        return 0
    empty = ClassicGroup(group_id=group.group_id)
    old, new = before or empty, after or empty
    ids = {*new.pending_joins.differing_keys(old.pending_joins), *new.members.differing_keys(old.members)}
    members = sum(_more_bytes(old, new, member_id) for member_id in ids)
    return _group_bytes(after) - _group_bytes(before) + members


def _group_bytes(group: ClassicGroup | None) -> int:
    if group is None:
        return 0
    return GROUP_BYTES + text_bytes(group.group_id, group.protocol_type, group.rebalance_reason)


def _more_bytes(old: ClassicGroup, new: ClassicGroup, member_id: str) -> int:
    """Return how much more memory a member takes than before; in a rebalance, only the assignment of most changes."""
    before, after = old.members.get(member_id), new.members.get(member_id)
    if before is not None and after is not None and before.protocols is after.protocols:
        return len(after.assignment) - len(before.assignment)
    return _held_bytes(new, member_id) - _held_bytes(old, member_id)


def _held_bytes(group: ClassicGroup | None, member_id: str) -> int:
    """Return the memory that a member, or its id, takes in the group."""
    if group is None:
        return 0
    if member_id in group.members:
        member = group.members[member_id]
        texts = (member_id, member.group_instance_id, member.client_id, member.client_host)
        return _member_bytes(group.group_id, *texts, protocols=member.protocols) + len(member.assignment)
    return MEMBER_BYTES + text_bytes(group.group_id, member_id) if member_id in group.pending_joins else 0


def _member_bytes(*texts: str | None, protocols: tuple[JoinGroupRequestProtocol, ...]) -> int:
    """Return the memory of a member without its assignment. Its timer has the group id of its own request."""
    return (
        MEMBER_BYTES
        + text_bytes(*texts)
        + sum(PROTOCOL_BYTES + text_bytes(each.name) + len(each.metadata) for each in protocols)
    )


def _assigned_bytes(group: ClassicGroup | None, member_id: str) -> int:
    member = None if group is None else group.members.get(member_id)
    return 0 if member is None else len(member.assignment)


def text_bytes(*texts: str | None) -> int:
    """Return the memory of texts, at most."""
    return sum(len(text) * (1 if text.isascii() else _CHARACTER_BYTES_MAX) for text in texts if text)
