from __future__ import annotations

from kraft.coordinator.consumer.group import ConsumerGroupMember
from kraft.coordinator.consumer.records import member_metadata, without_member
from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.group_records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey
from kraft.coordinator.groups.replicated import NO_GROUPS, group_tombstones, replay
from tests.unit.coordinator.groups.coordinator import GROUP, Coordinator

CLASSIC_RECORD = GroupRecord(
    GroupMetadataKey(group=GROUP),
    GroupMetadataValue(protocol_type="consumer", generation=3, protocol=None, leader=None, members=()),
)


def test_tombstones_of_what_is_not_there_change_nothing() -> None:
    groups = NO_GROUPS
    for record in (
        GroupRecord(GroupMetadataKey(group=GROUP), None),
        GroupRecord(OffsetCommitKey(group=GROUP, topic="orders", partition=0), None),
        *without_member(GROUP, "m"),
    ):
        groups = replay(groups, record)
    assert groups == NO_GROUPS


def test_of_both_kinds_for_one_id_the_consumer_protocol_counts() -> None:
    shard = Coordinator()
    groups = replay(replay(NO_GROUPS, CLASSIC_RECORD), member_metadata(GROUP, ConsumerGroupMember(member_id="m")))
    decision = shard.shard.loaded(groups, shard._context())
    assert not decision.volatile.classic
    for record in group_tombstones(groups, GROUP):
        groups = replay(groups, record)
    assert groups == NO_GROUPS
