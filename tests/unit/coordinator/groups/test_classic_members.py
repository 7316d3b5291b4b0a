"""Members of the classic protocol in a group of the consumer protocol."""

from __future__ import annotations

from dataclasses import replace
from struct import pack
from typing import Any

import pytest

from kraft.coordinator.classic.messages import MemberIdRequired
from kraft.coordinator.consumer.checks import TOPIC_NAMES_MAX
from kraft.coordinator.consumer.requests import RejoinTimeout, SessionTimeout, SyncTimeout
from kraft.coordinator.consumer.settings import GroupSettings
from kraft.coordinator.consumer_protocol import decode_assignment, partitions_of
from kraft.coordinator.groups.queries import check_fetch
from kraft.coordinator.groups.settings import GroupShardSettings, MigrationPolicy
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.heartbeat import HeartbeatRequest, HeartbeatResponse
from kraft.wire.schema.join_group import JoinGroupResponse
from kraft.wire.schema.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.support.classic_requests import offered
from tests.unit.coordinator.consumer.coordinator import image_of, partitions
from tests.unit.coordinator.groups.coordinator import AT_ONCE, GROUP, SESSION_MS, Coordinator, joining
from tests.unit.coordinator.groups.migrating_clients import ClassicClient, subscription_of

KEEPING = replace(AT_ONCE, migration_policy=MigrationPolicy.UPGRADE)
"""The group stays one of the consumer protocol, whoever goes."""


def offering(*owned: int) -> dict[str, Any]:
    return {"protocols": (offered("range", subscription_of(frozenset(owned))),)}


class Mixed:
    """A group of the member `new` of the consumer protocol, and the classic one `old`, which has joined."""

    def __init__(self, settings: GroupShardSettings | None = None, **fields: Any) -> None:
        self.shard = Coordinator(settings)
        self.shard.join_consumer("new")
        self.joined = self.join("old", **fields)

    def join(self, member_id: str, **fields: Any) -> JoinGroupResponse:
        return self.shard.answer(self.shard.join(member_id, **{**offering(), **fields}), JoinGroupResponse)

    def sync(self, **fields: Any) -> object:
        request = {"assignments": (), "member_id": "old", "generation_id": self.joined.generation_id, **fields}
        return self.shard.replies[self.shard.request(SyncGroupRequest(group_id=GROUP, **request))]

    def heartbeat(self, **fields: Any) -> object:
        request = {"member_id": "old", "generation_id": self.joined.generation_id, **fields}
        return self.shard.replies[self.shard.request(HeartbeatRequest(group_id=GROUP, **request))]

    def code(self, response: object) -> ErrorCode:
        return response.error_code if isinstance(response, Refusal) else ErrorCode.NONE


def test_a_member_joins_again_once_its_partitions_are_free() -> None:
    mixed = Mixed()
    mixed.sync()
    assert isinstance(mixed.heartbeat(), HeartbeatResponse), "nothing is gained by joining again yet"
    given_up = mixed.shard.join_consumer("new", member_epoch=2, owned=partitions("orders", 0, 1)).assignment
    assert given_up is not None
    mixed.shard.join_consumer("new", member_epoch=2, owned=given_up)
    assert mixed.code(mixed.heartbeat()) is ErrorCode.REBALANCE_IN_PROGRESS
    assert RejoinTimeout(GROUP, "old") in mixed.shard.timers
    mixed.joined = mixed.join("old")
    assert RejoinTimeout(GROUP, "old") not in mixed.shard.timers
    synced = mixed.sync()
    assert isinstance(synced, SyncGroupResponse)
    assigned = partitions_of(decode_assignment(synced.assignment).assigned_partitions, mixed.shard.image)
    assert assigned == partitions("orders", 0, 1) - given_up
    assert SyncTimeout(GROUP, "old") not in mixed.shard.timers
    assert isinstance(mixed.heartbeat(), HeartbeatResponse)


def test_a_new_member_without_an_id_is_given_one_to_join_with() -> None:
    shard = Coordinator()
    shard.join_consumer("new")
    before = shard.groups
    given = shard.answer(shard.join(**offering()), MemberIdRequired).member_id
    assert given
    assert shard.groups is before
    assert shard.answer(shard.join(version=3, **offering()), JoinGroupResponse).member_id


def test_another_coordinator_goes_on_with_the_members() -> None:
    mixed = Mixed()
    mixed.shard.load()
    assert mixed.shard.timers[SessionTimeout(GROUP, "old")] - mixed.shard.now_ms == SESSION_MS
    assert isinstance(mixed.sync(), SyncGroupResponse)


