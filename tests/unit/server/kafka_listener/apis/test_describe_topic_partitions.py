from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from kraft.model.describe_topic_partitions import PartitionPlace, TopicPage, TopicPageRequest
from kraft.model.errors import ErrorCode
from kraft.model.metadata import PartitionMetadata, TopicMetadata
from kraft.server.handlers.authorized_operations import ON_TOPIC
from kraft.server.handlers.describe_topic_partitions import describe_topic_partitions
from kraft.server.kafka_listener.apis.describe_topic_partitions import DescribeTopicPartitionsApi, Handle
from kraft.wire.schema.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tests.support.cluster_images import ORDERS
from tests.unit.server.kafka_listener.apis.listener import IMAGE, answered


def described(
    handle: Handle, *names: str, limit: int = 2_000, cursor: Cursor | None = None
) -> DescribeTopicPartitionsResponse:
    topics = tuple(TopicRequest(name=name) for name in names)
    request = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=cursor)
    api = DescribeTopicPartitionsApi(handle)
    return asyncio.run(answered(api, request, 0, DescribeTopicPartitionsResponse))


def of_image(request: TopicPageRequest) -> TopicPage:
    return describe_topic_partitions(IMAGE, request)


def test_topics_are_described_with_their_partitions() -> None:
    response = described(of_image, "orders", "nowhere")
    unknown, orders = response.topics
    assert (unknown.name, unknown.error_code, unknown.partitions) == ("nowhere", 3, ())
    assert (orders.name, orders.topic_id, orders.error_code, orders.is_internal) == ("orders", ORDERS, 0, False)
    assert orders.topic_authorized_operations == ON_TOPIC
    assert [(each.partition_index, each.leader_id, each.replica_nodes) for each in orders.partitions] == [
        (0, 1, (1, 2)),
        (1, 1, (1, 2)),
        (2, 2, (2, 1)),
    ]
    assert response.next_cursor is None


def test_all_pages_together_are_everything() -> None:
    found, cursor = [], None
    while True:
        response = described(of_image, limit=1, cursor=cursor)
        found += [each.partition_index for topic in response.topics for each in topic.partitions]
        cursor = response.next_cursor
        if cursor is None:
            break
    assert found == [0, 1, 2]


def test_eligible_leader_replicas_are_described() -> None:
    def handle(request: TopicPageRequest) -> TopicPage:
        partition = PartitionMetadata(
            partition=0,
            leader_id=-1,
            leader_epoch=3,
            replicas=[1, 2, 3],
            isr=[],
            offline_replicas=[1],
            elr=[2],
            last_known_elr=[3],
        )
        topic = TopicMetadata(
            error_code=ErrorCode.NONE, topic="__consumer_offsets", topic_id=UUID(int=1), partitions=[partition]
        )
        return TopicPage(topics=[topic])

    (topic,) = described(handle).topics
    (partition,) = topic.partitions
    assert topic.is_internal
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (
        ErrorCode.LEADER_NOT_AVAILABLE,
        -1,
        3,
    )
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ((2,), (3,))
    assert (partition.isr_nodes, partition.offline_replicas) == ((), (1,))


@pytest.mark.parametrize(("asked", "limit"), [(10, 10), (9_999, 2_000), (0, 1), (-5, 1)])
def test_an_answer_holds_a_bounded_number_of_partitions(asked: int, limit: int) -> None:
    requests = []

    def handle(request: TopicPageRequest) -> TopicPage:
        requests.append(request)
        return TopicPage(topics=[], following=PartitionPlace(topic="orders", partition=5))

    response = described(handle, "orders", limit=asked, cursor=Cursor(topic_name="a", partition_index=2))
    assert requests == [
        TopicPageRequest(topics=["orders"], partitions_max=limit, begin=PartitionPlace(topic="a", partition=2))
    ]
    assert response.next_cursor is not None
    assert (response.next_cursor.topic_name, response.next_cursor.partition_index) == ("orders", 5)


def test_a_cursor_that_points_nowhere_is_refused() -> None:
    response = described(of_image, "orders", cursor=Cursor(topic_name="orders", partition_index=-1))
    (topic,) = response.topics
    assert (topic.name, topic.error_code) == ("orders", ErrorCode.INVALID_REQUEST)
