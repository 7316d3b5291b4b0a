"""Target assignments that are not computed with the request that needs them: after the interval, or beside the shard.

A group has at most one run at a time. What a run brings back is dropped if the group is gone, or has got a target
assignment of that epoch or a later one meanwhile; members that have left are skipped. If the group's epoch was bumped
during the run, the next run begins when the interval has passed. A run ends with the volatile state, so that what it
brings after the shard was loaded again is dropped, too.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from kraft.coordinator.consumer import assignment_run
from kraft.coordinator.consumer.assignment_run import AssignmentRun, GiveUpRun, TakeTargets
from kraft.coordinator.consumer.draft import ConsumerDraft
from kraft.coordinator.consumer.requests import AssignmentTimer, FailedRunTimer
from kraft.coordinator.consumer.targets import is_offloaded, wait_ms
from kraft.coordinator.groups.state import GroupsState
from kraft.coordinator.groups.volatile import GroupsDecision
from kraft.coordinator.shard import Reply, ShardDecision, Ticket

AFTER_A_FAILURE_MS: Final = 10_000
"""Pause after a run that has failed."""


def begin_run(state: GroupsState, group_id: str) -> GroupsDecision:
    """Begin to compute the target assignment of a large group that is due. That of a small one, the next heartbeat
    computes, and that of a group without members, the next that joins.
    """
    group = state.groups.consumer.get(group_id)
    is_running = group_id in state.volatile.assigning
    if group is None or not group.members or not group.is_due or is_running:
        return state.nothing()
    context, settings = state.context, state.settings.of_group(group_id)
    if not is_offloaded(group, context, settings):
        return state.nothing()
    if delay_ms := wait_ms(group.assignment_ms, context, settings):
        return ShardDecision(volatile=state.volatile, timers={AssignmentTimer(group_id): delay_ms})
    run = AssignmentRun(run_id=context.random_id, group=group, image=context.image, settings=settings)
    return ShardDecision(volatile=state.volatile.with_run(group_id, run.run_id), work=(run,))


def begin_again(state: GroupsState, key: FailedRunTimer) -> GroupsDecision:
    """End the pause after a run that has failed."""
    if state.volatile.assigning.get(key.group_id) != key.run_id:
        return state.nothing()
    return begin_run(replace(state, volatile=state.volatile.with_run(key.group_id, None)), key.group_id)


def take_targets(state: GroupsState, ticket: Ticket, command: TakeTargets) -> GroupsDecision:
    """Record a part of what a run has computed; the response says whether the run goes on."""
    group_id = command.group_id
    if state.volatile.assigning.get(group_id) != command.run_id:
        return state.replied(ticket, False)
    ended = state.volatile.with_run(group_id, None)
    group = state.groups.consumer.get(group_id)
    if group is None:
        return ShardDecision(volatile=ended, replies=(Reply(ticket, False),))
    draft = ConsumerDraft(group)
    if not assignment_run.is_late(group, command):
        assignment_run.take(draft, command, state.context)
        if not command.is_last:
            return state.with_consumer(draft.decision(Reply(ticket, True)))
    if draft.group.is_due:
        settings = state.settings.of_group(group_id)
        draft.start_assignment(wait_ms(draft.group.assignment_ms, state.context, settings))
    return draft.decision(Reply(ticket, False)).with_volatile(ended)


def give_up_run(state: GroupsState, ticket: Ticket, command: GiveUpRun) -> GroupsDecision:
    """Pause after a run that has failed. The group keeps it until then, so that no other one begins."""
    if state.volatile.assigning.get(command.group_id) != command.run_id:
        return state.replied(ticket, None)
    return ShardDecision(
        volatile=state.volatile,
        replies=(Reply(ticket, None),),
        timers={FailedRunTimer(command.group_id, command.run_id): AFTER_A_FAILURE_MS},
    )
