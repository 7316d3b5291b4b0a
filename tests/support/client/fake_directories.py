"""Log directories of the fake cluster's brokers: each has `/a` and `/b`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kraft.model.errors import ErrorCode
from kraft.model.ids import TopicPartitionReplica
from kraft.wire.schema.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kraft.wire.schema.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from tests.support.client.fake_cluster import FakeCluster

PATHS: Final = ("/a", "/b")


class FakeDirectories:
    """What one broker answers; the places of replicas are the cluster's `places`, those of copies its `copies`."""

    def __init__(self, cluster: FakeCluster, broker_id: int) -> None:
        self._cluster = cluster
        self._broker_id = broker_id

    def describe_log_dirs(self, _: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        held = [(self._cluster.places, False), (self._cluster.copies, True)]
        results = (
            DescribeLogDirsResult(
                error_code=ErrorCode.NONE,
                log_dir=path,
                topics=tuple(
                    _described(replica, is_future=is_future)
                    for places, is_future in held
                    for replica, place in sorted(places.items())
                    if replica.broker_id == self._broker_id and place == path
                ),
            )
            for path in PATHS
        )
        return DescribeLogDirsResponse(error_code=ErrorCode.NONE, results=tuple(results))

    def alter_replica_log_dirs(self, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
        results = []
        for directory in request.dirs:
            for topic in directory.topics:
                codes = [
                    self._altered(TopicPartitionReplica(topic.name, number, self._broker_id), directory.path)
                    for number in topic.partitions
                ]
                partitions = (
                    AlterReplicaLogDirPartitionResult(partition_index=number, error_code=code)
                    for number, code in zip(topic.partitions, codes, strict=True)
                )
                results.append(AlterReplicaLogDirTopicResult(topic_name=topic.name, partitions=tuple(partitions)))
        return AlterReplicaLogDirsResponse(results=tuple(results))

    def _altered(self, replica: TopicPartitionReplica, path: str) -> ErrorCode:
        if path not in PATHS:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if replica not in self._cluster.places:
            return ErrorCode.REPLICA_NOT_AVAILABLE
        self._cluster.copies.pop(replica, None)
        if self._cluster.places[replica] != path:
            self._cluster.copies[replica] = path
        return ErrorCode.NONE


def _described(replica: TopicPartitionReplica, *, is_future: bool) -> DescribeLogDirsTopic:
    partition = DescribeLogDirsPartition(
        partition_index=replica.partition, partition_size=1, offset_lag=0, is_future_key=is_future
    )
    return DescribeLogDirsTopic(name=replica.topic, partitions=(partition,))
