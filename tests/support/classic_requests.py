"""Parts of requests of the classic group protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kraft.coordinator.classic.messages import JoinGroup
from kraft.model.request_context import RequestContext
from kraft.wire.schema.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kraft.wire.schema.sync_group import SyncGroupRequestAssignment


def offered(name: str, metadata: bytes = b"") -> JoinGroupRequestProtocol:
    """Return an assignor that a member supports, with its message to it."""
    return JoinGroupRequestProtocol(name=name, metadata=metadata)


def assigning(assignments: Mapping[str, bytes]) -> tuple[SyncGroupRequestAssignment, ...]:
    """Return what a leader assigns, by member id."""
    return tuple(
        SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
        for member_id, assignment in assignments.items()
    )


def join_command(*, client_id: str = "client", version: int = 9, **fields: Any) -> JoinGroup:
    """Return a JoinGroup from 10.0.0.1, of a new member unless the fields say otherwise."""
    request = JoinGroupRequest(**{"member_id": "", "protocol_type": "consumer", **fields})
    return JoinGroup(request, RequestContext(version=version, client_id=client_id, peer="10.0.0.1:5100"))
