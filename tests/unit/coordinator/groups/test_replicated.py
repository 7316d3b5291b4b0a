from __future__ import annotations

from kraft.coordinator.consumer.group import ConsumerGroupMember
from kraft.coordinator.consumer.records import member_metadata, without_member
from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.group_records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey
from kraft.coordinator.groups.replicated import NAMED_MAX, NO_GROUPS, contents, group_tombstones, replay
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


def test_the_contents_are_counted_and_groups_with_members_named() -> None:
    groups = replay(NO_GROUPS, CLASSIC_RECORD)
    for number in range(NAMED_MAX + 2):
        for member_id in ("m", "n"):
            groups = replay(groups, member_metadata(f"g{number}", ConsumerGroupMember(member_id=member_id)))
    found = contents(groups)
    assert found.counts == {"groups": NAMED_MAX + 3, "members": 2 * (NAMED_MAX + 2)}
    assert len(found.named) == NAMED_MAX
    assert GROUP not in found.named
