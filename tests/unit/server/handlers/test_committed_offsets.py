from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kraft.coordinator.offsets.fetch import without_offset
from kraft.metadata.records import TopicDeleted
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import Offset, TopicId
from kraft.model.request_context import RequestContext
from kraft.server.handlers.committed_offsets import (
    COMMITTED_AT_ONCE,
    PARTITIONS_AT_ONCE,
    commit_refused,
    fetch_from_version,
    fetch_to_version,
    transactional_commit_refused,
    transactional_commit_to_version,
)
from kraft.wire.declaration import ZERO_UUID, replace
from kraft.wire.schema.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kraft.wire.schema.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from kraft.wire.schema.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)
from kraft.wire.schema.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic
from tests.support.cluster_images import ORDERS, with_topic
from tests.support.offset_commands import asking, offset, offset_in_transaction
from tests.support.server.group_broker import GROUP, GroupBroker
from tests.support.server.replicas import settle
from tests.support.turn_counter import TurnCounter

NEWEST = RequestContext(version=OffsetCommitRequest.versions.last)
UNKNOWN_ID = TopicId(UUID(int=404))
NEW_ID = TopicId(UUID(int=101))

Fetched = dict[tuple[str, int], tuple[int, ErrorCode]]


def committing(*topics: OffsetCommitRequestTopic, group_id: str = GROUP, **fields: Any) -> OffsetCommitRequest:
    return OffsetCommitRequest(**{"group_id": group_id, "member_id": "", "topics": topics, **fields})


def offsets_of(name: str, topic_id: UUID = ZERO_UUID, **offsets: int) -> OffsetCommitRequestTopic:
    """The offsets are named `p0`, `p1` ..."""
    partitions = (offset(int(each[1:]), number) for each, number in offsets.items())
    return OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=tuple(partitions))


def codes(response: OffsetCommitResponse | OffsetDeleteResponse) -> list[tuple[str, list[int]]]:
    return [(each.name, [found.error_code for found in each.partitions]) for each in response.topics]


def deleting(group_id: str, **topics: tuple[int, ...]) -> OffsetDeleteRequest:
    asked = (
        OffsetDeleteRequestTopic(
            name=name, partitions=tuple(OffsetDeleteRequestPartition(partition_index=each) for each in numbers)
        )
        for name, numbers in topics.items()
    )
    return OffsetDeleteRequest(group_id=group_id, topics=tuple(asked))


async def fetched(
    broker: GroupBroker, *topics: OffsetFetchRequestTopics, require_stable: bool = False, **group: Any
) -> OffsetFetchResponseGroup:
    asked = OffsetFetchRequestGroup(group_id=group.pop("group_id", GROUP), topics=topics or None, **group)
    request = OffsetFetchRequest(groups=(asked,), require_stable=require_stable)
    (found,) = (await broker.handlers.offsets.fetch(request, NEWEST)).groups
    return found


def offsets_in(group: OffsetFetchResponseGroup) -> Fetched:
    return {
        (topic.name, each.partition_index): (each.committed_offset, ErrorCode(each.error_code))
        for topic in group.topics
        for each in topic.partitions
    }


