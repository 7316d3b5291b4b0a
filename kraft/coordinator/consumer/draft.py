"""A decision in the making: each record is replayed at once, so that the next step sees its effect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kraft.coordinator.consumer import records
from kraft.coordinator.consumer.group import ConsumerGroup, ConsumerGroupMember, MemberState
from kraft.coordinator.consumer.requests import (
    AssignmentTimer,
    RebalanceTimeout,
    RejoinTimeout,
    SessionTimeout,
    SyncTimeout,
)
from kraft.coordinator.consumer.settings import GroupSettings
from kraft.coordinator.group_events import GroupEvent, RebalanceCompleted, RebalanceStarted
from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.shard import Reply, ShardDecision, Ticket, TimerKey
from kraft.model.errors import Refusal

ConsumerGroupDecision = ShardDecision[None, GroupRecord]

METADATA_CHANGED: Final = "topics that the group subscribes to, or their partitions, have changed"
"""Reason of a rebalance."""

NOTHING: Final[ConsumerGroupDecision] = ShardDecision(volatile=None)


class ConsumerDraft:
    """A group, the records that lead to it, and timers."""

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self._records: list[GroupRecord] = []
        self._timers: dict[TimerKey, int | None] = {}
        self._before = group
        self._events: list[GroupEvent] = []
        self._reason: str | None = None
        """What changes what the members are to have; of several reasons, the first."""

    def emit(self, *new: GroupRecord) -> None:
        for record in new:
            group = records.replay(self.group, record)
            assert group is not None, f"{record} deletes the group"
            self._records.append(record)
            self.group = group

    def bump_epoch(self, metadata_hash: int, reason: str) -> None:
        self.explain(reason)
        self.emit(records.group_epoch(self.group.group_id, self.group.epoch + 1, metadata_hash))

    def remove_member(self, member: ConsumerGroupMember) -> None:
        self.emit(*records.without_member(self.group.group_id, member.member_id))
        self.stop_timers(member)

    def remove_unused_regex(self, regex: str) -> None:
        """Delete the topics that an expression was resolved to, if no member subscribes by it any more."""
        if regex in self.group.regexes and not self.group.subscribers_of_regex(regex):
            self.emit(records.without_regex(self.group.group_id, regex))

    # --- events ---

    def report(self, event: GroupEvent) -> None:
        self._events.append(event)

    def explain(self, reason: str) -> None:
        """Name the reason of a rebalance, if this decision leads to one."""
        self._reason = self._reason or reason

    def _rebalance(self) -> Iterator[GroupEvent]:
        """Yield that a rebalance starts, and that one is complete. With one member, both may be in one decision."""
        before, after = self._before, self.group
        is_bumped = after.epoch > before.epoch
        if before.is_settled and (is_bumped or not after.is_settled):
            yield RebalanceStarted(
                group_id=after.group_id,
                epoch=after.epoch,
                is_classic=False,
                reason=self._reason or "members take up their assignments again",
                members=len(after.members),
            )
        if after.is_settled and (is_bumped or not before.is_settled):
            yield RebalanceCompleted(
                group_id=after.group_id,
                epoch=after.epoch,
                is_classic=False,
                members=len(after.members),
                partitions=len(after.owners),
            )

    # --- timers ---

    def start_assignment(self, delay_ms: int) -> None:
        """Compute the target assignment after the delay."""
        self._timers[AssignmentTimer(self.group.group_id)] = delay_ms

    def start_session(self, member: ConsumerGroupMember, settings: GroupSettings) -> None:
        """Start the session again. A classic member has its own timeout."""
        timeout_ms = settings.session_timeout_ms if member.classic is None else member.classic.session_timeout_ms
        self._timers[SessionTimeout(self.group.group_id, member.member_id)] = timeout_ms

    def start_rebalance(self, member: ConsumerGroupMember) -> None:
        self._timers[self._rebalance_timeout(member)] = member.rebalance_timeout_ms

    def stop_rebalance(self, member: ConsumerGroupMember) -> None:
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self._timers[self._rebalance_timeout(member)] = None

    def start_rejoin(self, member: ConsumerGroupMember) -> None:
        """Give a classic member its rebalance timeout to join again."""
        self._timers[RejoinTimeout(self.group.group_id, member.member_id)] = member.rebalance_timeout_ms

    def start_sync(self, member: ConsumerGroupMember) -> None:
        """Give a classic member that has joined its rebalance timeout to ask for its assignment."""
        self._timers[SyncTimeout(self.group.group_id, member.member_id)] = member.rebalance_timeout_ms

    def stop_sync(self, member: ConsumerGroupMember) -> None:
        self._timers[SyncTimeout(self.group.group_id, member.member_id)] = None

    def stop_timers(self, member: ConsumerGroupMember) -> None:
        """Stop all timers of the member, which is given as it was when they were set."""
        self._timers[SessionTimeout(self.group.group_id, member.member_id)] = None
        if member.classic is None:
            self.stop_rebalance(member)
        else:
            self._timers[RejoinTimeout(self.group.group_id, member.member_id)] = None
            self.stop_sync(member)

    def _rebalance_timeout(self, member: ConsumerGroupMember) -> RebalanceTimeout:
        return RebalanceTimeout(self.group.group_id, member.member_id, member.epoch)

    # --- result ---

    def decision(self, *replies: Reply) -> ConsumerGroupDecision:
        return ShardDecision(
            volatile=None,
            records=tuple(self._records),
            replies=replies,
            timers=self._timers,
            events=(*self._events, *self._rebalance()),
        )


def refused(ticket: Ticket, refusal: Refusal) -> ConsumerGroupDecision:
    return ShardDecision(volatile=None, replies=(Reply(ticket, refusal),))
