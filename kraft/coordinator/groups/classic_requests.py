"""Requests of the classic protocol, to groups of either kind."""

from __future__ import annotations

from msgspec.structs import replace

from kraft.coordinator.classic import heartbeat as classic_heartbeat
from kraft.coordinator.classic import join, leave, sync
from kraft.coordinator.classic.messages import JoinGroup
from kraft.coordinator.classic.validation import validate_join
from kraft.coordinator.consumer import classic_members
from kraft.coordinator.consumer.group import ConsumerGroup
from kraft.coordinator.groups.downgrade import or_downgraded
from kraft.coordinator.groups.replicated import group_tombstones
from kraft.coordinator.groups.settings import MigrationPolicy
from kraft.coordinator.groups.state import GroupsState
from kraft.coordinator.groups.volatile import GroupsDecision
from kraft.coordinator.shard import Ticket
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.heartbeat import HeartbeatRequest
from kraft.wire.schema.leave_group import LeaveGroupRequest
from kraft.wire.schema.sync_group import SyncGroupRequest


def join_group(state: GroupsState, ticket: Ticket, command: JoinGroup) -> GroupsDecision:
    group_id = command.group_id
    consumer = state.groups.consumer.get(group_id)
    if consumer is not None and consumer.members:
        return _join_consumer_group(state, consumer, ticket, command)
    group = state.volatile.classic.get(group_id)
    decision = join.join_group(group, ticket, command, state.settings.classic, state.context)
    if consumer is not None and decision.volatile is not None:
        decision = replace(decision, records=(*group_tombstones(state.groups, group_id), *decision.records))
    return state.with_classic(group_id, decision)


def _join_consumer_group(
    state: GroupsState, group: ConsumerGroup, ticket: Ticket, command: JoinGroup
) -> GroupsDecision:
    refusal = validate_join(command.request, state.settings.classic)
    if state.settings.migration_policy is MigrationPolicy.DISABLED:
        message = f"group {group.group_id!r} has members of the consumer protocol: set group.protocol=consumer"
        refusal = refusal or Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)
    if refusal is not None:
        return state.replied(ticket, refusal)
    settings = state.settings.of_group(group.group_id)
    return or_downgraded(state, group, classic_members.decide_join(group, ticket, command, state.context, settings))


def sync_group(state: GroupsState, ticket: Ticket, request: SyncGroupRequest) -> GroupsDecision:
    group_id = request.group_id
    consumer = state.groups.consumer.get(group_id)
    if consumer is not None:
        settings = state.settings.of_group(group_id)
        return state.with_consumer(classic_members.decide_sync(consumer, ticket, request, state.context, settings))
    group = state.volatile.classic.get(group_id)
    return state.with_classic(group_id, sync.sync_group(group, ticket, request, state.settings.classic, state.context))


def heartbeat(state: GroupsState, ticket: Ticket, request: HeartbeatRequest) -> GroupsDecision:
    group_id = request.group_id
    consumer = state.groups.consumer.get(group_id)
    if consumer is not None:
        settings = state.settings.of_group(group_id)
        return state.with_consumer(classic_members.decide_heartbeat(consumer, ticket, request, state.context, settings))
    group = state.volatile.classic.get(group_id)
    return state.with_classic(
        group_id, classic_heartbeat.heartbeat(group, ticket, request, state.settings.classic, state.context)
    )


def leave_group(state: GroupsState, ticket: Ticket, request: LeaveGroupRequest) -> GroupsDecision:
    group_id = request.group_id
    consumer = state.groups.consumer.get(group_id)
    if consumer is not None:
        return or_downgraded(state, consumer, classic_members.decide_leave(consumer, ticket, request, state.context))
    group = state.volatile.classic.get(group_id)
    return state.with_classic(
        group_id, leave.leave_group(group, ticket, request, state.settings.classic, state.context)
    )
