from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.partitions import ElectionType, PartitionName, PartitionResult
from kraft.model.partitions import ElectLeadersRequest as Asked
from kraft.model.partitions import ElectLeadersResponse as Answer
from kraft.server.kafka_listener.apis.elect_leaders import ElectLeadersApi
from kraft.wire.schema.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from tests.unit.server.kafka_listener.apis.listener import answered, versions_of

TWO = (TopicPartitions(topic="orders", partitions=(0, 1)),)


def elect(
    handle: Any, *, election_type: int = 0, topics: tuple[TopicPartitions, ...] | None = TWO, version: int = 2
) -> tuple[int, list[tuple[str, int, int, str | None]]]:
    request = ElectLeadersRequest(election_type=election_type, topic_partitions=topics, timeout_ms=5_000)
    response = asyncio.run(answered(ElectLeadersApi(handle), request, version, ElectLeadersResponse))
    return response.error_code, [
        (topic.topic, each.partition_id, each.error_code, each.error_message)
        for topic in response.replica_election_results
        for each in topic.partition_result
    ]


@pytest.mark.parametrize("version", versions_of(ElectLeadersRequest))
def test_leaders_are_elected_partition_by_partition(version: int) -> None:
    asked = []

    async def handle(request: Asked) -> Answer:
        asked.append(request)
        needless = PartitionResult(
            topic="orders", partition=1, error_code=ErrorCode.ELECTION_NOT_NEEDED, error_message="it leads"
        )
        return Answer(results=[PartitionResult(topic="orders", partition=0, error_code=ErrorCode.NONE), needless])

    election_type = ElectionType.UNCLEAN if version >= 1 else ElectionType.PREFERRED
    answer = elect(handle, election_type=election_type, version=version)
    names = [PartitionName(topic="orders", partition=0), PartitionName(topic="orders", partition=1)]
    assert asked == [Asked(election_type=election_type, partitions=names, timeout_ms=5_000)]
    assert answer == (0, [("orders", 0, 0, None), ("orders", 1, ErrorCode.ELECTION_NOT_NEEDED, "it leads")])


def test_null_stands_for_every_partition() -> None:
    async def handle(request: Asked) -> Answer:
        assert request.all_partitions
        assert not request.partitions
        return Answer(results=[])

    assert elect(handle, topics=None) == (0, [])


def test_a_type_of_election_that_does_not_exist_is_refused() -> None:
    async def handle(request: Asked) -> Answer:
        raise AssertionError("it is not to be asked")

    code, results = elect(handle, election_type=5)
    assert code == ErrorCode.INVALID_REQUEST
    assert results == [("orders", n, ErrorCode.INVALID_REQUEST, "unknown election type 5") for n in (0, 1)]


@pytest.mark.parametrize("raises", [True, False])
@pytest.mark.parametrize("version", versions_of(ElectLeadersRequest))
def test_a_refusal_of_the_whole_request_is_given_for_each_partition(version: int, raises: bool) -> None:
    async def handle(request: Asked) -> Answer:
        if raises:
            raise Refusal(ErrorCode.REQUEST_TIMED_OUT, "late")
        return Answer(results=[], error_code=ErrorCode.REQUEST_TIMED_OUT, error_message="late")

    code, results = elect(handle, version=version)
    assert code == (7 if version >= 1 else 0)
    assert results == [("orders", 0, 7, "late"), ("orders", 1, 7, "late")]