async def test_offsets_of_partitions_that_exist_are_committed(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        command = committing(offsets_of("orders", p0=5, p9=6), offsets_of("nowhere", p0=7))
        assert codes(await broker.handlers.offsets.commit(command, NEWEST)) == [
            ("orders", [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
            ("nowhere", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
        ]
        assert offsets_in(await fetched(broker)) == {("orders", 0): (5, ErrorCode.NONE)}


async def test_a_loaded_coordinator_answers_commits_and_fetches_without_reading_its_log(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        disk = broker.broker.disk
        for number in range(20):
            await broker.handlers.offsets.commit(committing(offsets_of("orders", p0=number)), NEWEST)
            assert offsets_in(await fetched(broker)) == {("orders", 0): (number, ErrorCode.NONE)}
        assert disk.read == []
        log = broker.partition.log
        assert log.log_end_offset >= 20, "each commit is a record"
        assert log.read(Offset(0), 1 << 20, log.log_end_offset)
        assert disk.read != [], "a read of the log is seen"


async def test_topics_may_be_given_by_id(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        command = committing(offsets_of("", ORDERS, p1=5, p2=6), offsets_of("", UNKNOWN_ID, p0=7))
        assert codes(await broker.handlers.offsets.commit(command, NEWEST)) == [
            ("", [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
            ("", [ErrorCode.UNKNOWN_TOPIC_ID]),
        ]
        asked = [asking("", 1, topic_id=each) for each in (ORDERS, UNKNOWN_ID)]
        known, unknown = (await fetched(broker, *asked)).topics
        assert (known.topic_id, known.partitions[0].committed_offset) == (ORDERS, 5)
        assert (unknown.topic_id, unknown.partitions[0].error_code) == (UNKNOWN_ID, ErrorCode.UNKNOWN_TOPIC_ID)


async def test_a_commit_without_a_partition_that_exists_does_not_ask_for_its_group(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        command = committing(offsets_of("nowhere", p0=7), generation_id_or_member_epoch=9, member_id="stranger")
        (result,) = codes(await broker.handlers.offsets.commit(command, NEWEST))
        assert result[1] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


async def test_only_members_of_the_generation_commit(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        member_id = await broker.stable()
        command = committing(offsets_of("orders", p0=5), member_id=member_id, generation_id_or_member_epoch=1)
        await broker.handlers.offsets.commit(command, NEWEST)
        for refused, code in (
            (replace(command, generation_id_or_member_epoch=0), ErrorCode.ILLEGAL_GENERATION),
            (replace(command, member_id="stranger"), ErrorCode.UNKNOWN_MEMBER_ID),
        ):
            with pytest.raises(Refusal) as caught:
                await broker.handlers.offsets.commit(refused, NEWEST)
            assert caught.value.error_code is code
        assert offsets_in(await fetched(broker)) == {("orders", 0): (5, ErrorCode.NONE)}


@pytest.mark.parametrize(("version", "adds"), [(0, False), (4, False), (5, True)])
async def test_offsets_of_a_transaction_do_not_count_until_it_ends(version: int, adds: bool, tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        partition = offset_in_transaction(0, 5, None)
        request = TxnOffsetCommitRequest(
            group_id=GROUP,
            topics=tuple(
                TxnOffsetCommitRequestTopic(name=each, partitions=(partition,)) for each in ("orders", "none")
            ),
            transactional_id="t",
            producer_id=7,
            producer_epoch=0,
        )
        results = await broker.handlers.offsets.commit_in_transaction(request, RequestContext(version=version))
        codes = [each.error_code for topic in results.topics for each in topic.partitions]
        assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert [asked.adds for asked in broker.transactions.asked] == [adds]
        assert offsets_in(await fetched(broker)) == {}


async def test_partitions_without_an_offset_and_groups_that_do_not_exist_have_none(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        found = await fetched(broker, asking("nowhere", 3))
        assert offsets_in(found) == {("nowhere", 3): (-1, ErrorCode.NONE)}
        assert (await fetched(broker)).topics == ()


async def test_offsets_of_an_earlier_topic_with_the_same_name_are_not_returned(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        await broker.handlers.offsets.commit(committing(offsets_of("orders", p0=5)), NEWEST)
        broker.image = broker.image.replay([TopicDeleted(topic_id=ORDERS)])
        assert offsets_in(await fetched(broker)) == {("orders", 0): (5, ErrorCode.NONE)}
        broker.image = with_topic(broker.image, [1], topic_id=NEW_ID)
        (topic,) = (await fetched(broker)).topics
        assert topic.partitions == ()
        found = await fetched(broker, asking("orders", 0))
        assert offsets_in(found) == {("orders", 0): (-1, ErrorCode.NONE)}


async def test_a_group_is_fetched_once_however_often_it_is_named(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        await broker.handlers.offsets.commit(committing(offsets_of("orders", p0=5)), NEWEST)
        all_topics = OffsetFetchRequestGroup(group_id=GROUP, topics=None)
        other = OffsetFetchRequestGroup(group_id="other", topics=None)
        some = OffsetFetchRequestGroup(group_id="other", topics=(asking("orders", 0),))
        asked = OffsetFetchRequest(groups=(all_topics, other, all_topics, some, other, all_topics))
        found, refused = (await broker.handlers.offsets.fetch(asked, NEWEST)).groups
        assert (found.group_id, offsets_in(found)) == (GROUP, {("orders", 0): (5, ErrorCode.NONE)})
        assert (refused.group_id, refused.error_code) == ("other", ErrorCode.INVALID_REQUEST)


async def test_an_offset_about_to_be_committed_is_not_stable(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path, sync_before_ack=True) as broker:
        committed = committing(offsets_of("orders", p0=5, p1=6))
        commit = asyncio.create_task(broker.handlers.offsets.commit(committed, NEWEST))
        await settle()
        asked = asking("orders", 0)
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
        assert (await fetched(broker, member_id="m", member_epoch=epoch)).error_code == ErrorCode.NONE
        stale = await fetched(broker, member_id="m", member_epoch=epoch + 1)
        assert stale.error_code == ErrorCode.STALE_MEMBER_EPOCH
        assert (await fetched(broker, member_id="n", member_epoch=1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_offsets_are_deleted(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        await broker.handlers.offsets.commit(committing(offsets_of("orders", p0=5, p1=6)), NEWEST)
        command = deleting(GROUP, orders=(1, 9), nowhere=(0,))
        assert codes(await broker.handlers.offsets.delete(command)) == [
            ("orders", [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
            ("nowhere", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
        ]
        assert offsets_in(await fetched(broker)) == {("orders", 0): (5, ErrorCode.NONE)}


@pytest.mark.parametrize(
    ("group_id", "code"), [("", ErrorCode.INVALID_GROUP_ID), ("none", ErrorCode.GROUP_ID_NOT_FOUND)]
)
async def test_offsets_of_a_group_that_does_not_exist_are_not_deleted(
    group_id: str, code: ErrorCode, tmp_path: Path
) -> None:
    async with GroupBroker(tmp_path) as broker:
        command = deleting(group_id, orders=(0,))
        with pytest.raises(Refusal) as caught:
            await broker.handlers.offsets.delete(command)
        assert caught.value.error_code is code


async def test_offsets_of_many_partitions_are_committed_some_at_a_time(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        large = offsets_of("orders", p0=0, p1=1, p2=2)
        many = replace(large, partitions=large.partitions * COMMITTED_AT_ONCE)
        unknown = offsets_of("unknown", p0=1)
        async with TurnCounter() as others:
            results = await broker.handlers.offsets.commit(
                committing(unknown, many, offsets_of("orders"), unknown), NEWEST
            )
        assert others.turns >= 3
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes(results) == [
            ("unknown", [missing]),
            ("orders", [ErrorCode.NONE, ErrorCode.NONE, missing] * COMMITTED_AT_ONCE),
            ("orders", []),
            ("unknown", [missing]),
        ]
        assert offsets_in(await fetched(broker)) == {
            ("orders", 0): (0, ErrorCode.NONE),
            ("orders", 1): (1, ErrorCode.NONE),
        }


@pytest.mark.parametrize("at_once", [1, 3 * COMMITTED_AT_ONCE])
async def test_many_partitions_that_do_not_exist_are_answered_in_turns(at_once: int, tmp_path: Path) -> None:
    partitions = tuple(offset(number) for number in range(at_once))
    topics = [
        OffsetCommitRequestTopic(name=f"unknown {number}", partitions=partitions)
        for number in range(3 * COMMITTED_AT_ONCE // at_once)
    ]
    async with GroupBroker(tmp_path) as broker, TurnCounter() as others:
        results = codes(await broker.handlers.offsets.commit(committing(*topics), NEWEST))
        assert others.turns >= 3
    assert results == [(each.name, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * at_once) for each in topics]


@pytest.mark.parametrize("require_stable", [False, True])
async def test_offsets_of_many_partitions_are_fetched_some_at_a_time(require_stable: bool, tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        await broker.handlers.offsets.commit(committing(offsets_of("orders", p0=5, p1=6)), NEWEST)
        numbers = (0, 1, 7) * PARTITIONS_AT_ONCE
        topic = OffsetFetchRequestTopics(name="orders", partition_indexes=numbers)
        async with TurnCounter() as others:
            group = await fetched(broker, topic, require_stable=require_stable)
        assert others.turns >= 3
        (found,) = group.topics
        assert [each.partition_index for each in found.partitions] == list(numbers)
        assert [each.committed_offset for each in found.partitions] == [5, 6, -1] * PARTITIONS_AT_ONCE


async def test_offsets_of_many_partitions_are_deleted_some_at_a_time(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        await broker.handlers.offsets.commit(committing(offsets_of("orders", p0=5, p1=6)), NEWEST)
        many = deleting(GROUP, orders=(0, 7) * COMMITTED_AT_ONCE)
        async with TurnCounter() as others:
            results = await broker.handlers.offsets.delete(many)
        assert others.turns >= 2
        found = [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * COMMITTED_AT_ONCE
        assert codes(results) == [("orders", found)]
        assert offsets_in(await fetched(broker)) == {("orders", 1): (6, ErrorCode.NONE)}


# --- Kafka's protocol --------------------------------------------------------------------------------------------


async def test_before_version_10_a_topic_without_a_name_is_one_that_does_not_exist(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        response = await broker.handlers.offsets.commit(committing(offsets_of("", p0=5)), RequestContext(version=9))
        assert codes(response) == [("", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])]
        response = await broker.handlers.offsets.commit(committing(offsets_of("", p0=5)), NEWEST)
        assert codes(response) == [("", [ErrorCode.UNKNOWN_TOPIC_ID])]


async def test_a_commit_is_checked_as_one_of_its_version(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        command = committing(offsets_of("orders", p0=5), member_id="m", generation_id_or_member_epoch=3)
        for version, code in ((8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)):
            with pytest.raises(Refusal) as caught:
                await broker.handlers.offsets.commit(command, RequestContext(version=version))
            assert caught.value.error_code is code


def test_a_refused_commit_is_the_result_of_each_partition() -> None:
    topics = offsets_of("orders", p1=5), offsets_of("", ORDERS, p0=6)
    assert commit_refused(committing(*topics), Refusal(ErrorCode.ILLEGAL_GENERATION, "no")) == OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=name,
                topic_id=topic_id,
                partitions=(OffsetCommitResponsePartition(partition_index=number, error_code=22),),
            )
            for name, topic_id, number in (("orders", ZERO_UUID, 1), ("", ORDERS, 0))
        )
    )


@pytest.mark.parametrize(
    ("refused", "version", "code"),
    [
        (ErrorCode.ILLEGAL_GENERATION, 3, ErrorCode.ILLEGAL_GENERATION),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_a_refused_commit_with_a_transaction_has_a_code_that_the_client_knows(
    refused: ErrorCode, version: int, code: ErrorCode
) -> None:
    partitions = tuple(offset_in_transaction(each, 5, None) for each in (0, 1))
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id="g",
        producer_id=7,
        producer_epoch=2,
        topics=(TxnOffsetCommitRequestTopic(name="orders", partitions=partitions),),
    )
    response = transactional_commit_refused(request, Refusal(refused, "no"))
    (topic,) = transactional_commit_to_version(request, response, version).topics
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [(0, code), (1, code)]


# --- older versions of OffsetFetch -----------------------------------------------------------------------------------


@pytest.mark.parametrize("topics", [None, (OffsetFetchRequestTopic(name="orders", partition_indexes=(0, 1)),)])
def test_the_only_group_of_an_older_version_is_fetched(topics: tuple[OffsetFetchRequestTopic, ...] | None) -> None:
    request = fetch_from_version(OffsetFetchRequest(group_id=GROUP, topics=topics, require_stable=True), 7)
    asked = None if topics is None else (asking("orders", 0, 1),)
    assert request.groups == (OffsetFetchRequestGroup(group_id=GROUP, topics=asked),)
    assert request.require_stable
    assert fetch_from_version(request, 8) is request
    partition = without_offset(1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    found = OffsetFetchResponseTopics(name="orders", topic_id=ORDERS, partitions=(partition,))
    fetched = OffsetFetchResponse(groups=(OffsetFetchResponseGroup(group_id=GROUP, topics=(found,)),))
    (topic,) = fetch_to_version(request, fetched, 7).topics
    (only,) = topic.partitions
    assert (topic.name, only.partition_index, only.error_code) == ("orders", 1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert (only.committed_offset, only.committed_leader_epoch, only.metadata) == (-1, -1, "")
    assert fetch_to_version(request, fetched, 8) is fetched


@pytest.mark.parametrize(("version", "partitions"), [(1, [16, 16]), (2, [])])
def test_a_refused_group_has_its_error_in_each_partition_before_version_2(version: int, partitions: list[int]) -> None:
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=GROUP, topics=(asking("orders", 0, 1),)),))
    refused = OffsetFetchResponseGroup(group_id=GROUP, topics=(), error_code=ErrorCode.NOT_COORDINATOR)
    response = fetch_to_version(request, OffsetFetchResponse(groups=(refused,)), version)
    assert response.error_code == ErrorCode.NOT_COORDINATOR
    assert [each.error_code for topic in response.topics for each in topic.partitions] == partitions


def test_of_all_topics_those_without_an_id_are_left_out_since_version_10() -> None:
    topics = tuple(OffsetFetchResponseTopics(name="x", topic_id=each, partitions=()) for each in (ORDERS, ZERO_UUID))
    fetched = OffsetFetchResponse(groups=(OffsetFetchResponseGroup(group_id=GROUP, topics=topics),))
    for asked, left in ((None, topics[:1]), ((), topics)):
        request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=GROUP, topics=asked),))
        assert fetch_to_version(request, fetched, 10).groups[0].topics == left
