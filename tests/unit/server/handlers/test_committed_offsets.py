from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from kraft.coordinator.groups.commands import CommitOffsets
from kraft.metadata.records import TopicDeleted
from kraft.model.committed_offsets import (
    CommitPartition,
    CommitTopic,
    DeleteOffsets,
    DeleteTopic,
    FetchedGroup,
    FetchGroup,
    FetchTopic,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetResults,
    TxnOffsetCommitRequest,
)
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import Offset, TopicId
from kraft.rpc.group_calls import OFFSET_COMMIT, TXN_OFFSET_COMMIT
from kraft.server.handlers.committed_offsets import COMMITTED_AT_ONCE
from tests.support.cluster_images import ORDERS, with_topic
from tests.support.server.group_broker import GROUP, GroupBroker
from tests.support.server.replicas import settle
from tests.support.turn_counter import TurnCounter

UNKNOWN_ID = TopicId(UUID(int=404))
NEW_ID = TopicId(UUID(int=101))

Fetched = dict[tuple[str, int], tuple[int, ErrorCode]]


def committing(*topics: CommitTopic, group_id: str = GROUP, **fields: Any) -> CommitOffsets:
    return CommitOffsets(group_id=group_id, topics=topics, **fields)


def offsets_of(name: str, topic_id: TopicId | None = None, **offsets: int) -> CommitTopic:
    """The offsets are named `p0`, `p1` ..."""
    partitions = (CommitPartition(partition=int(each[1:]), offset=Offset(number)) for each, number in offsets.items())
    return CommitTopic(name=name, topic_id=topic_id, partitions=tuple(partitions))


def codes(results: OffsetResults) -> list[tuple[str, TopicId | None, list[ErrorCode]]]:
    return [(each.name, each.topic_id, [found.error_code for found in each.partitions]) for each in results.topics]


async def fetched(broker: GroupBroker, *topics: FetchTopic, require_stable: bool = False, **group: Any) -> FetchedGroup:
    asked = FetchGroup(group_id=group.pop("group_id", GROUP), topics=topics, all_topics=not topics, **group)
    request = OffsetFetchRequest(groups=(asked,), require_stable=require_stable)
    (found,) = (await broker.handlers.offsets.fetch(request)).groups
    return found


def offsets_in(group: FetchedGroup) -> Fetched:
    return {
        (topic.name, each.partition): (each.offset, each.error_code)
        for topic in group.topics
        for each in topic.partitions
    }


