from __future__ import annotations

from typing import Any

import pytest

from kraft.coordinator.classic.messages import MemberIdRequired
from kraft.coordinator.classic.timers import JoinTimer, SessionTimer, SyncTimer
from kraft.coordinator.consumer.requests import RejoinTimeout, SessionTimeout, SyncTimeout
from kraft.coordinator.consumer.settings import GroupSettings
from kraft.coordinator.groups.settings import GroupShardSettings, MigrationPolicy
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.join_group import JoinGroupResponse
from kraft.wire.schema.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.support.classic_requests import assigning, offered
from tests.unit.coordinator.groups.coordinator import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    Coordinator,
    joining_consumer,
)
from tests.unit.coordinator.groups.migrating_clients import ClassicClient, subscription_of


def settled(shard: Coordinator, *, cooperative: bool = False) -> ClassicClient:
    """A classic group of one consumer, which reads both partitions."""
    client = ClassicClient(shard, "old", cooperative=cooperative)
    for _ in range(20):
        client.step()
        shard.advance(500)
        if client.owned and shard.volatile.classic[GROUP].state.value == "Stable":
            return client
    raise AssertionError(client.owned)


def test_the_timers_of_the_classic_group_become_those_of_its_members() -> None:
    shard = Coordinator()
    old = settled(shard)
    shard.join_consumer("new")
    assert shard.timers.keys() >= {SessionTimeout(GROUP, old.member_id), SessionTimeout(GROUP, "new")}
    gone = {SessionTimer(GROUP, old.member_id), JoinTimer(GROUP), SyncTimer(GROUP)}
    assert not shard.timers.keys() & gone
    assert shard.timers[SessionTimeout(GROUP, old.member_id)] - shard.now_ms == SESSION_MS


def test_an_old_member_has_its_rebalance_timeout_to_join_again() -> None:
    shard = Coordinator()
    old = settled(shard)
    shard.join_consumer("new")
    for _ in range(10):
        # It sends heartbeats, and so does the other one; but it does not join.
        answer = shard.classic_heartbeat(old.member_id)
        assert isinstance(answer, Refusal)
        assert answer.error_code is ErrorCode.REBALANCE_IN_PROGRESS
        assert RejoinTimeout(GROUP, old.member_id) in shard.volatile.rejoining
        shard.join_consumer("new", member_epoch=2)
        shard.advance(REBALANCE_MS // 10)
    assert shard.groups.consumer[GROUP].members.keys() == {"new"}
    assert not shard.volatile.rejoining


def test_a_member_that_joined_has_its_rebalance_timeout_to_sync() -> None:
    shard = Coordinator()
    old = settled(shard)
    shard.join_consumer("new")
    ticket = shard.join(old.member_id, protocols=(offered("range", subscription_of(frozenset())),))
    assert shard.answer(ticket, JoinGroupResponse).generation_id == 2
    assert SyncTimeout(GROUP, old.member_id) in shard.timers
    for _ in range(10):
        shard.classic_heartbeat(old.member_id, generation=2)
        shard.join_consumer("new", member_epoch=2)
        shard.advance(REBALANCE_MS // 10)
    assert shard.groups.consumer[GROUP].members.keys() == {"new"}


def test_a_rebalance_under_way_goes_on_in_the_new_group_whatever_the_new_member_subscribes_to() -> None:
    shard = Coordinator()
    settled(shard)
    protocols = (offered("range", subscription_of(frozenset())),)
    shard.join(shard.answer(shard.join(protocols=protocols), MemberIdRequired).member_id, protocols=protocols)
    shard.join_consumer("new", topics=None, topic_regex="none.*")
    group = shard.groups.consumer[GROUP]
    assert group.epoch == group.assignment_epoch == 2
    assert sorted(len(target) for target in group.targets.values()) == [0, 1, 1]


def refused_upgrade(settings: GroupShardSettings | None = None, **changes: Any) -> Coordinator:
    shard = Coordinator(settings)
    if changes:
        shard.stable(**changes)
    else:
        settled(shard)
    before, volatile = shard.groups, shard.volatile
    assert shard.refusal(joining_consumer("new")) is ErrorCode.GROUP_ID_NOT_FOUND
    assert (shard.groups, shard.volatile) == (before, volatile)
    return shard


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_the_policy_may_forbid_it(policy: MigrationPolicy) -> None:
    refused_upgrade(GroupShardSettings(migration_policy=policy))


def test_a_group_above_the_maximum_of_the_consumer_protocol_stays_classic() -> None:
    refused_upgrade(GroupShardSettings(consumer=GroupSettings(members_max=0)))


def test_a_group_with_more_members_than_one_decision_converts_stays_classic() -> None:
    refused_upgrade(GroupShardSettings(converted_size_max=0))


def test_a_group_with_an_assignment_that_cannot_be_read_stays_classic() -> None:
    refused_upgrade(group_id=GROUP)


def test_a_group_of_something_else_than_consumers_stays_classic() -> None:
    shard = Coordinator()
    fields: dict[str, Any] = {"protocol_type": "connect", "protocols": (offered("range", b""),)}
    shard.join(shard.answer(shard.join(**fields), MemberIdRequired).member_id, **fields)
    assert shard.refusal(joining_consumer("new")) is ErrorCode.GROUP_ID_NOT_FOUND
    assert GROUP in shard.volatile.classic


def test_an_assignment_with_data_of_a_custom_assignor_is_not_lost() -> None:
    shard = Coordinator()
    old = settled(shard)
    metadata = (offered("range", subscription_of(frozenset({0}))),)
    generation = shard.answer(shard.join(old.member_id, protocols=metadata), JoinGroupResponse).generation_id
    own = bytes.fromhex("0000 00000000 00000001 01")
    sync = SyncGroupRequest(
        group_id=GROUP, member_id=old.member_id, generation_id=generation, assignments=assigning({old.member_id: own})
    )
    shard.answer(shard.request(sync), SyncGroupResponse)
    assert shard.refusal(joining_consumer("new")) is ErrorCode.GROUP_ID_NOT_FOUND
    assert GROUP in shard.volatile.classic


def test_a_refused_member_does_not_upgrade_the_group() -> None:
    shard = Coordinator(GroupShardSettings(consumer=GroupSettings(members_max=1)))
    settled(shard)
    assert shard.refusal(joining_consumer("new")) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert GROUP in shard.volatile.classic
    assert GROUP not in shard.groups.consumer
