"""DescribeLogDirs: list the replicas and free space of this broker's log directories (KIP-113, KIP-827)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from kraft.model import log_directories as values
from kraft.model.errors import ErrorCode
from kraft.model.partitions import PartitionName
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

Handle = Callable[[values.DescribeLogDirectoriesRequest], list[values.LogDirectoryDescription]]


class DescribeLogDirsApi:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def __call__(self, request: DescribeLogDirsRequest, call: RequestContext) -> DescribeLogDirsResponse:
        described = self._handle(
            values.DescribeLogDirectoriesRequest(
                partitions=[
                    PartitionName(topic=topic.topic, partition=partition)
                    for topic in request.topics or ()
                    for partition in topic.partitions
                ],
                all_partitions=request.topics is None,
            )
        )
        return DescribeLogDirsResponse(error_code=ErrorCode.NONE, results=tuple(map(_directory, described)))


def _directory(described: values.LogDirectoryDescription) -> DescribeLogDirsResult:
    return DescribeLogDirsResult(
        error_code=described.error_code,
        log_dir=described.directory,
        topics=tuple(
            DescribeLogDirsTopic(name=topic, partitions=tuple(map(_replica, replicas)))
            for topic, replicas in groupby(described.replicas, key=lambda each: each.topic)
        ),
        total_bytes=described.total_bytes,
        usable_bytes=described.usable_bytes,
    )


def _replica(replica: values.ReplicaSize) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=replica.partition,
        partition_size=replica.size_bytes,
        offset_lag=replica.offset_lag,
        is_future_key=replica.is_future,
    )
