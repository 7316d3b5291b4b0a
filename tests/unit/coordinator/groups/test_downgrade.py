from __future__ import annotations

from dataclasses import replace

import pytest

from kraft.coordinator.assignors.assignor import Partitions
from kraft.coordinator.classic.group import ClassicGroupState
from kraft.coordinator.classic.settings import ClassicSettings
from kraft.coordinator.classic.timers import JoinTimer, SessionTimer
from kraft.coordinator.consumer.requests import RejoinTimeout, SessionTimeout, SyncTimeout
from kraft.coordinator.consumer_protocol import decode_assignment, partitions_of
from kraft.coordinator.groups.settings import GroupShardSettings, MigrationPolicy
from kraft.model.errors import ErrorCode
from kraft.wire.schema.heartbeat import HeartbeatResponse
from kraft.wire.schema.join_group import JoinGroupResponse
from kraft.wire.schema.leave_group import LeaveGroupRequest, MemberIdentity
from kraft.wire.schema.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.support.classic_requests import offered
from tests.unit.coordinator.consumer.coordinator import partitions
from tests.unit.coordinator.groups.coordinator import (
    AT_ONCE,
    GROUP,
    Coordinator,
)
from tests.unit.coordinator.groups.migrating_clients import ClassicClient, Client, ConsumerClient, subscription_of

PROTOCOLS = (offered("range", subscription_of(frozenset())),)


def run(shard: Coordinator, *clients: Client) -> None:
    for _ in range(40):
        for client in clients:
            client.step()
        shard.advance(100)
    read = [partition for client in clients for partition in client.owned]
    assert sorted(read) == sorted(partitions("orders", 0, 1)), "every partition is read by one of them"


def mixed(settings: GroupShardSettings | None = None) -> tuple[Coordinator, ClassicClient, ConsumerClient]:
    """A group of a client of each protocol, with a partition each."""
    shard = Coordinator(settings)
    old, new = ClassicClient(shard, "old", cooperative=False), ConsumerClient(shard, "new")
    run(shard, old, new)
    assert (len(old.owned), len(new.owned)) == (1, 1)
    assert shard.groups.consumer[GROUP].classic_members == 1
    return shard, old, new


def recorded_assignments(shard: Coordinator) -> dict[str, Partitions]:
    """Return by member the partitions in the record of the classic group."""
    return {
        member.member_id: partitions_of(decode_assignment(member.assignment).assigned_partitions, shard.image)
        for member in shard.groups.classic[GROUP].members
    }


def test_the_timers_of_the_members_become_those_of_the_classic_group() -> None:
    shard, old, new = mixed()
    shard.join(old.member_id, protocols=PROTOCOLS)
    assert SyncTimeout(GROUP, old.member_id) in shard.timers
    new.leave()
    assert shard.timers.keys() >= {SessionTimer(GROUP, old.member_id), JoinTimer(GROUP)}
    gone = {SessionTimeout(GROUP, "new"), SessionTimeout(GROUP, old.member_id), SyncTimeout(GROUP, old.member_id)}
    assert not shard.timers.keys() & gone


def test_a_member_that_was_asked_to_join_again_is_asked_by_the_classic_group() -> None:
    shard, old, new = mixed()
    shard.join_consumer("newer")
    shard.classic_heartbeat(old.member_id, generation=old.generation)
    assert RejoinTimeout(GROUP, old.member_id) in shard.volatile.rejoining
    shard.leave_consumer("newer")
    new.leave()
    assert not shard.volatile.rejoining
    assert RejoinTimeout(GROUP, old.member_id) not in shard.timers
    run(shard, old)


def test_a_member_that_is_removed_leaves_a_classic_group_behind_too() -> None:
    shard, old, new = mixed()
    for _ in range(10):
        shard.classic_heartbeat(old.member_id, generation=old.generation)
        shard.advance(5_000)
    assert shard.volatile.classic[GROUP].members.keys() == {old.member_id}, "the session of the other one has ended"
    run(shard, old)
    shard, old, new = mixed()
    shard.request(LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member_id=new.name),)))
    assert shard.volatile.classic[GROUP].members.keys() == {old.member_id}


