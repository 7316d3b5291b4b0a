"""The state machine of one partition of `__consumer_offsets`."""

from __future__ import annotations

from typing import Final, assert_never

from kraft.coordinator.classic.expiry import loaded as classic_loaded
from kraft.coordinator.classic.expiry import timer_ended as classic_timer_ended
from kraft.coordinator.classic.group import ClassicGroup
from kraft.coordinator.classic.messages import JoinGroup
from kraft.coordinator.classic.records import recorded_group
from kraft.coordinator.classic.timers import JoinTimer, SessionTimer, SyncTimer
from kraft.coordinator.consumer.assignment_run import GiveUpRun, TakeTargets
from kraft.coordinator.consumer.departures import decide_loaded
from kraft.coordinator.consumer.requests import (
    AssignmentTimer,
    ConsumerHeartbeat,
    FailedRunTimer,
    RebalanceTimeout,
    RejoinTimeout,
    SessionTimeout,
    SyncTimeout,
)
from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.groups import assignments, classic_requests, consumer_requests, offset_requests
from kraft.coordinator.groups.commands import (
    CommitOffsets,
    CommitTransactionOffsets,
    DeleteGroup,
    DeleteOffsets,
    DeleteTopicOffsets,
    GroupCommand,
    ResolveRegexes,
)
from kraft.coordinator.groups.deletion import continue_deletion, delete_group
from kraft.coordinator.groups.limits import too_long
from kraft.coordinator.groups.passes import continue_expiry, continue_topic_deletion, delete_topic_offsets
from kraft.coordinator.groups.replicated import (
    NO_GROUPS,
    Groups,
    replay,
    replay_end_transaction,
    replay_transactional,
)
from kraft.coordinator.groups.settings import GroupShardSettings
from kraft.coordinator.groups.state import GroupsState
from kraft.coordinator.groups.timers import GroupDeletionTimer, OffsetExpiryTimer, TopicDeletionTimer
from kraft.coordinator.groups.volatile import GroupsDecision, GroupsVolatile
from kraft.coordinator.shard import DecisionContext, Shard, ShardDecision, Ticket, TimerKey
from kraft.wire.schema.heartbeat import HeartbeatRequest
from kraft.wire.schema.leave_group import LeaveGroupRequest
from kraft.wire.schema.sync_group import SyncGroupRequest


class GroupShard(Shard[Groups, GroupsVolatile, GroupCommand, GroupRecord]):
    """Decides for all groups whose ids belong to one partition. It has settings, but no state."""

    def __init__(self, settings: GroupShardSettings) -> None:
        self._settings: Final = settings

    def empty(self) -> Groups:
        return NO_GROUPS

    def replay(self, replicated: Groups, record: GroupRecord) -> Groups:
        return replay(replicated, record)

    def replay_transactional(self, replicated: Groups, producer_id: int, record: GroupRecord) -> Groups:
        return replay_transactional(replicated, producer_id, record)

    def replay_end_transaction(self, replicated: Groups, producer_id: int, is_commit: bool) -> Groups:
        return replay_end_transaction(replicated, producer_id, is_commit)

    def loaded(self, replicated: Groups, context: DecisionContext) -> GroupsDecision:
        records: list[GroupRecord] = []
        events: list[object] = []
        timers: dict[TimerKey, int | None] = {OffsetExpiryTimer(): self._settings.offsets_retention_check_interval_ms}
        classic: dict[str, ClassicGroup] = {}
        for group_id, value in replicated.classic.items():
            if group_id not in replicated.consumer:
                decision = classic_loaded(recorded_group(group_id, value), self._settings.classic, context)
                assert decision.volatile is not None, f"{group_id} is recorded"
                classic[group_id] = decision.volatile
                records += decision.records
                events += decision.events
                timers.update(decision.timers)
        for group_id, group in replicated.consumer.items():
            timers.update(decide_loaded(group, self._settings.of_group(group_id), context).timers)
        volatile = GroupsVolatile().with_classic(classic)
        return ShardDecision(volatile=volatile, records=tuple(records), timers=timers, events=tuple(events))

    def decide(
        self,
        replicated: Groups,
        volatile: GroupsVolatile,
        ticket: Ticket,
        command: GroupCommand,
        context: DecisionContext,
    ) -> GroupsDecision:
        state = GroupsState(groups=replicated, volatile=volatile, settings=self._settings, context=context)
        refusal = too_long(command)
        return _decided(state, ticket, command) if refusal is None else state.replied(ticket, refusal)

    def timer_ended(
        self, replicated: Groups, volatile: GroupsVolatile, key: TimerKey, context: DecisionContext
    ) -> GroupsDecision:
        """Decide what the end of a timer leads to. Nothing follows if what the timer was for is gone."""
        state = GroupsState(groups=replicated, volatile=volatile, settings=self._settings, context=context)
        match key:
            case SessionTimer() | JoinTimer() | SyncTimer():
                group = volatile.classic.get(key.group_id)
                if group is None:
                    return state.nothing()
                return state.with_classic(
                    key.group_id, classic_timer_ended(group, key, self._settings.classic, context)
                )
            case AssignmentTimer():
                return assignments.begin_run(state, key.group_id)
            case FailedRunTimer():
                return assignments.begin_again(state, key)
            case SessionTimeout() | RebalanceTimeout() | RejoinTimeout() | SyncTimeout():
                return consumer_requests.timer_ended(state, key)
            case OffsetExpiryTimer():
                return continue_expiry(state)
            case TopicDeletionTimer():
                return continue_topic_deletion(state)
            case GroupDeletionTimer():
                return continue_deletion(state, key.group_id)
            case _:
                raise AssertionError(f"{key} is no timer of this shard")


def _decided(state: GroupsState, ticket: Ticket, command: GroupCommand) -> GroupsDecision:
    match command:
        case CommitOffsets():
            return offset_requests.commit_offsets(state, ticket, command)
        case CommitTransactionOffsets():
            return offset_requests.commit_transaction_offsets(state, ticket, command)
        case ConsumerHeartbeat():
            return consumer_requests.heartbeat(state, ticket, command)
        case HeartbeatRequest():
            return classic_requests.heartbeat(state, ticket, command)
        case JoinGroup():
            return classic_requests.join_group(state, ticket, command)
        case SyncGroupRequest():
            return classic_requests.sync_group(state, ticket, command)
        case LeaveGroupRequest():
            return classic_requests.leave_group(state, ticket, command)
        case DeleteOffsets():
            return offset_requests.delete_offsets(state, ticket, command)
        case DeleteGroup():
            return delete_group(state, ticket, command)
        case DeleteTopicOffsets():
            return delete_topic_offsets(state, ticket, command)
        case ResolveRegexes() | TakeTargets() | GiveUpRun():
            return _computed(state, ticket, command)
        case _:
            assert_never(command)


def _computed(state: GroupsState, ticket: Ticket, command: ResolveRegexes | TakeTargets | GiveUpRun) -> GroupsDecision:
    """Decide what was computed beside the shard."""
    match command:
        case ResolveRegexes():
            return consumer_requests.resolve_regexes(state, ticket, command)
        case TakeTargets():
            return assignments.take_targets(state, ticket, command)
        case _:
            return assignments.give_up_run(state, ticket, command)
