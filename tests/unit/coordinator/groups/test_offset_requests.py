from __future__ import annotations

from kraft.coordinator.classic.timers import SessionTimer
from kraft.model.errors import ErrorCode
from tests.unit.coordinator.groups.coordinator import GROUP, SESSION_MS, Coordinator


def test_a_commit_with_a_generation_needs_a_group() -> None:
    shard = Coordinator()
    assert shard.commit(member_id="m", generation=1) is ErrorCode.GROUP_ID_NOT_FOUND
    assert shard.commit(member_id="m", generation=1, api_version=8) is ErrorCode.ILLEGAL_GENERATION
    assert not shard.log


def test_a_simple_group_has_no_members() -> None:
    shard = Coordinator()
    shard.commit()
    assert shard.commit(member_id="m", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_member_commits_in_its_generation_and_its_session_goes_on() -> None:
    shard = Coordinator()
    member_id = shard.stable()
    shard.advance(SESSION_MS - 1)
    assert shard.commit(member_id=member_id, generation=1) is ErrorCode.NONE
    assert shard.timers[SessionTimer(GROUP, member_id)] == shard.now_ms + SESSION_MS
    assert shard.commit(offset=9, member_id=member_id, generation=2) is ErrorCode.ILLEGAL_GENERATION
    assert shard.commit(offset=9, member_id="other", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.commit(offset=9) is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.committed() == 5


def test_a_member_of_the_consumer_protocol_commits_in_its_epoch() -> None:
    shard = Coordinator()
    shard.join_consumer()
    assert shard.commit(member_id="m", generation=2) is ErrorCode.NONE
    assert shard.commit(offset=9, member_id="m", generation=3) is ErrorCode.STALE_MEMBER_EPOCH
    assert shard.commit(offset=9, member_id="other", generation=2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.commit(offset=9) is ErrorCode.UNKNOWN_MEMBER_ID
    old = shard.commit(offset=9, member_id="m", generation=2, api_version=8)
    assert old is ErrorCode.UNSUPPORTED_VERSION
    assert shard.committed() == 5


def test_a_member_commits_in_an_earlier_epoch_only_what_it_has_owned_since() -> None:
    shard = Coordinator()
    shard.join_consumer(topics=frozenset({"orders", "later"}))
    shard.image = Coordinator(orders=2, later=1).image
    shard.join_consumer(owned=frozenset(), topics=frozenset({"orders", "later"}), member_id="m2")
    members = shard.groups.consumer[GROUP].members
    assert members["m2"].epoch == 3
    assert members["m"].epoch == 2
    assert shard.commit(member_id="m", generation=2) is ErrorCode.NONE
    assert shard.commit(topic="deleted", member_id="m2", generation=2) is ErrorCode.STALE_MEMBER_EPOCH


def test_offsets_of_a_topic_that_members_read_are_not_deleted() -> None:
    shard = Coordinator()
    member_id = shard.stable()
    shard.commit(member_id=member_id, generation=1)
    shard.commit(topic="old", member_id=member_id, generation=1)
    assert shard.delete_offsets() is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert shard.delete_offsets("old") is ErrorCode.NONE
    assert shard.committed("old") is None
    assert shard.committed() == 5


def test_offsets_of_every_kind_of_group_are_deleted() -> None:
    shard = Coordinator()
    shard.join_consumer()
    shard.commit(topic="old", member_id="m", generation=1)
    shard.commit(group_id="simple")
    assert shard.delete_offsets() is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert shard.delete_offsets("old") is ErrorCode.NONE
    assert shard.delete_offsets(group_id="simple") is ErrorCode.NONE
    assert shard.delete_offsets(group_id="simple") is ErrorCode.GROUP_ID_NOT_FOUND
    assert not shard.groups.offsets.groups


def test_offsets_of_members_of_another_protocol_type_are_not_deleted() -> None:
    shard = Coordinator()
    shard.join(version=3, protocol_type="connect")
    shard.advance(10_000)
    assert shard.delete_offsets() is ErrorCode.NON_EMPTY_GROUP
