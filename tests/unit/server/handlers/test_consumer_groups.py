from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kraft.metadata.features import GROUP_VERSION
from kraft.metadata.records import FeatureLevelSet, TopicDeleted
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.groups import MemberType
from kraft.server.handlers.consumer_groups import ENTRIES_OF_MEMBER, MEMBERS_AT_ONCE
from kraft.wire.schema import consumer_group_describe
from kraft.wire.schema.consumer_group_heartbeat import Assignment, TopicPartitions
from tests.support.cluster_images import ORDERS
from tests.support.server.group_broker import CONTEXT, GROUP, GroupBroker, heartbeat

ALL = (TopicPartitions(topic_id=ORDERS, topic_name="orders", partitions=(0, 1)),)
NAMED = consumer_group_describe.Assignment(
    topic_partitions=(consumer_group_describe.TopicPartitions(topic_id=ORDERS, topic_name="orders", partitions=(0, 1)),)
)


async def described(broker: GroupBroker, group_id: str = GROUP) -> consumer_group_describe.DescribedGroup:
    request = consumer_group_describe.ConsumerGroupDescribeRequest(
        group_ids=(group_id,), include_authorized_operations=False
    )
    (group,) = (await broker.handlers.consumer.describe(request)).groups
    return group


async def test_a_member_gets_its_assignment_once(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        joined = await broker.join_consumer()
        assert joined.assignment == Assignment(topic_partitions=ALL)
        fields: dict[str, Any] = {"member_epoch": joined.member_epoch, "rebalance_timeout_ms": -1}
        owning = await broker.join_consumer(subscribed_topic_names=None, topic_partitions=ALL, **fields)
        assert (owning.member_epoch, owning.assignment) == (joined.member_epoch, None)


async def test_a_group_is_described_with_its_members(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        joined = await broker.join_consumer(rack_id="a", instance_id="static", server_assignor="range")
        group = await described(broker)
        (member,) = group.members
        assert (group.group_state, group.group_epoch, group.assignor_name) == ("Stable", joined.member_epoch, "range")
        assert (member.client_id, member.client_host, member.rack_id) == ("tester", "/10.0.0.7", "a")
        assert (member.instance_id, member.subscribed_topic_names) == ("static", ("orders",))
        assert member.assignment == member.target_assignment == NAMED
        assert member.member_type == MemberType.CONSUMER
        broker.image = broker.image.replay([TopicDeleted(topic_id=ORDERS)])
        (member,) = (await described(broker)).members
        assert member.assignment.topic_partitions == (), "only what exists"


async def test_others_have_their_turn_while_members_with_many_topics_are_described(tmp_path: Path) -> None:
    members = 5
    async with GroupBroker(tmp_path) as broker:
        names = tuple(map(str, range(MEMBERS_AT_ONCE * ENTRIES_OF_MEMBER)))
        for number in range(members):
            await broker.join_consumer(member_id=f"m{number}", subscribed_topic_names=names)
        describing = asyncio.ensure_future(described(broker))
        turns = 0
        while not describing.done():
            await asyncio.sleep(0)
            turns += 1
        assert len(describing.result().members) == members
        assert turns > members


@pytest.mark.parametrize(
    ("group_id", "code"),
    [("", ErrorCode.INVALID_GROUP_ID), ("none", ErrorCode.GROUP_ID_NOT_FOUND), ("old", ErrorCode.GROUP_ID_NOT_FOUND)],
)
async def test_other_groups_are_not_described(group_id: str, code: ErrorCode, tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        await broker.stable("old")
        group = await described(broker, group_id)
        assert (group.error_code, bool(group.error_message)) == (code, True)


async def test_a_stale_epoch_is_fenced(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        await broker.join_consumer()
        with pytest.raises(Refusal) as caught:
            await broker.join_consumer(member_epoch=99)
        assert caught.value.error_code is ErrorCode.FENCED_MEMBER_EPOCH


async def test_the_protocol_is_refused_until_the_cluster_is_at_its_level(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        broker.image = broker.image.replay([FeatureLevelSet(feature=GROUP_VERSION, level=0)])
        with pytest.raises(Refusal, match=r"kraft features upgrade --feature group\.version=1") as caught:
            await broker.handlers.consumer.heartbeat(heartbeat(), CONTEXT)
        assert caught.value.error_code is ErrorCode.UNSUPPORTED_VERSION
        assert (await described(broker)).error_code is ErrorCode.UNSUPPORTED_VERSION
