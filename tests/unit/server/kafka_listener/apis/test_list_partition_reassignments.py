from __future__ import annotations

import asyncio

import pytest

from kraft.model.partitions import ListPartitionReassignmentsRequest as Asked
from kraft.model.partitions import ListPartitionReassignmentsResponse as Answer
from kraft.model.partitions import OngoingReassignment, PartitionName
from kraft.server.kafka_listener.apis.list_partition_reassignments import ListPartitionReassignmentsApi
from kraft.wire.schema.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from tests.unit.server.kafka_listener.apis.listener import answered

ONE = (ListPartitionReassignmentsTopics(name="orders", partition_indexes=(0, 2)),)


def under_way(topic: str, partition: int) -> OngoingReassignment:
    return OngoingReassignment(
        topic=topic, partition=partition, replicas=[1, 2, 3], adding_replicas=[3], removing_replicas=[1]
    )


@pytest.mark.parametrize(
    ("topics", "wanted"),
    [
        (None, Asked(partitions=[], all_partitions=True)),
        ((), Asked(partitions=[])),
        (ONE, Asked(partitions=[PartitionName(topic="orders", partition=n) for n in (0, 2)])),
    ],
    ids=["all", "none", "some"],
)
def test_moves_are_listed_by_topic(topics: tuple[ListPartitionReassignmentsTopics, ...] | None, wanted: Asked) -> None:
    async def handle(request: Asked) -> Answer:
        assert request == wanted
        return Answer(partitions=[under_way("bills", 5), under_way("orders", 0), under_way("orders", 2)])

    api = ListPartitionReassignmentsApi(handle)
    request = ListPartitionReassignmentsRequest(topics=topics)
    response = asyncio.run(answered(api, request, 0, ListPartitionReassignmentsResponse))
    assert (response.error_code, response.error_message) == (0, None)
    assert [(each.name, [p.partition_index for p in each.partitions]) for each in response.topics] == [
        ("bills", [5]),
        ("orders", [0, 2]),
    ]
    moved = response.topics[0].partitions[0]
    assert (moved.replicas, moved.adding_replicas, moved.removing_replicas) == ((1, 2, 3), (3,), (1,))
