from __future__ import annotations

import asyncio

import pytest

from kraft.model.errors import ErrorCode
from kraft.model.ids import LogDirectory
from kraft.model.log_directories import DescribeLogDirectoriesRequest as Asked
from kraft.model.log_directories import LogDirectoryDescription, ReplicaSize
from kraft.model.partitions import PartitionName
from kraft.server.kafka_listener.apis.describe_log_dirs import DescribeLogDirsApi
from kraft.wire.schema.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from tests.unit.server.kafka_listener.apis.listener import answered, versions_of

DIRECTORIES = [
    LogDirectoryDescription(
        directory=LogDirectory("/a"),
        total_bytes=1_000,
        usable_bytes=400,
        replicas=[
            ReplicaSize(topic="bills", partition=0, size_bytes=5, offset_lag=0),
            ReplicaSize(topic="orders", partition=0, size_bytes=7, offset_lag=2),
            ReplicaSize(topic="orders", partition=1, size_bytes=9, offset_lag=0),
        ],
    ),
    LogDirectoryDescription(directory=LogDirectory("/b"), error_code=ErrorCode.KAFKA_STORAGE_ERROR),
]


@pytest.mark.parametrize("version", versions_of(DescribeLogDirsRequest))
def test_directories_are_described_with_their_replicas(version: int) -> None:
    def handle(request: Asked) -> list[LogDirectoryDescription]:
        assert request == Asked(partitions=[], all_partitions=True)
        return DIRECTORIES

    request = DescribeLogDirsRequest(topics=None)
    response = asyncio.run(answered(DescribeLogDirsApi(handle), request, version, DescribeLogDirsResponse))
    used, failed = response.results
    assert (response.error_code, used.error_code, used.log_dir) == (0, 0, "/a")
    assert (used.total_bytes, used.usable_bytes) == ((1_000, 400) if version >= 4 else (-1, -1))
    assert [
        (topic.name, each.partition_index, each.partition_size, each.offset_lag, each.is_future_key)
        for topic in used.topics
        for each in topic.partitions
    ] == [("bills", 0, 5, 0, False), ("orders", 0, 7, 2, False), ("orders", 1, 9, 0, False)]
    assert (failed.error_code, failed.log_dir, failed.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, "/b", ())


def test_some_partitions_may_be_asked_for() -> None:
    def handle(request: Asked) -> list[LogDirectoryDescription]:
        assert request == Asked(partitions=[PartitionName(topic="orders", partition=n) for n in (1, 2)])
        return []

    request = DescribeLogDirsRequest(topics=(DescribableLogDirTopic(topic="orders", partitions=(1, 2)),))
    assert asyncio.run(answered(DescribeLogDirsApi(handle), request, 4, DescribeLogDirsResponse)).results == ()
