from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kraft.model.errors import ErrorCode, Refusal
from kraft.server.handlers.authorized_operations import NOT_ASKED, ON_GROUP
from kraft.server.handlers.groups import descriptions_to_version
from kraft.wire.declaration import replace
from kraft.wire.schema.consumer_group_describe import ConsumerGroupDescribeRequest
from kraft.wire.schema.delete_groups import DeleteGroupsRequest
from kraft.wire.schema.describe_groups import DescribeGroupsRequest
from kraft.wire.schema.heartbeat import HeartbeatRequest
from kraft.wire.schema.leave_group import LeaveGroupRequest, MemberIdentity
from kraft.wire.schema.list_groups import ListedGroup, ListGroupsRequest
from kraft.wire.schema.offset_delete import OffsetDeleteRequest
from kraft.wire.schema.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.support.server.group_broker import CONTEXT, GroupBroker, syncing
from tests.support.server.replicas import lead, settle
from tests.support.turn_counter import TurnCounter

GROUPS = [
    ListedGroup(group_id="left", protocol_type="consumer", group_state="Empty", group_type="classic"),
    ListedGroup(group_id="new", protocol_type="consumer", group_state="Stable", group_type="consumer"),
    ListedGroup(group_id="old", protocol_type="consumer", group_state="Stable", group_type="classic"),
]


async def with_groups(broker: GroupBroker) -> None:
    await broker.stable("old")
    await broker.join_consumer("new")
    await broker.leave(await broker.stable("left"), "left")


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        ((), (), GROUPS),
        (("STABLE",), (), GROUPS[1:]),
        ((), ("Classic",), [GROUPS[0], GROUPS[2]]),
        (("stable", "empty"), ("classic",), [GROUPS[0], GROUPS[2]]),
        (("NoSuchState",), (), []),
    ],
)
async def test_groups_are_listed_by_state_and_type(
    states: tuple[str, ...], types: tuple[str, ...], found: list[ListedGroup], tmp_path: Path
) -> None:
    async with GroupBroker(tmp_path) as broker:
        await with_groups(broker)
        listed = await broker.handlers.groups.list_groups(ListGroupsRequest(states_filter=states, types_filter=types))
        # How often they rebalanced is for another test.
        groups = [replace(each, rebalances=0) for each in listed.groups]
        assert sorted(groups, key=lambda each: each.group_id) == found


