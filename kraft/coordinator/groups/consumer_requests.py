"""Requests of the consumer protocol, to groups of either kind."""

from __future__ import annotations

from msgspec.structs import replace

from kraft.coordinator.consumer.checks import check_request
from kraft.coordinator.consumer.departures import decide_timer_ended
from kraft.coordinator.consumer.group import JOIN_EPOCH, ConsumerGroup
from kraft.coordinator.consumer.heartbeats import decide_heartbeat
from kraft.coordinator.consumer.regexes import decide_resolved
from kraft.coordinator.consumer.requests import ConsumerHeartbeat, ConsumerTimer, RejoinTimeout
from kraft.coordinator.group_refusals import not_of_protocol
from kraft.coordinator.groups.commands import ResolveRegexes
from kraft.coordinator.groups.downgrade import or_downgraded
from kraft.coordinator.groups.state import GroupsState
from kraft.coordinator.groups.upgrade import join_classic_group
from kraft.coordinator.groups.volatile import GroupsDecision
from kraft.coordinator.shard import Reply, Ticket
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.name_regex import regex_error


def heartbeat(state: GroupsState, ticket: Ticket, request: ConsumerHeartbeat) -> GroupsDecision:
    group_id = request.group_id
    group = state.groups.consumer.get(group_id)
    classic = state.volatile.classic.get(group_id) if group is None else None
    settings = state.settings.of_group(group_id)
    try:
        check_request(request, settings)
        _check_regex(group, request)
        if classic is not None and request.member_epoch != JOIN_EPOCH:
            raise not_of_protocol(group_id, "consumer")
    except Refusal as refusal:
        return state.replied(ticket, refusal)
    if group is None:
        # A run of a group that was deleted is none of the group that is created.
        state = replace(state, volatile=state.volatile.with_run(group_id, None))
    if classic is not None:
        return join_classic_group(state, classic, ticket, request)
    return or_downgraded(state, group, decide_heartbeat(group, ticket, request, state.context, settings))


def timer_ended(state: GroupsState, key: ConsumerTimer) -> GroupsDecision:
    """Decide what the end of a member's timer leads to."""
    if isinstance(key, RejoinTimeout):
        state = replace(state, volatile=state.volatile.with_rejoining({key: None}))
    group = state.groups.consumer.get(key.group_id)
    return or_downgraded(state, group, decide_timer_ended(group, key, state.context))


def _check_regex(group: ConsumerGroup | None, request: ConsumerHeartbeat) -> None:
    regex = request.topic_regex
    if not regex or request.member_epoch < JOIN_EPOCH:
        return
    if group is not None and regex in group.regex_counts:
        return  # It was checked when the first member came with it.
    error = regex_error(regex)
    if error is not None:
        raise Refusal(ErrorCode.INVALID_REGULAR_EXPRESSION, error)


def resolve_regexes(state: GroupsState, ticket: Ticket, command: ResolveRegexes) -> GroupsDecision:
    group = state.groups.consumer.get(command.group_id)
    decision = decide_resolved(group, command.results, state.context)
    return state.with_consumer(replace(decision, replies=(Reply(ticket, None),)))
