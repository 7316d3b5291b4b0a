"""AlterReplicaLogDirs: move replicas between the log directories of this broker (KIP-113)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kraft.model import log_directories as values
from kraft.model.ids import LogDirectory
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

Handle = Callable[[values.AlterReplicaLogDirectoriesRequest], Awaitable[list[values.ReplicaDirectoryResult]]]


class AlterReplicaLogDirsApi:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def __call__(self, request: AlterReplicaLogDirsRequest, call: RequestContext) -> AlterReplicaLogDirsResponse:
        answered = await self._handle(
            values.AlterReplicaLogDirectoriesRequest(
                replicas=[
                    values.ReplicaDirectory(
                        topic=topic.name, partition=partition, directory=LogDirectory(directory.path)
                    )
                    for directory in request.dirs
                    for topic in directory.topics
                    for partition in topic.partitions
                ]
            )
        )
        topics: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
        for result in answered:
            topics.setdefault(result.topic, []).append(
                AlterReplicaLogDirPartitionResult(partition_index=result.partition, error_code=result.error_code)
            )
        return AlterReplicaLogDirsResponse(
            results=tuple(
                AlterReplicaLogDirTopicResult(topic_name=topic, partitions=tuple(partitions))
                for topic, partitions in topics.items()
            )
        )