async def test_offsets_of_partitions_that_exist_are_committed(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        command = committing(offsets_of("orders", p0=5, p9=6), offsets_of("nowhere", p0=7))
        assert codes(await broker.handlers.offsets.commit(command)) == [
            ("orders", None, [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
            ("nowhere", None, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
        ]
        assert offsets_in(await fetched(broker)) == {("orders", 0): (5, ErrorCode.NONE)}


async def test_topics_may_be_given_by_id(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        command = committing(offsets_of("", ORDERS, p1=5, p2=6), offsets_of("", UNKNOWN_ID, p0=7))
        assert codes(await broker.handlers.offsets.commit(command)) == [
            ("", ORDERS, [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
            ("", UNKNOWN_ID, [ErrorCode.UNKNOWN_TOPIC_ID]),
        ]
        asked = [FetchTopic(name="", topic_id=each, partitions=(1,)) for each in (ORDERS, UNKNOWN_ID)]
        known, unknown = (await fetched(broker, *asked)).topics
        assert (known.topic_id, known.partitions[0].offset) == (ORDERS, 5)
        assert (unknown.topic_id, unknown.partitions[0].error_code) == (UNKNOWN_ID, ErrorCode.UNKNOWN_TOPIC_ID)


async def test_a_commit_without_a_partition_that_exists_does_not_ask_for_its_group(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        command = committing(offsets_of("nowhere", p0=7), generation=9, member_id="stranger")
        (result,) = codes(await broker.handlers.offsets.commit(command))
        assert result[2] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


async def test_only_members_of_the_generation_commit(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        member_id = await broker.stable()
        command = committing(offsets_of("orders", p0=5), member_id=member_id, generation=1)
        await broker.handlers.offsets.commit(command)
        for refused, code in (
            (replace(command, generation=0), ErrorCode.ILLEGAL_GENERATION),
            (replace(command, member_id="stranger"), ErrorCode.UNKNOWN_MEMBER_ID),
        ):
            with pytest.raises(Refusal) as caught:
                await broker.handlers.offsets.commit(refused)
            assert caught.value.error_code is code
        assert offsets_in(await fetched(broker)) == {("orders", 0): (5, ErrorCode.NONE)}


async def test_a_request_over_grpc_is_a_commit_without_a_retention_time(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        (served,) = (each for each in broker.handlers.served() if each.call is OFFSET_COMMIT)
        await served.handler(OffsetCommitRequest(group_id=GROUP, topics=(offsets_of("orders", p0=5),)))
        assert offsets_in(await fetched(broker)) == {("orders", 0): (5, ErrorCode.NONE)}


async def test_offsets_of_a_transaction_over_grpc_are_unstable_until_it_ends(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        (served,) = (each for each in broker.handlers.served() if each.call is TXN_OFFSET_COMMIT)
        request = TxnOffsetCommitRequest(
            group_id=GROUP,
            topics=(offsets_of("orders", p0=5), offsets_of("none", p0=5)),
            transactional_id="t",
            producer_id=7,
            producer_epoch=0,
        )
        results = await served.handler(request)
        codes = [each.error_code for topic in results.topics for each in topic.partitions]
        assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert [asked.adds for asked in broker.transactions.asked] == [True]
        assert offsets_in(await fetched(broker)) == {}


async def test_partitions_without_an_offset_and_groups_that_do_not_exist_have_none(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        found = await fetched(broker, FetchTopic(name="nowhere", partitions=(3,)))
        assert offsets_in(found) == {("nowhere", 3): (-1, ErrorCode.NONE)}
        assert (await fetched(broker)).topics == ()


async def test_offsets_of_an_earlier_topic_with_the_same_name_are_not_returned(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        await broker.handlers.offsets.commit(committing(offsets_of("orders", p0=5)))
        broker.image = broker.image.replay([TopicDeleted(topic_id=ORDERS)])
        assert offsets_in(await fetched(broker)) == {("orders", 0): (5, ErrorCode.NONE)}
        broker.image = with_topic(broker.image, [1], topic_id=NEW_ID)
        (topic,) = (await fetched(broker)).topics
        assert topic.partitions == ()
        found = await fetched(broker, FetchTopic(name="orders", partitions=(0,)))
        assert offsets_in(found) == {("orders", 0): (-1, ErrorCode.NONE)}


async def test_a_group_is_fetched_once_however_often_it_is_named(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        await broker.handlers.offsets.commit(committing(offsets_of("orders", p0=5)))
        all_topics = FetchGroup(group_id=GROUP, all_topics=True)
        other = FetchGroup(group_id="other", all_topics=True)
        some = FetchGroup(group_id="other", topics=(FetchTopic(name="orders", partitions=(0,)),))
        asked = OffsetFetchRequest(groups=(all_topics, other, all_topics, some, other, all_topics))
        found, refused = (await broker.handlers.offsets.fetch(asked)).groups
        assert (found.group_id, offsets_in(found)) == (GROUP, {("orders", 0): (5, ErrorCode.NONE)})
        assert (refused.group_id, refused.error_code) == ("other", ErrorCode.INVALID_REQUEST)
        assert refused.error_message == "the request names group 'other' twice, and asks for different offsets"


async def test_an_offset_about_to_be_committed_is_not_stable(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path, sync_before_ack=True) as broker:
        committed = committing(offsets_of("orders", p0=5, p1=6))
        commit = asyncio.create_task(broker.handlers.offsets.commit(committed))
        await settle()
        asked = FetchTopic(name="orders", partitions=(0,))
        assert offsets_in(await fetched(broker, asked)) == {("orders", 0): (-1, ErrorCode.NONE)}
        unstable = (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        assert offsets_in(await fetched(broker, asked, require_stable=True)) == {("orders", 0): unstable}
        assert offsets_in(await fetched(broker, require_stable=True)) == {
            ("orders", number): unstable for number in (0, 1)
        }
        broker.broker.sync()
        await commit
        assert offsets_in(await fetched(broker, asked, require_stable=True)) == {("orders", 0): (5, ErrorCode.NONE)}


async def test_a_member_of_the_consumer_protocol_fetches_in_its_epoch(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        epoch = (await broker.join_consumer(member_id="m")).member_epoch
        assert (await fetched(broker, member_id="m", member_epoch=epoch)).error_code is ErrorCode.NONE
        stale = await fetched(broker, member_id="m", member_epoch=epoch + 1)
        assert stale.error_code is ErrorCode.STALE_MEMBER_EPOCH
        assert (await fetched(broker, member_id="n", member_epoch=1)).error_code is ErrorCode.UNKNOWN_MEMBER_ID


async def test_offsets_are_deleted(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        await broker.handlers.offsets.commit(committing(offsets_of("orders", p0=5, p1=6)))
        command = DeleteOffsets(group_id=GROUP, topics=(DeleteTopic("orders", (1, 9)), DeleteTopic("nowhere", (0,))))
        assert codes(await broker.handlers.offsets.delete(command)) == [
            ("orders", None, [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
            ("nowhere", None, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
        ]
        assert offsets_in(await fetched(broker)) == {("orders", 0): (5, ErrorCode.NONE)}


@pytest.mark.parametrize(
    ("group_id", "code"), [("", ErrorCode.INVALID_GROUP_ID), ("none", ErrorCode.GROUP_ID_NOT_FOUND)]
)
async def test_offsets_of_a_group_that_does_not_exist_are_not_deleted(
    group_id: str, code: ErrorCode, tmp_path: Path
) -> None:
    async with GroupBroker(tmp_path) as broker:
        command = DeleteOffsets(group_id=group_id, topics=(DeleteTopic("orders", (0,)),))
        with pytest.raises(Refusal) as caught:
            await broker.handlers.offsets.delete(command)
        assert caught.value.error_code is code


async def test_offsets_of_many_partitions_are_committed_some_at_a_time(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        large = offsets_of("orders", p0=0, p1=1, p2=2)
        many = replace(large, partitions=large.partitions * COMMITTED_AT_ONCE)
        unknown = offsets_of("unknown", p0=1)
        async with TurnCounter() as others:
            results = await broker.handlers.offsets.commit(committing(unknown, many, offsets_of("orders"), unknown))
        assert others.turns >= 3
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes(results) == [
            ("unknown", None, [missing]),
            ("orders", None, [ErrorCode.NONE, ErrorCode.NONE, missing] * COMMITTED_AT_ONCE),
            ("orders", None, []),
            ("unknown", None, [missing]),
        ]
        assert offsets_in(await fetched(broker)) == {
            ("orders", 0): (0, ErrorCode.NONE),
            ("orders", 1): (1, ErrorCode.NONE),
        }


async def test_offsets_of_many_partitions_are_deleted_some_at_a_time(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        await broker.handlers.offsets.commit(committing(offsets_of("orders", p0=5, p1=6)))
        many = DeleteTopic(name="orders", partitions=(0, 7) * COMMITTED_AT_ONCE)
        async with TurnCounter() as others:
            results = await broker.handlers.offsets.delete(DeleteOffsets(group_id=GROUP, topics=(many,)))
        assert others.turns >= 2
        found = [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * COMMITTED_AT_ONCE
        assert codes(results) == [("orders", None, found)]
        assert offsets_in(await fetched(broker)) == {("orders", 1): (6, ErrorCode.NONE)}
