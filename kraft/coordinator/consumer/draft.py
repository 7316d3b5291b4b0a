"""A decision in the making: each record is replayed at once, so that what follows is decided on what will be."""

from __future__ import annotations

from typing import Final

from kraft.coordinator.consumer import records
from kraft.coordinator.consumer.group import ConsumerGroup, Member, MemberState
from kraft.coordinator.consumer.requests import GroupSettings, RebalanceTimeout, SessionTimeout
from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.shard import Decision, Reply, Ticket, TimerKey
from kraft.model.errors import Refusal

GroupDecision = Decision[None, GroupRecord]

NOTHING: Final[GroupDecision] = Decision(volatile=None)


class Draft:
    """A group, the records that lead to it, and timers."""

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self._records: list[GroupRecord] = []
        self._timers: dict[TimerKey, int | None] = {}

    def emit(self, *new: GroupRecord) -> None:
        for record in new:
            group = records.replay(self.group, record)
            assert group is not None, f"{record} deletes the group"
            self._records.append(record)
            self.group = group

    def bump_epoch(self, metadata_hash: int) -> None:
        self.emit(records.group_epoch(self.group.group_id, self.group.epoch + 1, metadata_hash))

    def remove_member(self, member: Member) -> None:
        self.emit(*records.without_member(self.group.group_id, member.member_id))
        self._timers[SessionTimeout(self.group.group_id, member.member_id)] = None
        self.stop_rebalance(member)

    def remove_unused_regex(self, regex: str) -> None:
        """Delete what was resolved of the expression, if no member subscribes to it any more."""
        if regex in self.group.regexes and not self.group.subscribers_of_regex(regex):
            self.emit(records.without_regex(self.group.group_id, regex))

    # --- timers ---

    def start_session(self, member_id: str, settings: GroupSettings) -> None:
        self._timers[SessionTimeout(self.group.group_id, member_id)] = settings.session_timeout_ms

    def start_rebalance(self, member: Member) -> None:
        self._timers[self._rebalance_timeout(member)] = member.rebalance_timeout_ms

    def stop_rebalance(self, member: Member) -> None:
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self._timers[self._rebalance_timeout(member)] = None

    def _rebalance_timeout(self, member: Member) -> RebalanceTimeout:
        return RebalanceTimeout(self.group.group_id, member.member_id, member.epoch)

    # --- result ---

    def decision(self, *replies: Reply) -> GroupDecision:
        return Decision(volatile=None, records=tuple(self._records), replies=replies, timers=self._timers)


def refused(ticket: Ticket, refusal: Refusal) -> GroupDecision:
    return Decision(volatile=None, replies=(Reply(ticket, refusal),))