def test_a_static_member_that_is_expected_back_keeps_the_group_as_it_is() -> None:
    shard = Coordinator()
    old, new = ClassicClient(shard, "old", cooperative=False), ConsumerClient(shard, "new", "i")
    run(shard, old, new)
    new.pause()
    assert GROUP in shard.groups.consumer
    again = ConsumerClient(shard, "again", "i")
    run(shard, old, again)
    assert GROUP in shard.groups.consumer


def test_a_static_member_that_returns_by_the_classic_protocol_downgrades_the_group_without_a_rebalance() -> None:
    shard = Coordinator()
    old, new = ClassicClient(shard, "old", cooperative=False), ConsumerClient(shard, "new", "i")
    run(shard, old, new)
    owned = new.owned
    joined = shard.answer(shard.join(group_instance_id="i", protocols=PROTOCOLS), JoinGroupResponse)
    group = shard.volatile.classic[GROUP]
    assert group.state is ClassicGroupState.STABLE
    assert group.members.keys() == {old.member_id, joined.member_id}
    sync = SyncGroupRequest(
        group_id=GROUP,
        member_id=joined.member_id,
        group_instance_id="i",
        generation_id=joined.generation_id,
        assignments=(),
    )
    synced = shard.answer(shard.request(sync), SyncGroupResponse)
    assert partitions_of(decode_assignment(synced.assignment).assigned_partitions, shard.image) == owned
    heartbeat = shard.classic_heartbeat(old.member_id, generation=old.generation)
    assert isinstance(heartbeat, HeartbeatResponse)
    assert heartbeat.error_code == ErrorCode.NONE


def test_the_only_member_returns_by_the_classic_protocol() -> None:
    shard = Coordinator()
    new = ConsumerClient(shard, "new", "i")
    run(shard, new)
    new.pause()
    run(shard, ClassicClient(shard, "old", "i", cooperative=False))
    assert shard.groups.classic.keys() == {GROUP}
    assert shard.groups.consumer == {}


def test_a_group_rebalances_if_a_member_still_waits_for_a_partition() -> None:
    shard = Coordinator()
    new = ConsumerClient(shard, "new", "i")
    run(shard, new)
    shard.answer(shard.join("old", protocols=PROTOCOLS), JoinGroupResponse)
    shard.answer(shard.join(group_instance_id="i", protocols=PROTOCOLS), JoinGroupResponse)
    assert shard.volatile.classic[GROUP].state is ClassicGroupState.PREPARING_REBALANCE


def test_a_member_is_assigned_what_it_owns_and_not_what_another_one_has_not_given_up() -> None:
    shard = Coordinator()
    shard.join_consumer("new", topics=frozenset({"other"}))
    shard.answer(shard.join("old", protocols=PROTOCOLS), JoinGroupResponse)
    shard.answer(shard.join("late", protocols=PROTOCOLS), JoinGroupResponse)
    before = shard.groups.consumer[GROUP]
    assert (len(before.target("old")), len(before.target("late"))) == (1, 1)
    shard.leave_consumer("new")
    assert recorded_assignments(shard) == {"old": partitions("orders", 0, 1), "late": partitions("orders")}
    assert shard.volatile.classic[GROUP].state is ClassicGroupState.PREPARING_REBALANCE


@pytest.mark.parametrize(
    "settings",
    [
        replace(AT_ONCE, migration_policy=MigrationPolicy.UPGRADE),
        replace(AT_ONCE, classic=ClassicSettings(size_max=0)),
        replace(AT_ONCE, converted_size_max=0),
    ],
    ids=["policy", "size", "converted"],
)
def test_a_group_that_must_not_become_classic_goes_on_with_its_classic_members(settings: GroupShardSettings) -> None:
    shard, old, new = mixed(settings)
    new.leave()
    assert GROUP in shard.groups.consumer
    run(shard, old)
    assert shard.groups.consumer[GROUP].members.keys() == {old.member_id}


def test_another_coordinator_goes_on_with_the_rebalance() -> None:
    shard, old, new = mixed()
    new.leave()
    shard.load()
    run(shard, old)
