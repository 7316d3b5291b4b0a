"""Texts of requests that do not fit into the records of `__consumer_offsets`."""

from __future__ import annotations

from typing import Final

from kraft.coordinator.classic.messages import JoinGroup
from kraft.coordinator.consumer.assignment_run import GiveUpRun, TakeTargets
from kraft.coordinator.consumer.requests import ConsumerHeartbeat
from kraft.coordinator.groups.commands import DeleteTopicOffsets, GroupCommand
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.heartbeat import HeartbeatRequest
from kraft.wire.schema.leave_group import LeaveGroupRequest
from kraft.wire.schema.sync_group import SyncGroupRequest

_BYTES_MAX: Final = 2**15 - 1
"""Longest text of Kafka's protocol and records."""

_UTF8_BYTES_MAX: Final = 4
_ID_BYTES: Final = 100
"""More than the random part of a member id takes, which is added to what the client sends."""


def too_long(command: GroupCommand) -> Refusal | None:
    """Return why a request cannot be recorded, or None if it can."""
    match command:
        case HeartbeatRequest() | SyncGroupRequest() | LeaveGroupRequest():
            return None  # These record no text of their own.
        case DeleteTopicOffsets() | TakeTargets() | GiveUpRun():
            return None
        case JoinGroup():
            request, client = command.request, command.client
            texts: tuple[str | None, ...] = (
                request.group_instance_id,
                client.client_id,
                client.client_host,
                request.protocol_type,
                *(offered.name for offered in request.protocols),
            )
        case ConsumerHeartbeat():
            own = (command.member_id, command.instance_id, command.rack_id, command.client_id, command.topic_regex)
            texts = (*own, *(command.topics or ()))
        case _:
            texts = ()
    if (refusal := group_id_error(command.group_id)) is not None:
        return refusal
    most = _BYTES_MAX - _ID_BYTES
    longest = next((text for text in texts if text and _exceeds(text, most)), None)
    if longest is None:
        return None
    return Refusal(ErrorCode.INVALID_REQUEST, f"a text is longer than {most} bytes: {longest[:40]}...")


def group_id_error(group_id: str) -> Refusal | None:
    """Return why no group can have this id, or None."""
    if not _exceeds(group_id, _BYTES_MAX):
        return None
    return Refusal(ErrorCode.INVALID_GROUP_ID, f"the group id is longer than {_BYTES_MAX} bytes")


def _exceeds(text: str, bytes_max: int) -> bool:
    return len(text) * _UTF8_BYTES_MAX > bytes_max and len(text.encode()) > bytes_max