async def test_groups_are_listed_with_their_rebalances_of_the_last_minutes(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        await broker.stable("calm")
        await broker.leave(await broker.stable("restless"), "restless")
        # The lines about groups are written, and counted, in later turns.
        for _ in range(20):
            await asyncio.sleep(0)
        listed = await broker.handlers.groups.list_groups(ListGroupsRequest())
        counts = {each.group_id: each.rebalances for each in listed.groups}
        # One when the member joined, one when it left.
        assert counts == {"calm": 1, "restless": 2}


async def test_classic_groups_are_described_and_others_are_not_found(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        await with_groups(broker)
        asked = DescribeGroupsRequest(groups=("old", "new", "none"))
        old, new, none = (await broker.handlers.groups.describe(asked)).groups
        (member,) = old.members
        assert (old.group_state, old.protocol_type, old.protocol_data) == ("Stable", "consumer", "range")
        assert (member.client_id, member.client_host, member.member_assignment) == ("tester", "/10.0.0.7", b"all")
        assert [each.error_code for each in (new, none)] == [ErrorCode.GROUP_ID_NOT_FOUND] * 2
        assert none.error_message == "there is no group 'none' of the classic protocol"


async def test_a_group_is_described_once_however_often_it_is_named(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        await with_groups(broker)
        asked = ("old", "new", "old", "old", "new")
        classic = await broker.handlers.groups.describe(DescribeGroupsRequest(groups=asked))
        consumer = await broker.handlers.consumer.describe(
            ConsumerGroupDescribeRequest(group_ids=asked, include_authorized_operations=False)
        )
        assert [each.group_id for each in classic.groups] == ["old", "new"]
        assert [each.group_id for each in consumer.groups] == ["old", "new"]


async def test_groups_without_members_are_deleted(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        await with_groups(broker)
        asked = DeleteGroupsRequest(groups_names=("left", "old", "new", "none", "left"))
        deleted = await broker.handlers.groups.delete(asked)
        assert [(each.group_id, each.error_code) for each in deleted.results] == [
            ("left", ErrorCode.NONE),
            ("old", ErrorCode.NON_EMPTY_GROUP),
            ("new", ErrorCode.NON_EMPTY_GROUP),
            ("none", ErrorCode.GROUP_ID_NOT_FOUND),
        ]
        assert len((await broker.handlers.groups.list_groups(ListGroupsRequest())).groups) == 2


async def test_a_broker_without_the_coordinator_says_so(tmp_path: Path) -> None:
    broker = GroupBroker(tmp_path)
    assert (await broker.handlers.groups.list_groups(ListGroupsRequest())).groups == ()
    (group,) = (await broker.handlers.groups.describe(DescribeGroupsRequest(groups=("old",)))).groups
    (deleted,) = (await broker.handlers.groups.delete(DeleteGroupsRequest(groups_names=("old",)))).results
    assert group.error_code == deleted.error_code == ErrorCode.NOT_COORDINATOR
    with pytest.raises(Refusal):
        broker.coordinators.view("old")


async def test_a_partition_that_is_no_longer_led_is_not_listed(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        await with_groups(broker)
        # The role ends a moment before its coordinator is stopped.
        leader, broker.partition.leader = broker.partition.leader, None
        assert (await broker.handlers.groups.list_groups(ListGroupsRequest())).groups == ()
        broker.partition.leader = leader


async def test_nothing_is_listed_while_a_coordinator_cannot_answer(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        await with_groups(broker)
        lead(broker.partition, epoch=2, replicas=(1,))
        assert await listing_error(broker) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await settle()
        broker.broker.is_full = True
        with pytest.raises(Refusal):
            await broker.stable("another")
        assert await listing_error(broker) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        broker.broker.is_full = False
        await asyncio.sleep(1)
        assert len((await broker.handlers.groups.list_groups(ListGroupsRequest())).groups) == 3
    assert await listing_error(broker) is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def listing_error(broker: GroupBroker) -> ErrorCode:
    with pytest.raises(Refusal) as raised:
        await broker.handlers.groups.list_groups(ListGroupsRequest())
    return raised.value.error_code


async def test_an_id_longer_than_kafkas_texts_is_refused_by_every_request(tmp_path: Path) -> None:
    long = "g" * 40_000
    async with GroupBroker(tmp_path) as broker:
        groups, consumer, offsets = broker.handlers.groups, broker.handlers.consumer, broker.handlers.offsets
        answers: tuple[Any, ...] = (
            *(await groups.describe(DescribeGroupsRequest(groups=(long,)))).groups,
            *(await groups.delete(DeleteGroupsRequest(groups_names=(long,)))).results,
            *(
                await consumer.describe(
                    ConsumerGroupDescribeRequest(group_ids=(long,), include_authorized_operations=False)
                )
            ).groups,
            *(
                await offsets.fetch(
                    OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=long, topics=None),)), CONTEXT
                )
            ).groups,
        )
        assert [each.error_code for each in answers] == [ErrorCode.INVALID_GROUP_ID] * 4
        classic = broker.handlers.classic
        for refused in (
            broker.join(long),
            broker.join_consumer(long),
            classic.sync(syncing(long, "m"), CONTEXT),
            classic.heartbeat(HeartbeatRequest(group_id=long, member_id="m", generation_id=1)),
            classic.leave(LeaveGroupRequest(group_id=long, members=(MemberIdentity(member_id="m"),))),
            offsets.delete(OffsetDeleteRequest(group_id=long, topics=())),
        ):
            with pytest.raises(Refusal) as caught:
                await refused
            assert caught.value.error_code is ErrorCode.INVALID_GROUP_ID


async def test_many_groups_that_do_not_exist_are_looked_for_in_turns(tmp_path: Path) -> None:
    names = tuple(f"unknown {number}" for number in range(2_000))
    async with GroupBroker(tmp_path) as broker:
        groups, consumer, offsets = broker.handlers.groups, broker.handlers.consumer, broker.handlers.offsets
        fetched = OffsetFetchRequest(
            groups=tuple(OffsetFetchRequestGroup(group_id=each, topics=None) for each in names)
        )
        for asking in (
            groups.describe(DescribeGroupsRequest(groups=names)),
            consumer.describe(ConsumerGroupDescribeRequest(group_ids=names, include_authorized_operations=False)),
            offsets.fetch(fetched, CONTEXT),
        ):
            async with TurnCounter() as others:
                assert len((await asking).groups) == len(names)
            assert others.turns >= 3, asking
        async with TurnCounter() as others:
            assert len((await groups.delete(DeleteGroupsRequest(groups_names=names))).results) == len(names)
        assert others.turns >= 3


@pytest.mark.parametrize("asked", [True, False])
async def test_a_group_that_does_not_exist_is_dead(asked: bool, tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        request = DescribeGroupsRequest(groups=("none",), include_authorized_operations=asked)
        described = await broker.handlers.groups.describe(request)
    for version, code, operations in ((5, 0, ON_GROUP if asked else NOT_ASKED), (6, 69, NOT_ASKED)):
        (group,) = descriptions_to_version(request, described, version).groups
        assert (group.error_code, group.group_state, group.authorized_operations) == (code, "Dead", operations)


async def test_operations_are_described_if_they_are_asked_for(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        await with_groups(broker)
        for asked, operations in ((True, ON_GROUP), (False, NOT_ASKED)):
            classic = DescribeGroupsRequest(groups=("old",), include_authorized_operations=asked)
            consumer = ConsumerGroupDescribeRequest(group_ids=("new",), include_authorized_operations=asked)
            (old,) = (await broker.handlers.groups.describe(classic)).groups
            (new,) = (await broker.handlers.consumer.describe(consumer)).groups
            assert old.authorized_operations == new.authorized_operations == operations
