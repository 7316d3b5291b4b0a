from __future__ import annotations

import pytest

from kraft.model.committed_offsets import FetchedGroup, FetchedPartition, FetchedTopic
from kraft.model.committed_offsets import OffsetFetchRequest as Asked
from kraft.model.committed_offsets import OffsetFetchResponse as Found
from kraft.model.errors import ErrorCode
from kraft.model.ids import Offset
from kraft.server.kafka_listener.apis.offset_fetch import OffsetFetchApi
from kraft.wire.schema.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.support.cluster_images import ORDERS
from tests.unit.server.kafka_listener.apis.listener import answered, topic_named

GROUP = "g"


async def fetch(asked: Asked) -> Found:
    """Every partition has offset 5; the group `refused` is not coordinated here."""
    return Found(
        groups=tuple(
            FetchedGroup(group_id=group.group_id, error_code=ErrorCode.NOT_COORDINATOR, error_message="no")
            if group.group_id == "refused"
            else FetchedGroup(
                group_id=group.group_id,
                topics=tuple(
                    FetchedTopic(
                        name=topic.name,
                        topic_id=topic.topic_id,
                        partitions=tuple(
                            FetchedPartition(partition=each, offset=Offset(5), metadata="note")
                            for each in topic.partitions
                        ),
                    )
                    for topic in group.topics
                ),
            )
            for group in asked.groups
        )
    )


@pytest.mark.parametrize("version", range(1, 8))
async def test_offsets_of_one_group_are_fetched(version: int) -> None:
    topics = (OffsetFetchRequestTopic(name="orders", partition_indexes=(0, 1)),)
    request = OffsetFetchRequest(group_id=GROUP, topics=topics)
    response = await answered(OffsetFetchApi(fetch), request, version, OffsetFetchResponse)
    (topic,) = response.topics
    assert (response.error_code, topic.name) == (0, "orders")
    assert [(each.partition_index, each.committed_offset, each.metadata) for each in topic.partitions] == [
        (0, 5, "note"),
        (1, 5, "note"),
    ]


@pytest.mark.parametrize("version", range(8, 11))
async def test_offsets_of_several_groups_are_fetched_by_name_or_by_id(version: int) -> None:
    by_id = version >= 10
    topic = topic_named(OffsetFetchRequestTopics, by_id, "orders", ORDERS, "name", partition_indexes=(1,))
    groups = tuple(OffsetFetchRequestGroup(group_id=each, topics=(topic,)) for each in (GROUP, "refused"))
    response = await answered(OffsetFetchApi(fetch), OffsetFetchRequest(groups=groups), version, OffsetFetchResponse)
    found, refused = response.groups
    assert (found.group_id, found.error_code, found.topics[0].name) == (GROUP, 0, "" if by_id else "orders")
    assert (found.topics[0].topic_id == ORDERS) is by_id
    assert found.topics[0].partitions[0].committed_offset == 5
    assert (refused.group_id, refused.error_code, refused.topics) == ("refused", 16, ())


@pytest.mark.parametrize("version", range(1, 8))
async def test_a_refusal_is_in_the_partitions_before_version_2(version: int) -> None:
    topics = (OffsetFetchRequestTopic(name="orders", partition_indexes=(0,)),)
    request = OffsetFetchRequest(group_id="refused", topics=topics)
    response = await answered(OffsetFetchApi(fetch), request, version, OffsetFetchResponse)
    codes = [each.error_code for topic in response.topics for each in topic.partitions]
    assert (response.error_code, codes) == ((0, [16]) if version == 1 else (16, []))


async def test_a_request_without_topics_asks_for_all() -> None:
    requests: list[Asked] = []

    async def handle(asked: Asked) -> Found:
        requests.append(asked)
        deleted = FetchedTopic(name="deleted", partitions=(FetchedPartition(partition=0),))
        return Found(groups=(FetchedGroup(group_id=GROUP, topics=(deleted,)),))

    for version, names in ((7, ["deleted"]), (9, ["deleted"]), (10, [])):
        request = OffsetFetchRequest(group_id=GROUP, topics=None, require_stable=True)
        if version >= 8:
            group = OffsetFetchRequestGroup(group_id=GROUP, topics=None, member_id="m", member_epoch=3)
            request = OffsetFetchRequest(groups=(group,), require_stable=True)
        response = await answered(OffsetFetchApi(handle), request, version, OffsetFetchResponse)
        topics = response.groups[0].topics if version >= 8 else response.topics
        assert [each.name for each in topics] == names, "a deleted topic has no id"
    assert all(each.groups[0].all_topics and each.require_stable for each in requests)
    assert (requests[-1].groups[0].member_id, requests[-1].groups[0].member_epoch) == ("m", 3)
