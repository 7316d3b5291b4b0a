from __future__ import annotations

from kraft.coordinator.classic.messages import GroupDeleted, MemberIdRequired
from kraft.coordinator.groups.commands import DeleteGroup
from kraft.coordinator.groups.timers import GroupDeletionTimer
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.join_group import JoinGroupResponse
from tests.support import offset_commands
from tests.unit.coordinator.groups.coordinator import GROUP, Coordinator, replayed

MANY = 9_000


def commit_many(shard: Coordinator) -> None:
    """Commit more offsets than have tombstones in one batch."""
    partitions = (offset_commands.offset(number, number) for number in range(MANY))
    shard.request(offset_commands.committing(GROUP, offset_commands.offsets("orders", *partitions)))


def test_a_group_that_does_not_exist_is_not_deleted() -> None:
    assert Coordinator().refusal(DeleteGroup(group_id=GROUP)) is ErrorCode.GROUP_ID_NOT_FOUND


def test_groups_with_members_are_not_deleted() -> None:
    shard = Coordinator()
    shard.stable("classic")
    shard.join_consumer(group_id="consumer")
    assert shard.refusal(DeleteGroup(group_id="classic")) is ErrorCode.NON_EMPTY_GROUP
    assert shard.refusal(DeleteGroup(group_id="consumer")) is ErrorCode.NON_EMPTY_GROUP


def test_empty_groups_of_every_kind_are_deleted_with_their_offsets_in_one_batch() -> None:
    shard = Coordinator()
    shard.empty_classic("classic")
    shard.join_consumer(group_id="consumer")
    shard.leave_consumer(group_id="consumer")
    for group_id in ("classic", "consumer", "simple"):
        shard.commit(group_id=group_id)
        batches = len(shard.batches)
        assert shard.delete(group_id) == GroupDeleted()
        assert len(shard.batches) == batches + 1
    assert shard.groups == replayed(shard.log) == Coordinator().groups
    assert not shard.volatile.classic


def test_ids_that_were_given_out_become_unknown_with_their_group() -> None:
    shard = Coordinator()
    shard.empty_classic()
    member_id = shard.answer(shard.join(), MemberIdRequired).member_id
    assert shard.delete() == GroupDeleted()
    assert [key for key in shard.timers if member_id in repr(key)] == []


def test_a_group_with_many_offsets_is_deleted_batch_after_batch() -> None:
    shard = Coordinator()
    shard.empty_classic()
    commit_many(shard)
    del shard.batches[:]
    first = shard.request(DeleteGroup(group_id=GROUP))
    second = shard.request(DeleteGroup(group_id=GROUP))
    assert first not in shard.replies
    assert GROUP in shard.groups.classic
    shard.advance(0)
    assert shard.replies[first] == shard.replies[second] == GroupDeleted()
    assert len(shard.batches) > 2
    assert sum(shard.batches) == MANY + 1
    assert shard.groups == replayed(shard.log) == Coordinator().groups
    assert not shard.volatile.deletions


def test_a_member_that_joins_between_two_batches_ends_the_deletion() -> None:
    shard = Coordinator()
    commit_many(shard)
    deletion = shard.request(DeleteGroup(group_id=GROUP))
    join = shard.join(version=3)
    shard.advance(0)
    assert shard.answer(deletion, Refusal).error_code is ErrorCode.NON_EMPTY_GROUP
    left = shard.groups.offsets.count(GROUP)
    assert 0 < left < MANY
    shard.advance(10_000)
    shard.answer(join, JoinGroupResponse)
    assert shard.groups.offsets.count(GROUP) == left
    assert not shard.volatile.deletions


def test_a_timer_that_ends_after_the_deletion_changes_nothing() -> None:
    shard = Coordinator()
    shard.commit()
    shard.end(GroupDeletionTimer(GROUP))
    assert shard.committed() == 5
