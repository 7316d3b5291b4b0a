from __future__ import annotations

import asyncio

import pytest

from kraft.model.errors import ErrorCode
from kraft.model.ids import LogDirectory
from kraft.model.log_directories import AlterReplicaLogDirectoriesRequest as Asked
from kraft.model.log_directories import ReplicaDirectory, ReplicaDirectoryResult
from kraft.server.kafka_listener.apis.alter_replica_log_dirs import AlterReplicaLogDirsApi
from kraft.wire.schema.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from tests.unit.server.kafka_listener.apis.listener import answered, versions_of


def result(topic: str, partition: int, code: ErrorCode = ErrorCode.NONE) -> ReplicaDirectoryResult:
    return ReplicaDirectoryResult(topic=topic, partition=partition, error_code=code, error_message="")


@pytest.mark.parametrize("version", versions_of(AlterReplicaLogDirsRequest))
def test_what_is_asked_by_directory_is_answered_by_topic(version: int) -> None:
    async def handle(request: Asked) -> list[ReplicaDirectoryResult]:
        assert request == Asked(
            replicas=[
                ReplicaDirectory(topic="orders", partition=0, directory=LogDirectory("/a")),
                ReplicaDirectory(topic="orders", partition=1, directory=LogDirectory("/a")),
                ReplicaDirectory(topic="bills", partition=0, directory=LogDirectory("/b")),
                ReplicaDirectory(topic="orders", partition=2, directory=LogDirectory("/b")),
            ]
        )
        return [
            result("orders", 0),
            result("orders", 1, ErrorCode.LOG_DIR_NOT_FOUND),
            result("bills", 0, ErrorCode.REPLICA_NOT_AVAILABLE),
            result("orders", 2),
        ]

    request = AlterReplicaLogDirsRequest(
        dirs=(
            AlterReplicaLogDir(path="/a", topics=(AlterReplicaLogDirTopic(name="orders", partitions=(0, 1)),)),
            AlterReplicaLogDir(
                path="/b",
                topics=(
                    AlterReplicaLogDirTopic(name="bills", partitions=(0,)),
                    AlterReplicaLogDirTopic(name="orders", partitions=(2,)),
                ),
            ),
        )
    )
    response = asyncio.run(answered(AlterReplicaLogDirsApi(handle), request, version, AlterReplicaLogDirsResponse))
    assert response.throttle_time_ms == 0
    assert [
        (topic.topic_name, [(each.partition_index, each.error_code) for each in topic.partitions])
        for topic in response.results
    ] == [("orders", [(0, 0), (1, 57), (2, 0)]), ("bills", [(0, 9)])]
