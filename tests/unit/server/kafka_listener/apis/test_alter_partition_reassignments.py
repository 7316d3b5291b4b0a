from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.partitions import AlterPartitionReassignmentsRequest as Asked
from kraft.model.partitions import AlterPartitionReassignmentsResponse as Answer
from kraft.model.partitions import PartitionResult, Reassignment
from kraft.server.kafka_listener.apis.alter_partition_reassignments import AlterPartitionReassignmentsApi
from kraft.wire.schema.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.unit.server.kafka_listener.apis.listener import answered, versions_of

MOVED = ReassignablePartition(partition_index=0, replicas=(2, 3))
CANCELLED = ReassignablePartition(partition_index=1, replicas=None)
TOPICS = (ReassignableTopic(name="orders", partitions=(MOVED, CANCELLED)),)


def alter(handle: Any, version: int = 1) -> AlterPartitionReassignmentsResponse:
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=5_000, allow_replication_factor_change=version < 1, topics=TOPICS
    )
    api = AlterPartitionReassignmentsApi(handle)
    return asyncio.run(answered(api, request, version, AlterPartitionReassignmentsResponse))


def results(response: AlterPartitionReassignmentsResponse) -> list[tuple[str, int, int, str | None]]:
    return [
        (topic.name, each.partition_index, each.error_code, each.error_message)
        for topic in response.responses
        for each in topic.partitions
    ]


@pytest.mark.parametrize("version", versions_of(AlterPartitionReassignmentsRequest))
def test_partitions_are_moved_and_moves_are_cancelled(version: int) -> None:
    asked = []

    async def handle(request: Asked) -> Answer:
        asked.append(request)
        idle = PartitionResult(
            topic="orders", partition=1, error_code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, error_message="nothing moves"
        )
        return Answer(results=[PartitionResult(topic="orders", partition=0, error_code=ErrorCode.NONE), idle])

    response = alter(handle, version)
    assert asked == [
        Asked(
            partitions=[
                Reassignment(topic="orders", partition=0, replicas=[2, 3]),
                Reassignment(topic="orders", partition=1, cancels=True),
            ],
            timeout_ms=5_000,
            allow_replication_factor_change=version < 1,
        )
    ]
    assert (response.error_code, response.error_message) == (0, None)
    assert response.allow_replication_factor_change is (version < 1)
    assert results(response) == [
        ("orders", 0, 0, None),
        ("orders", 1, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "nothing moves"),
    ]


@pytest.mark.parametrize("raises", [True, False])
def test_a_refusal_of_the_whole_request_is_given_for_each_partition(raises: bool) -> None:
    async def handle(request: Asked) -> Answer:
        if raises:
            raise Refusal(ErrorCode.UNSUPPORTED_VERSION, "metadata.version")
        return Answer(results=[], error_code=ErrorCode.UNSUPPORTED_VERSION, error_message="metadata.version")

    response = alter(handle)
    assert (response.error_code, response.error_message) == (35, "metadata.version")
    assert results(response) == [("orders", 0, 35, "metadata.version"), ("orders", 1, 35, "metadata.version")]
