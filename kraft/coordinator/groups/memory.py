"""The memory that a request to a group, of either kind, may take."""

from __future__ import annotations

from kraft.coordinator.classic import memory as classic_memory
from kraft.coordinator.classic.messages import JoinGroup
from kraft.coordinator.consumer import memory as consumer_memory
from kraft.coordinator.consumer.requests import ConsumerHeartbeat
from kraft.coordinator.groups.replicated import Groups
from kraft.coordinator.groups.volatile import GroupsVolatile
from kraft.wire.schema.sync_group import SyncGroupRequest


def wanted_bytes(
    groups: Groups, volatile: GroupsVolatile | None, command: JoinGroup | SyncGroupRequest | ConsumerHeartbeat
) -> int:
    """Return how much more memory the group may take after the request than before."""
    group_id = command.group_id
    consumer = groups.consumer.get(group_id)
    if isinstance(command, ConsumerHeartbeat):
        return consumer_memory.wanted_bytes(consumer, command)
    group = None if volatile is None else volatile.classic.get(group_id)
    request = command.request if isinstance(command, JoinGroup) else command
    known = None if consumer is None else consumer.members.get(request.member_id)
    held = 0 if known is None else consumer_memory.member_bytes(group_id, known)
    return classic_memory.wanted_bytes(group, command) - held
