"""Any commands to groups of every kind: the state is the replay of its log, and no committed offset is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from kraft.coordinator.classic.messages import GroupDeleted, MemberIdRequired
from kraft.coordinator.classic.settings import ClassicSettings
from kraft.coordinator.consumer.group import ResolvedRegex
from kraft.coordinator.consumer.requests import ConsumerHeartbeat
from kraft.coordinator.consumer.settings import GroupSettings
from kraft.coordinator.groups.commands import DeleteTopicOffsets, GroupCommand, ResolveRegexes
from kraft.coordinator.groups.replicated import unresolved_regexes
from kraft.coordinator.groups.settings import GroupShardSettings
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.heartbeat import HeartbeatRequest
from kraft.wire.schema.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kraft.wire.schema.sync_group import SyncGroupRequest
from tests.support.classic_requests import offered
from tests.support.searches import assert_met
from tests.unit.coordinator.consumer.coordinator import image_of, topic_id
from tests.unit.coordinator.groups.coordinator import (
    Coordinator,
    committing,
    compacted,
    joining,
    joining_consumer,
    replayed,
    subscription,
)

GROUPS = ("a", "b")
TOPICS = ("orders", "parcels")
RETENTION_MS = 100_000
SETTINGS = GroupShardSettings(
    classic=ClassicSettings(initial_rebalance_delay_ms=10, new_member_join_timeout_ms=40_000),
    consumer=GroupSettings(session_timeout_ms=10_000),
    offsets_retention_ms=RETENTION_MS,
    offsets_retention_check_interval_ms=20_000,
)

groups = st.sampled_from(GROUPS)
topics = st.sampled_from(TOPICS)
instances = st.sampled_from([None, None, "i"])
numbers = st.sampled_from([0, 0, 0, 1, 2])
often = st.sampled_from([True, True, True, False])
seldom = st.sampled_from([True, False, False, False])
committers = st.sampled_from(["nobody", "classic", "classic", "consumer", "consumer"])
has_classic = precondition(lambda self: bool(self.shard.volatile.classic))
has_consumer = precondition(lambda self: bool(self.shard.groups.consumer))
has_offsets = precondition(lambda self: bool(self.offsets))


class ShardAgainstDict(RuleBasedStateMachine):
    """Members are numbered in the order of their ids; a number too large is an unknown member."""

    happened: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.shard = Coordinator(SETTINGS)
        self.shard.image = image_of({"orders": 3, "parcels": 1})
        self.offsets: dict[tuple[str, str], tuple[int, int]] = {}
        """Offset and time of what was committed of partition 0, by group and topic."""

    # --- operations --------------------------------------------------------------------------------------------------

    def request(self, command: GroupCommand) -> Any:
        before = self.shard.groups
        ticket = self.shard.request(command)
        groups = self.shard.groups
        self.happened["upgraded"] += any(
            groups.consumer[each].classic_members for each in before.classic.keys() & groups.consumer.keys()
        )
        self.happened["downgraded"] += any(
            groups.classic[each].members for each in before.consumer.keys() & groups.classic.keys()
        )
        response = self.shard.replies.get(ticket, "waits")
        what = response.error_code.name if isinstance(response, Refusal) else type(response).__name__
        self.happened["waits" if response == "waits" else what] += 1
        return response

    def of_kind(self, existing: Mapping[str, object], group: str) -> str:
        return group if group in existing else min(existing)

    def classic_member(self, group: str, number: int) -> tuple[str, int]:
        classic = self.shard.volatile.classic.get(group)
        ids = [] if classic is None else sorted({*classic.members, *classic.pending_joins})
        return ids[number] if number < len(ids) else "unknown", 1 if classic is None else classic.generation

    def consumer_member(self, group: str, number: int) -> tuple[str, int, frozenset[Any]]:
        consumer = self.shard.groups.consumer.get(group)
        ids = [] if consumer is None else sorted(consumer.members)
        if consumer is None or number >= len(ids):
            return "unknown", 1, frozenset()
        member = consumer.members[ids[number]]
        return member.member_id, member.epoch, member.assigned

    @rule(group=groups, topic=topics, instance=instances, version=st.sampled_from(["new", "old"]))
    def a_client_joins(self, group: str, topic: str, instance: str | None, version: str) -> None:
        protocols = (offered("range", subscription(topic)),)
        fields: dict[str, Any] = {
            "protocols": protocols,
            "group_instance_id": instance,
            "version": 9 if version == "new" else 3,
        }
        response = self.request(joining(group_id=group, **fields))
        if isinstance(response, MemberIdRequired):
            self.request(joining(response.member_id, group, **fields))

    @has_classic
    @rule(group=groups, number=numbers, topic=topics)
    def a_member_joins_again(self, group: str, number: int, topic: str) -> None:
        group = self.of_kind(self.shard.volatile.classic, group)
        member_id, _ = self.classic_member(group, number)
        self.request(joining(member_id, group, protocols=(offered("range", subscription(topic)),)))

    @has_classic
    @rule(group=groups)
    def all_members_join_and_sync(self, group: str) -> None:
        """The usual course, which single steps would seldom take."""
        group = self.of_kind(self.shard.volatile.classic, group)
        for number in range(4):
            self.a_member_joins_again(group, number, "orders")
        self.shard.advance(20)
        for number in range(4):
            member_id, generation = self.classic_member(group, number)
            self.request(
                SyncGroupRequest(assignments=(), group_id=group, member_id=member_id, generation_id=generation)
            )

    @has_classic
    @rule(group=groups, number=numbers, late=st.booleans())
    def a_member_is_alive(self, group: str, number: int, late: bool) -> None:
        group = self.of_kind(self.shard.volatile.classic, group)
        member_id, generation = self.classic_member(group, number)
        self.request(HeartbeatRequest(group_id=group, member_id=member_id, generation_id=generation - late))

    @has_classic
    @rule(group=groups, number=numbers)
    def a_member_leaves(self, group: str, number: int) -> None:
        group = self.of_kind(self.shard.volatile.classic, group)
        member_id, _ = self.classic_member(group, number)
        response = self.request(LeaveGroupRequest(group_id=group, members=(MemberIdentity(member_id=member_id),)))
        assert isinstance(response, LeaveGroupResponse)

    @rule(group=groups, member=st.sampled_from(["m1", "m2"]), instance=instances, regex=st.booleans())
    def a_consumer_joins(self, group: str, member: str, instance: str | None, regex: bool) -> None:
        fields = {"topics": None, "topic_regex": "ord.*"} if regex else {}
        self.request(joining_consumer(member, group, instance_id=instance, **fields))

    @has_consumer
    @rule(group=groups, number=numbers, behind=st.sampled_from([0, 0, 0, 1]), keeps=often)
    def a_consumer_is_alive(self, group: str, number: int, behind: int, keeps: bool) -> None:
        group = self.of_kind(self.shard.groups.consumer, group)
        member_id, epoch, assigned = self.consumer_member(group, number)
        owned = assigned if keeps else frozenset()
        self.request(ConsumerHeartbeat(group_id=group, member_id=member_id, member_epoch=epoch - behind, owned=owned))

    @has_consumer
    @rule(group=groups, number=numbers, epoch=st.sampled_from([-1, -1, -2]))
    def a_consumer_leaves(self, group: str, number: int, epoch: int) -> None:
        group = self.of_kind(self.shard.groups.consumer, group)
        member_id, _, _ = self.consumer_member(group, number)
        instance = "i" if epoch == -2 else None
        request = ConsumerHeartbeat(group_id=group, member_id=member_id, member_epoch=epoch, instance_id=instance)
        self.request(request)

    @rule(group=groups, topic=topics, number=numbers, by=committers, right=often)
    def offsets_are_committed(self, group: str, topic: str, number: int, by: str, right: bool) -> None:
        member_id, epoch = "", -1
        if by == "classic" and self.shard.volatile.classic:
            group = self.of_kind(self.shard.volatile.classic, group)
            member_id, epoch = self.classic_member(group, number)
        if by == "consumer" and self.shard.groups.consumer:
            group = self.of_kind(self.shard.groups.consumer, group)
            member_id, epoch, _ = self.consumer_member(group, number)
        offset = len(self.shard.log)
        response = self.request(committing(offset, topic, group, member_id=member_id, generation=epoch + (not right)))
        if not isinstance(response, Refusal):
            self.offsets[group, topic] = offset, self.shard.now_ms
            self.happened[f"committed by {by}"] += 1

    @has_offsets
    @rule(group=groups, topic=topics, really=seldom)
    def offsets_are_deleted(self, group: str, topic: str, really: bool) -> None:
        if really and self.shard.delete_offsets(topic, group) is ErrorCode.NONE:
            self.offsets.pop((group, topic), None)

    @has_offsets
    @rule(group=groups, really=seldom)
    def a_group_is_deleted(self, group: str, really: bool) -> None:
        if really and isinstance(self.shard.delete(group), GroupDeleted):
            self.happened["deleted"] += 1
            self.offsets = {place: kept for place, kept in self.offsets.items() if place[0] != group}

    @has_offsets
    @rule(topic=topics, really=seldom)
    def a_topic_is_deleted(self, topic: str, really: bool) -> None:
        if not really:
            return
        assert self.request(DeleteTopicOffsets(topics={topic: topic_id(topic)})) is None
        self.offsets = {place: kept for place, kept in self.offsets.items() if place[1] != topic}

    @rule()
    def regexes_are_resolved(self) -> None:
        found = ResolvedRegex(topics=frozenset({"orders"}), version=1, timestamp_ms=self.shard.now_ms)
        for group, regexes in unresolved_regexes(self.shard.groups).items():
            self.request(ResolveRegexes(group_id=group, results=dict.fromkeys(regexes, found)))
            self.happened["resolved"] += 1

    @rule(ms=st.sampled_from([5, 3_000, 3_000, 11_000, RETENTION_MS]))
    def time_passes(self, ms: int) -> None:
        before = self.shard.groups
        self.shard.advance(ms)
        for place in list(self.offsets):
            _, committed_ms = self.offsets[place]
            if self.shard.groups.offsets.offset(*place, 0) is None and self.shard.now_ms >= committed_ms + RETENTION_MS:
                del self.offsets[place]
                self.happened["expired"] += 1
        ended = {*before.classic, *before.consumer} - {*self.shard.groups.classic, *self.shard.groups.consumer}
        self.happened["removed"] += len(ended)

    @rule()
    def the_coordinator_changes(self) -> None:
        self.shard.load()

    # --- what must always hold ---------------------------------------------------------------------------------------

    @invariant()
    def no_offset_is_lost_or_goes_back(self) -> None:
        held = {
            (group, topic): each.offset
            for group in self.shard.groups.offsets.groups
            for topic, _, each in self.shard.groups.offsets.partitions(group)
        }
        assert held == {place: offset for place, (offset, _) in self.offsets.items()}

    @invariant()
    def the_state_is_the_replay_of_the_log(self) -> None:
        log = self.shard.log
        cleaned = len(log) // 2
        assert replayed(log) == self.shard.groups
        assert replayed(compacted(log)) == self.shard.groups
        assert replayed([*compacted(log[:cleaned]), *log[cleaned:]]) == self.shard.groups


@pytest.mark.slow
def test_after_any_commands_the_state_is_the_replay_of_its_compacted_log() -> None:
    ShardAgainstDict.happened.clear()
    run_state_machine_as_test(
        ShardAgainstDict,
        settings=settings(
            max_examples=100,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
    everything = {
        *("waits", "SyncGroupResponse", "HeartbeatResponse", "LeaveGroupResponse", "MEMBER_ID_REQUIRED"),
        *("upgraded", "downgraded", "GROUP_ID_NOT_FOUND", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"),
        *("STALE_MEMBER_EPOCH", "FENCED_MEMBER_EPOCH", "UNRELEASED_INSTANCE_ID", "REBALANCE_IN_PROGRESS"),
        *("committed by nobody", "committed by classic", "committed by consumer"),
        *("deleted", "expired", "removed", "resolved"),
    }
    assert_met(everything, ShardAgainstDict.happened)
