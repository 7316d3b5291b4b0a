from __future__ import annotations

import asyncio

import pytest

from kraft.model.delete_records import DeleteRecordsPartition as Wanted
from kraft.model.delete_records import DeleteRecordsPartitionResult as Result
from kraft.model.delete_records import DeleteRecordsRequest as Asked
from kraft.model.delete_records import DeleteRecordsResponse as Answer
from kraft.model.errors import ErrorCode
from kraft.server.kafka_listener.apis.delete_records import DeleteRecordsApi
from kraft.wire.schema.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tests.unit.server.kafka_listener.apis.listener import answered, versions_of


@pytest.mark.parametrize("version", versions_of(DeleteRecordsRequest))
def test_each_partition_is_answered_under_its_topic(version: int) -> None:
    asked = []

    async def handle(request: Asked) -> Answer:
        asked.append(request)
        return Answer(
            partitions=[
                Result(topic="orders", partition=1, error_code=ErrorCode.NONE, low_watermark=10),
                Result(topic="orders", partition=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE),
                Result(topic="bills", partition=2, error_code=ErrorCode.NONE, low_watermark=7),
            ]
        )

    orders = (
        DeleteRecordsPartition(partition_index=1, offset=10),
        DeleteRecordsPartition(partition_index=0, offset=99),
    )
    bills = (DeleteRecordsPartition(partition_index=2, offset=-1),)
    request = DeleteRecordsRequest(
        topics=(
            DeleteRecordsTopic(name="orders", partitions=orders),
            DeleteRecordsTopic(name="bills", partitions=bills),
        ),
        timeout_ms=300,
    )
    response = asyncio.run(answered(DeleteRecordsApi(handle), request, version, DeleteRecordsResponse))
    assert asked == [
        Asked(
            timeout_ms=300,
            partitions=[
                Wanted(topic="orders", partition=1, before_offset=10),
                Wanted(topic="orders", partition=0, before_offset=99),
                Wanted(topic="bills", partition=2, before_offset=-1),
            ],
        )
    ]
    assert [
        (topic.name, each.partition_index, each.low_watermark, each.error_code)
        for topic in response.topics
        for each in topic.partitions
    ] == [("orders", 1, 10, 0), ("orders", 0, -1, ErrorCode.OFFSET_OUT_OF_RANGE), ("bills", 2, 7, 0)]
