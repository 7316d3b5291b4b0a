from __future__ import annotations

from kraft.coordinator.group_records import OffsetCommitKey, OffsetCommitValue
from kraft.coordinator.offsets.committed_offset import CommittedOffset
from kraft.coordinator.offsets.committed_offsets import NO_OFFSETS
from kraft.model.ids import Offset

KEY = OffsetCommitKey(group="billing", topic="orders", partition=3)


def test_a_record_of_the_oldest_version_sets_neither_epoch_nor_expiry_nor_topic_id() -> None:
    offsets = NO_OFFSETS.replay(KEY, OffsetCommitValue(offset=7, metadata="", commit_timestamp=1000))
    assert offsets.offset("billing", "orders", 3) == CommittedOffset(offset=Offset(7), commit_timestamp_ms=1000)


def test_the_last_tombstone_of_a_group_removes_it() -> None:
    value = OffsetCommitValue(offset=7, metadata="", commit_timestamp=1000)
    other = OffsetCommitKey(group="billing", topic="orders", partition=4)
    both = NO_OFFSETS.replay(KEY, value).replay(other, value)
    one = both.replay(KEY, None)
    assert [partition for _, partition, _ in one.partitions("billing")] == [4]
    assert one.replay(other, None).groups == {}
    assert both.count("billing") == 2, "a state never changes"


def test_a_tombstone_without_an_offset_changes_nothing() -> None:
    assert NO_OFFSETS.replay(KEY, None) is NO_OFFSETS
