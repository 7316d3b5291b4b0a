"""A decision about one classic group while it is made: the group so far, and what is to follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from msgspec.structs import replace

from kraft.coordinator.classic.group import ClassicGroup, ClassicGroupMember, ClassicGroupState, remove_members
from kraft.coordinator.classic.records import group_record
from kraft.coordinator.classic.settings import ClassicSettings
from kraft.coordinator.classic.timers import ClassicTimer, SessionTimer
from kraft.coordinator.classic.validation import unknown_member
from kraft.coordinator.group_events import GroupEvent, MemberGone
from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.shard import DecisionContext, Reply, ShardDecision, Ticket, TimerKey
from kraft.metadata.persistent_maps import PersistentMap
from kraft.model.errors import ErrorCode, Refusal

ClassicGroupDecision: TypeAlias = ShardDecision[ClassicGroup | None, GroupRecord]
"""The volatile state is the next value of the group; None if nothing of it has to be kept."""

_PREVIOUS: Final = {
    ClassicGroupState.EMPTY: {ClassicGroupState.PREPARING_REBALANCE},
    ClassicGroupState.PREPARING_REBALANCE: {
        ClassicGroupState.STABLE,
        ClassicGroupState.COMPLETING_REBALANCE,
        ClassicGroupState.EMPTY,
    },
    ClassicGroupState.COMPLETING_REBALANCE: {ClassicGroupState.PREPARING_REBALANCE},
    ClassicGroupState.STABLE: {ClassicGroupState.COMPLETING_REBALANCE},
}
"""For each state, those that a group may come from."""


class ClassicDraft:
    """Lives as long as one decision. Only this object changes; the groups that it holds one after the other do not."""

    __slots__ = ("_context", "_events", "_records", "_replies", "_timers", "group", "settings")

    def __init__(self, group: ClassicGroup, settings: ClassicSettings, context: DecisionContext) -> None:
        self.group = group
        self.settings = settings
        self._context = context
        self._records: list[GroupRecord] = []
        self._replies: list[Reply] = []
        self._timers: dict[TimerKey, int | None] = {}
        self._events: list[GroupEvent] = []

    def decision(self) -> ClassicGroupDecision:
        return ShardDecision(
            volatile=None if self.group.is_unused else self.group,
            records=tuple(self._records),
            replies=tuple(self._replies),
            timers=self._timers,
            events=tuple(self._events),
        )

    def become(self, state: ClassicGroupState) -> None:
        assert self.group.state in _PREVIOUS[state], f"{self.group.group_id} is {self.group.state}, not to be {state}"
        self.group = replace(self.group, state=state, state_since_ms=self._context.now_ms)

    def write_group(self) -> None:
        self._records.append(group_record(self.group))
        self.group = replace(self.group, is_recorded=True)

    def report(self, event: GroupEvent) -> None:
        self._events.append(event)

    def new_member_id(self, name: str) -> str:
        return f"{name}-{self._context.random_id}"

    # --- requests that wait ------------------------------------------------------------------------------------------

    def reply(self, ticket: Ticket, response: object | Refusal) -> None:
        self._replies.append(Reply(ticket, response))

    def park_join(self, member_id: str, ticket: Ticket) -> None:
        """Let a JoinGroup wait. An earlier one of the member is answered: its client has given it up."""
        self.answer_join(member_id, _overtaken())
        self.group = replace(self.group, joins=self.group.joins.with_changes({member_id: ticket}))

    def park_sync(self, member_id: str, ticket: Ticket) -> None:
        """Let a SyncGroup wait. An earlier one of the member is answered: its client has given it up."""
        self.answer_sync(member_id, _overtaken())
        self.group = replace(self.group, syncs=self.group.syncs.with_changes({member_id: ticket}))

    def answer_join(self, member_id: str, response: object | Refusal) -> None:
        """Answer the member's JoinGroup, if one waits."""
        ticket = self.group.joins.get(member_id)
        if ticket is not None:
            self.group = replace(self.group, joins=self.group.joins.with_changes({member_id: None}))
            self.reply(ticket, response)

    def answer_sync(self, member_id: str, response: object | Refusal) -> None:
        """Answer the member's SyncGroup, if one waits. The wait stood in for heartbeats, so a new session begins."""
        ticket = self.group.syncs.get(member_id)
        if ticket is not None:
            self.group = replace(self.group, syncs=self.group.syncs.with_changes({member_id: None}))
            self.reply(ticket, response)
            self.start_session(self.group.members[member_id])

    def take_joins(self) -> PersistentMap[str, Ticket]:
        """Return all JoinGroups that wait, by member. The caller answers them."""
        joins, self.group = self.group.joins, replace(self.group, joins=PersistentMap())
        return joins

    def take_syncs(self) -> PersistentMap[str, Ticket]:
        """Return all SyncGroups that wait, by member. The caller answers them, and starts the members' sessions."""
        syncs, self.group = self.group.syncs, replace(self.group, syncs=PersistentMap())
        return syncs

    # --- members and timers ------------------------------------------------------------------------------------------

    def remove_members(self, reasons: Mapping[str, str], *, have_left: bool = False) -> None:
        """Remove members and pending ids, and their sessions; their waiting requests are refused.

        `reasons` says why, for each of them.
        """
        for member_id, reason in reasons.items():
            member = self.group.members.get(member_id)
            if member is not None:
                gone = MemberGone(
                    group_id=self.group.group_id,
                    member_id=member_id,
                    instance_id=member.group_instance_id,
                    reason=reason,
                    has_left=have_left,
                )
                self.report(gone)
            for ticket in (self.group.joins.get(member_id), self.group.syncs.get(member_id)):
                if ticket is not None:
                    self.reply(ticket, unknown_member(self.group.group_id, member_id))
            self.set_timer(SessionTimer(self.group.group_id, member_id), None)
        self.group = remove_members(self.group, reasons)

    def start_session(self, member: ClassicGroupMember) -> None:
        """Start the member's session, or start it again."""
        self.set_timer(SessionTimer(self.group.group_id, member.member_id), member.session_timeout_ms)

    def set_timer(self, key: ClassicTimer, delay_ms: int | None) -> None:
        self._timers[key] = delay_ms


def refused(group: ClassicGroup | None, ticket: Ticket, refusal: Refusal) -> ClassicGroupDecision:
    """Return the decision that changes nothing."""
    return ShardDecision(volatile=group, replies=(Reply(ticket, refusal),))


def _overtaken() -> Refusal:
    return Refusal(ErrorCode.REBALANCE_IN_PROGRESS, "a later request of this member took the place of this one")
