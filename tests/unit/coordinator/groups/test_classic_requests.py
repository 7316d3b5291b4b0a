from __future__ import annotations

from kraft.coordinator.classic.group import ClassicGroupState
from kraft.coordinator.consumer.group import ConsumerGroup
from kraft.coordinator.groups.queries import describe_classic
from kraft.coordinator.groups.settings import GroupShardSettings, MigrationPolicy
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.heartbeat import HeartbeatRequest, HeartbeatResponse
from kraft.wire.schema.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kraft.wire.schema.sync_group import SyncGroupRequest
from tests.unit.coordinator.groups.coordinator import GROUP, Coordinator, joining


def test_a_member_joins_syncs_and_sends_heartbeats() -> None:
    shard = Coordinator()
    member_id = shard.stable()
    assert isinstance(shard.classic_heartbeat(member_id), HeartbeatResponse)
    assert describe_classic(shard.groups, shard.volatile, GROUP).members[0].member_assignment == b"all"


def test_a_classic_member_cannot_join_a_consumer_group_that_has_members_if_no_migration_is_allowed() -> None:
    shard = Coordinator(GroupShardSettings(migration_policy=MigrationPolicy.DISABLED))
    shard.join_consumer()
    assert shard.refusal(joining()) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert GROUP in shard.groups.consumer


def test_a_refused_join_leaves_an_empty_consumer_group_as_it_is() -> None:
    shard = Coordinator()
    shard.join_consumer()
    shard.leave_consumer()
    before = shard.groups
    assert shard.refusal(joining(session_timeout_ms=1)) is ErrorCode.INVALID_SESSION_TIMEOUT
    assert shard.refusal(joining(member_id="unknown")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.groups is before
    assert isinstance(shard.groups.consumer[GROUP], ConsumerGroup)


def test_members_of_the_consumer_protocol_are_unknown_to_the_classic_one() -> None:
    shard = Coordinator()
    shard.join_consumer(instance_id="i")
    heartbeat = HeartbeatRequest(group_id=GROUP, member_id="m", generation_id=1)
    assert shard.refusal(heartbeat) is ErrorCode.UNKNOWN_MEMBER_ID
    assert (
        shard.refusal(SyncGroupRequest(assignments=(), group_id=GROUP, member_id="m", generation_id=1))
        is ErrorCode.UNKNOWN_MEMBER_ID
    )
    other = HeartbeatRequest(group_id=GROUP, member_id="other", group_instance_id="i", generation_id=1)
    assert shard.refusal(other) is ErrorCode.FENCED_INSTANCE_ID


def test_an_administrator_removes_members_of_a_consumer_group() -> None:
    shard = Coordinator()
    for member_id in "abc":
        shard.join_consumer(member_id, instance_id=None if member_id == "c" else f"instance-{member_id}")
    epoch = shard.groups.consumer[GROUP].epoch
    leaving = (
        MemberIdentity(member_id="", group_instance_id="instance-a"),
        MemberIdentity(member_id="c"),
        MemberIdentity(member_id="other", group_instance_id="instance-b"),
        MemberIdentity(member_id="", group_instance_id="none"),
        MemberIdentity(member_id="none"),
    )
    left = shard.answer(shard.request(LeaveGroupRequest(group_id=GROUP, members=leaving)), LeaveGroupResponse)
    assert [each.error_code for each in left.members] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert shard.groups.consumer[GROUP].members.keys() == {"b"}
    assert shard.groups.consumer[GROUP].epoch == epoch + 1, "the group rebalances once"


def test_a_simple_group_becomes_one_with_members_and_keeps_its_offsets() -> None:
    shard = Coordinator()
    shard.commit(offset=7)
    assert describe_classic(shard.groups, shard.volatile, GROUP).group_state == ClassicGroupState.EMPTY.value
    shard.stable()
    assert shard.committed() == 7


def test_a_group_that_does_not_exist_has_no_members() -> None:
    shard = Coordinator()
    assert isinstance(shard.classic_heartbeat("m"), Refusal)
    assert (
        shard.refusal(SyncGroupRequest(assignments=(), group_id=GROUP, member_id="m", generation_id=1))
        is ErrorCode.UNKNOWN_MEMBER_ID
    )
    assert not shard.volatile.classic
