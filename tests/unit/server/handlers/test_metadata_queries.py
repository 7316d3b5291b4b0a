from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from kraft.log.topic_config import KAFKA_DEFAULTS
from kraft.metadata.reassignment import alter_partition_reassignments
from kraft.model.brokers import DescribeBrokersRequest
from kraft.model.partitions import AlterPartitionReassignmentsRequest, ListPartitionReassignmentsRequest, Reassignment
from kraft.model.topics import DescribeTopicsRequest
from kraft.rpc.call import Call
from kraft.rpc.calls import DESCRIBE_BROKERS, LIST_PARTITION_REASSIGNMENTS
from kraft.rpc.topic_calls import DESCRIBE_TOPICS
from kraft.server.handlers.metadata_queries import MetadataQueries
from tests.support.cluster_images import cluster, with_topic

Request = TypeVar("Request")
Response = TypeVar("Response")

MOVE = AlterPartitionReassignmentsRequest(
    partitions=[Reassignment(topic="orders", partition=0, replicas=[1, 3])], timeout_ms=30_000
)


def test_every_query_is_answered_from_the_image_of_the_moment() -> None:
    image = cluster(1, 2, 3)
    queries = MetadataQueries(lambda: image)
    handlers: dict[Any, Any] = {served.call: served.handler for served in queries.served()}

    def answer(call: Call[Request, Response], request: Request) -> Response:
        response: Response = asyncio.run(handlers[call](request))
        return response

    assert answer(DESCRIBE_TOPICS, DescribeTopicsRequest(topics=[])).topics == []
    image = with_topic(image, [1, 2], isr=[2, 1])
    image = image.replay(alter_partition_reassignments(image, MOVE, defaults=KAFKA_DEFAULTS).records)
    (topic,) = answer(DESCRIBE_TOPICS, DescribeTopicsRequest(topics=[])).topics
    assert topic.metadata.topic == "orders"
    assert [each.broker_id for each in answer(DESCRIBE_BROKERS, DescribeBrokersRequest(broker_ids=[])).brokers] == [
        1,
        2,
        3,
    ]
    everything = ListPartitionReassignmentsRequest(partitions=[], all_partitions=True)
    (reassignment,) = answer(LIST_PARTITION_REASSIGNMENTS, everything).partitions
    assert (reassignment.replicas, reassignment.adding_replicas, reassignment.removing_replicas) == (
        [1, 3, 2],
        [3],
        [2],
    )