def test_requests_of_others_are_refused() -> None:
    mixed = Mixed()
    for request in (mixed.sync, mixed.heartbeat):
        assert mixed.code(request(member_id="none")) is ErrorCode.UNKNOWN_MEMBER_ID
        assert mixed.code(request(member_id="new", generation_id=1)) is ErrorCode.UNKNOWN_MEMBER_ID
        assert mixed.code(request(generation_id=1)) is ErrorCode.ILLEGAL_GENERATION
        assert mixed.code(request(group_instance_id="none")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert mixed.code(mixed.sync(protocol_name="sticky")) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert mixed.code(mixed.sync(protocol_type="connect")) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_sync_is_refused_while_the_group_has_moved_on() -> None:
    mixed = Mixed()
    mixed.shard.join_consumer("newer")
    assert mixed.code(mixed.sync()) is ErrorCode.REBALANCE_IN_PROGRESS
    assert RejoinTimeout(GROUP, "old") in mixed.shard.timers


@pytest.mark.parametrize(
    "fields",
    [
        {"protocol_type": "connect"},
        {"protocols": ()},
        {"protocols": (offered("range", b"\0"),)},
        {"protocols": (offered("sticky", subscription_of(frozenset())),)},
    ],
)
def test_a_member_that_does_not_fit_is_refused(fields: dict[str, Any]) -> None:
    mixed = Mixed()
    before = mixed.shard.groups
    assert mixed.shard.refusal(joining("other", **fields)) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert mixed.shard.groups is before


def test_a_member_names_no_more_topics_than_one_of_the_consumer_protocol() -> None:
    names = tuple(map(str, range(TOPIC_NAMES_MAX + 1)))
    subscription = b"".join((pack(">hi", 0, len(names)), *(pack(">h", len(each)) + each.encode() for each in names)))
    metadata = subscription + pack(">i", -1)
    joined = joining("other", protocols=(offered("range", metadata),))
    assert Mixed().shard.refusal(joined) is ErrorCode.INVALID_REQUEST


def test_a_join_is_checked_as_one_to_a_classic_group_is() -> None:
    mixed = Mixed(GroupShardSettings(consumer=GroupSettings(members_max=2)))
    assert mixed.shard.refusal(joining("a", session_timeout_ms=1, **offering())) is ErrorCode.INVALID_SESSION_TIMEOUT
    assert mixed.shard.refusal(joining("a", **offering())) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert mixed.join("old").member_id == "old", "a member may join again"


def test_a_static_member_takes_its_own_place_by_either_protocol() -> None:
    shard = Coordinator(KEEPING)
    shard.join_consumer("new")
    first = shard.answer(shard.join(group_instance_id="i", **offering()), JoinGroupResponse).member_id
    second = shard.answer(shard.join(group_instance_id="i", **offering()), JoinGroupResponse).member_id
    assert shard.groups.consumer[GROUP].members.keys() == {"new", second}
    assert shard.refusal(joining(first, group_instance_id="i", **offering())) is ErrorCode.FENCED_INSTANCE_ID
    assert shard.refusal(joining(first, group_instance_id="none", **offering())) is ErrorCode.UNKNOWN_MEMBER_ID
    shard.join_consumer("third", instance_id="i")
    group = shard.groups.consumer[GROUP]
    assert group.members.keys() == {"new", "third"}
    assert group.classic_members == 0
    assert not group.classic_supporters
    assert {key.member_id for key in shard.timers if isinstance(key, SessionTimeout)} == {"new", "third"}
    assert SyncTimeout(GROUP, second) not in shard.timers


def test_a_member_may_change_its_protocol_under_its_id() -> None:
    mixed = Mixed()
    mixed.shard.join_consumer("old")
    assert mixed.shard.groups.consumer[GROUP].members["old"].classic is None
    assert SyncTimeout(GROUP, "old") not in mixed.shard.timers
    mixed.join("old")
    assert mixed.shard.groups.consumer[GROUP].members["old"].classic is not None


def test_a_group_of_classic_members_alone_notices_new_partitions() -> None:
    mixed = Mixed(KEEPING)
    mixed.sync()
    mixed.shard.leave_consumer("new")
    client = ClassicClient(mixed.shard, "client", cooperative=False)
    client.member_id, client.generation = "old", mixed.joined.generation_id
    for count in (2, 3):
        mixed.shard.image = image_of({"orders": count})
        for _ in range(10):
            client.step()
            mixed.shard.advance(0)
        assert client.owned == partitions("orders", *range(count))
    assert GROUP in mixed.shard.groups.consumer


def test_offsets_are_committed_in_the_members_generation() -> None:
    mixed = Mixed()
    generation = mixed.joined.generation_id
    assert mixed.shard.commit(topic="later", member_id="old", generation=generation, api_version=5) is ErrorCode.NONE
    # The partition still belongs to the other member.
    assert mixed.shard.commit(member_id="old", generation=generation) is ErrorCode.ILLEGAL_GENERATION
    assert mixed.shard.commit(member_id="old", generation=generation - 1) is ErrorCode.ILLEGAL_GENERATION
    assert mixed.shard.commit(member_id="new", generation=9) is ErrorCode.STALE_MEMBER_EPOCH
    assert mixed.shard.commit(member_id="none", generation=generation) is ErrorCode.UNKNOWN_MEMBER_ID
    with pytest.raises(Refusal) as refused:
        check_fetch(mixed.shard.groups, GROUP, "old", generation + 1)
    assert refused.value.error_code is ErrorCode.ILLEGAL_GENERATION
