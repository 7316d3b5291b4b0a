"""A static member that comes back without its member id, as after a restart, takes its own place (KIP-345)."""

from __future__ import annotations

from kraft.coordinator.classic.draft import ClassicDraft
from kraft.coordinator.classic.group import (
    ClassicGroupState,
    as_requested,
    rename_member,
    select_protocol,
    update_member,
)
from kraft.coordinator.classic.messages import JoinGroup
from kraft.coordinator.classic.rebalance import join_reason, joined, prepare_or_complete
from kraft.coordinator.classic.timers import SessionTimer
from kraft.coordinator.classic.validation import instance_fenced
from kraft.coordinator.group_events import MemberReplaced
from kraft.coordinator.shard import Ticket
from kraft.wire.declaration import replace
from kraft.wire.schema.join_group import JoinGroupResponse


def replace_static_member(draft: ClassicDraft, ticket: Ticket, command: JoinGroup) -> None:
    """Give the member a new id, and fence requests with the old one. A stable group goes on if its protocol stays."""
    request = command.request
    assert request.group_instance_id is not None
    old_id = draft.group.static_members[request.group_instance_id]
    new_id = draft.new_member_id(request.group_instance_id)
    old_leader = draft.group.leader
    draft.answer_join(old_id, instance_fenced(request.group_instance_id))
    draft.answer_sync(old_id, instance_fenced(request.group_instance_id))
    draft.set_timer(SessionTimer(request.group_id, old_id), None)
    draft.group = rename_member(draft.group, old_id, new_id)
    draft.report(
        MemberReplaced(
            group_id=request.group_id, member_id=new_id, instance_id=request.group_instance_id, replaced_id=old_id
        )
    )
    draft.group = update_member(draft.group, as_requested(draft.group.members[new_id], request))
    draft.start_session(draft.group.members[new_id])
    group = draft.group
    if group.state is ClassicGroupState.STABLE and select_protocol(group) == group.protocol:
        draft.write_group()
        response = joined(group, new_id)
        draft.reply(ticket, _skipping(response) if command.can_skip_assignment else _following(response, old_leader))
    else:
        # While a rebalance is completed, the leader may be about to assign to the old id, and none to the new one.
        draft.park_join(new_id, ticket)
        prepare_or_complete(draft, join_reason(f"static member {request.group_instance_id} became {new_id}", request))


def _skipping(response: JoinGroupResponse) -> JoinGroupResponse:
    """Return the response by which a leader knows that it leads, but has nothing to assign (KIP-814)."""
    return replace(response, skip_assignment=response.leader == response.member_id)


def _following(response: JoinGroupResponse, leader: str | None) -> JoinGroupResponse:
    """Return the response for clients that cannot skip the assignment: a leader believes that its old id leads."""
    return replace(response, leader=leader, members=())
