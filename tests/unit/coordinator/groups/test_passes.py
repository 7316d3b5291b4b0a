from __future__ import annotations

from itertools import islice

from kraft.coordinator.classic.messages import MemberIdRequired
from kraft.coordinator.classic.timers import JoinTimer, SessionTimer, SyncTimer
from kraft.coordinator.consumer.requests import RebalanceTimeout, SessionTimeout
from kraft.coordinator.group_events import OffsetsExpired
from kraft.coordinator.groups.commands import DeleteTopicOffsets
from kraft.coordinator.groups.settings import GroupShardSettings
from kraft.coordinator.groups.timers import OffsetExpiryTimer, TopicDeletionTimer
from kraft.coordinator.offsets.tombstones import TOMBSTONES_BYTES_MAX
from tests.support import offset_commands
from tests.unit.coordinator.consumer.coordinator import topic_id
from tests.unit.coordinator.groups.coordinator import GROUP, Coordinator, replayed

HOUR_MS = 3_600_000
CHECK_MS = 600_000
WEEK_MS = 7 * 24 * HOUR_MS


def test_a_simple_group_ends_when_its_offsets_expire() -> None:
    shard = Coordinator()
    shard.commit()
    shard.advance(WEEK_MS - CHECK_MS)
    assert shard.committed() == 5
    shard.advance(2 * CHECK_MS)
    assert shard.committed() is None
    assert shard.groups == replayed(shard.log) == Coordinator().groups


def test_each_group_whose_offsets_expire_is_reported_once_with_their_number() -> None:
    shard = Coordinator()
    shard.commit()
    shard.advance(WEEK_MS - CHECK_MS)
    shard.commit(group_id="younger")
    shard.events.clear()
    shard.advance(2 * CHECK_MS)
    assert shard.events == [OffsetsExpired(group_id=GROUP, offsets=1, is_removed=True)]
    shard.advance(CHECK_MS)
    assert len(shard.events) == 1


def test_the_offsets_of_an_empty_classic_group_count_from_when_it_became_empty() -> None:
    shard = Coordinator()
    member_id = shard.stable()
    shard.commit(member_id=member_id, generation=1)
    for _ in range(WEEK_MS // HOUR_MS + 1):
        shard.timers[SessionTimer(GROUP, member_id)] = shard.now_ms + HOUR_MS + 1
        shard.advance(HOUR_MS)
    assert shard.committed() == 5
    shard.advance(WEEK_MS - HOUR_MS)
    assert shard.committed() == 5
    assert not shard.volatile.classic[GROUP].members
    shard.advance(HOUR_MS + CHECK_MS)
    assert shard.committed() is None
    assert GROUP not in shard.groups.classic


def test_a_group_that_members_are_about_to_join_is_not_removed() -> None:
    shard = Coordinator(GroupShardSettings(offsets_retention_check_interval_ms=5_000))
    shard.empty_classic()
    shard.answer(shard.join(), MemberIdRequired)
    shard.timers[OffsetExpiryTimer()] = shard.now_ms
    shard.advance(0)
    assert GROUP in shard.volatile.classic
    assert GROUP in shard.groups.classic
    shard.advance(60_000)
    assert not shard.volatile.classic


def test_nothing_expires_while_a_regex_is_not_resolved() -> None:
    shard = Coordinator()
    shard.join_consumer(topics=None, topic_regex="ord.*")
    shard.commit(member_id="m", generation=1)
    shard.timers[SessionTimeout(GROUP, "m")] = shard.now_ms + 2 * WEEK_MS
    shard.advance(WEEK_MS + CHECK_MS)
    assert shard.committed() == 5


def test_a_pass_over_many_groups_is_made_in_slices() -> None:
    shard = Coordinator()
    for number in range(1_000):
        shard.commit(group_id=f"group {number}")
    shard.now_ms += WEEK_MS
    del shard.batches[:]
    shard.end(OffsetExpiryTimer())
    assert 0 < len(shard.groups.offsets.groups) < 1_000
    assert shard.timers[OffsetExpiryTimer()] == shard.now_ms
    shard.commit(group_id="group 999")
    shard.advance(0)
    assert shard.groups.offsets.groups.keys() <= {"group 999"}
    assert len(shard.batches) > 3
    assert shard.timers[OffsetExpiryTimer()] == shard.now_ms + CHECK_MS


def test_a_slice_has_no_more_bytes_of_groups_than_fit_into_a_batch() -> None:
    shard = Coordinator()
    for number in range(60):
        group_id = f"{number:02}".ljust(32_000, "x")
        shard.join_consumer(group_id=group_id)
        shard.leave_consumer(group_id=group_id)
    before = len(shard.log)
    del shard.batches[:]
    shard.advance(CHECK_MS)
    assert not shard.groups.consumer
    assert largest_batch(shard, before) <= TOMBSTONES_BYTES_MAX


def test_a_slice_has_no_more_bytes_of_offsets_than_fit_into_a_batch() -> None:
    shard = Coordinator()
    for number in range(60):
        shard.commit(group_id=f"{number:02}".ljust(32_000, "x"))
    before = len(shard.log)
    del shard.batches[:]
    shard.advance(WEEK_MS + CHECK_MS)
    assert not shard.groups.offsets.groups
    assert largest_batch(shard, before) <= TOMBSTONES_BYTES_MAX


def largest_batch(shard: Coordinator, start: int) -> int:
    """Bytes of the keys in the largest of the batches from this record on."""
    records = iter(shard.log[start:])
    return max(sum(len(key) for key, _ in islice(records, size)) for size in shard.batches)


def test_offsets_of_a_deleted_topic_are_deleted_in_all_groups() -> None:
    shard = Coordinator()
    for number in range(500):
        shard.commit(group_id=f"group {number}")
        shard.commit(group_id=f"group {number}", topic="kept")
    ticket = shard.request(DeleteTopicOffsets(topics={"orders": topic_id("orders")}))
    assert ticket not in shard.replies
    other = shard.request(DeleteTopicOffsets(topics={"unknown": topic_id("unknown")}))
    shard.advance(0)
    assert shard.replies[ticket] is shard.replies[other] is None
    assert {topic for group in shard.groups.offsets.groups.values() for topic in group} == {"kept"}
    assert TopicDeletionTimer() not in shard.timers
    assert not shard.volatile.topic_deletions


def test_more_offsets_of_one_group_than_fit_into_a_batch_are_deleted_in_several() -> None:
    shard = Coordinator()
    partitions = (offset_commands.offset(number, number) for number in range(6_000))
    shard.request(offset_commands.committing(GROUP, offset_commands.offsets("orders", *partitions)))
    del shard.batches[:]
    ticket = shard.request(DeleteTopicOffsets(topics={"orders": topic_id("orders")}))
    shard.advance(0)
    assert shard.replies[ticket] is None
    assert sum(shard.batches) == 6_000
    assert len(shard.batches) > 1
    assert not shard.groups.offsets.groups


def test_timers_that_end_after_their_removal_change_nothing() -> None:
    shard = Coordinator()
    shard.commit()
    before = (shard.groups, shard.volatile)
    for key in (
        SessionTimer(GROUP, "m"),
        JoinTimer(GROUP),
        SyncTimer(GROUP),
        SessionTimeout(GROUP, "m"),
        RebalanceTimeout(GROUP, "m", 1),
        TopicDeletionTimer(),
        OffsetExpiryTimer(),
    ):
        shard.end(key)
    assert (shard.groups, shard.volatile) == before
