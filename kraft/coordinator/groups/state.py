"""State on which the group shard decides."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from kraft.coordinator.classic.draft import ClassicGroupDecision
from kraft.coordinator.classic.group import ClassicGroup
from kraft.coordinator.classic.subscriptions import group_facts
from kraft.coordinator.consumer.draft import ConsumerGroupDecision
from kraft.coordinator.consumer.group import FIRST_EPOCH
from kraft.coordinator.consumer.requests import AssignmentTimer, RejoinTimeout
from kraft.coordinator.consumer.targets import wait_ms
from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.group_records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kraft.coordinator.groups.replicated import Groups
from kraft.coordinator.groups.settings import GroupShardSettings
from kraft.coordinator.groups.volatile import GroupsDecision, GroupsVolatile
from kraft.coordinator.offsets.group_facts import SIMPLE_GROUP, GroupFacts, consumer_group
from kraft.coordinator.shard import DecisionContext, Reply, ShardDecision, Ticket, TimerKey
from kraft.model.errors import Refusal


class GroupsState(Struct, frozen=True, kw_only=True):
    """The shard's state, its settings, and the facts beside them."""

    groups: Groups
    volatile: GroupsVolatile
    settings: GroupShardSettings
    context: DecisionContext

    def classic(self, group_id: str) -> ClassicGroup | None:
        """Return the classic group; a simple group is an empty one."""
        group = self.volatile.classic.get(group_id)
        if group is None and self.groups.offsets.has_group(group_id):
            return ClassicGroup(group_id=group_id)
        return group

    def facts(self, group_id: str) -> GroupFacts | None:
        """Return what the deletion and the expiry of the group's offsets depend on; None if there is no such group."""
        consumer = self.groups.consumer.get(group_id)
        if consumer is not None:
            is_unresolved = self.groups.with_regexes.get(group_id, False)
            topics = None if is_unresolved else consumer.subscribed_topics()
            return consumer_group(empty=not consumer.members, subscribed_topics=topics)
        classic = self.volatile.classic.get(group_id)
        if classic is not None:
            return group_facts(classic)
        return SIMPLE_GROUP if self.groups.offsets.has_group(group_id) else None

    # --- decisions ---------------------------------------------------------------------------------------------------

    def nothing(self) -> GroupsDecision:
        return ShardDecision(volatile=self.volatile)

    def replied(self, ticket: Ticket, response: object | Refusal) -> GroupsDecision:
        """Return the decision that changes nothing."""
        return ShardDecision(volatile=self.volatile, replies=(Reply(ticket, response),))

    def with_classic(self, group_id: str, decision: ClassicGroupDecision) -> GroupsDecision:
        """Return the decision on one classic group as one of the shard."""
        return decision.with_volatile(self.volatile.with_classic({group_id: decision.volatile}))

    def with_consumer(self, decision: ConsumerGroupDecision) -> GroupsDecision:
        """Return the decision on one group of the consumer protocol as one of the shard."""
        running = self.volatile.rejoining
        # A member that does not join again must not gain time by its heartbeats.
        timers = {key: delay_ms for key, delay_ms in decision.timers.items() if delay_ms is None or key not in running}
        rejoining = {
            key: True if delay_ms is not None else None
            for key, delay_ms in timers.items()
            if isinstance(key, RejoinTimeout) and (delay_ms is not None or key in running)
        }
        timers |= self.assignment_timer(decision.records)
        return replace(decision.with_volatile(self.volatile.with_rejoining(rejoining)), timers=timers)

    def assignment_timer(self, records: Iterable[GroupRecord]) -> dict[TimerKey, int | None]:
        """Return the timer of a group whose epoch is bumped by the records, if they do not have its assignment."""
        bumped: tuple[str, int] | None = None
        assigned: tuple[int, int] | None = None
        for record in records:
            match record.key, record.value:
                case ConsumerGroupMetadataKey() as key, ConsumerGroupMetadataValue() as value:
                    bumped = key.group_id, value.epoch
                case ConsumerGroupTargetAssignmentMetadataKey(), ConsumerGroupTargetAssignmentMetadataValue() as last:
                    assigned = last.assignment_epoch, last.assignment_timestamp
                case _:
                    pass
        if bumped is None:
            return {}
        group_id, epoch = bumped
        group = self.groups.consumer.get(group_id)
        if assigned is None:
            assigned = (FIRST_EPOCH, 0) if group is None else (group.assignment_epoch, group.assignment_ms)
        if assigned[0] >= epoch:
            return {AssignmentTimer(group_id): None}
        return {AssignmentTimer(group_id): wait_ms(assigned[1], self.context, self.settings.of_group(group_id))}
