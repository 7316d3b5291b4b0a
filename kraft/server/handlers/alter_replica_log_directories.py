"""AlterReplicaLogDirs: move replicas between the log directories of this broker. Source: KIP-113."""

from __future__ import annotations

from collections import Counter
from typing import Final

import structlog

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import LogDirectory, TopicPartition
from kraft.server.replica.log_directories import LogDirectories
from kraft.server.replica.partitions import Partitions
from kraft.server.replica.replica_mover import ReplicaMover
from kraft.wire.schema.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

log = structlog.get_logger()

TEXT_MAX: Final = 300
"""The most characters that a log event repeats of a request."""


class AlterReplicaLogDirectoriesHandler:
    def __init__(self, directories: LogDirectories, partitions: Partitions, mover: ReplicaMover) -> None:
        self._directories = directories
        self._partitions = partitions
        self._mover = mover

    async def handle(self, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
        """Return one result per replica, by topic in the order of first mention; if one is named twice, the last one
        counts.

        NONE: the replica is in its directory already, or its move has begun and continues after the response.
        """
        wanted = {
            TopicPartition(topic.name, number): LogDirectory(directory.path)
            for directory in request.dirs
            for topic in directory.topics
            for number in topic.partitions
        }
        refusals = _Refusals()
        results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
        for replica, directory in wanted.items():
            code = ErrorCode.NONE
            try:
                await self._move(replica, directory)
            except Refusal as refusal:
                code = refusal.error_code
                refusals.add(replica, directory, refusal)
            result = AlterReplicaLogDirPartitionResult(partition_index=replica.partition, error_code=code)
            results.setdefault(replica.topic, []).append(result)
        refusals.log()
        return AlterReplicaLogDirsResponse(
            results=tuple(
                AlterReplicaLogDirTopicResult(topic_name=topic, partitions=tuple(partitions))
                for topic, partitions in results.items()
            )
        )

    async def _move(self, replica: TopicPartition, directory: LogDirectory) -> None:
        if directory in self._directories.offline:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {directory} is offline")
        if not self._directories.is_online(directory):
            problem = f"this broker has no log directory {directory}: name one of its log.dirs"
            raise Refusal(ErrorCode.LOG_DIR_NOT_FOUND, problem)
        try:
            partition = self._partitions.by_name(replica.topic, replica.partition)
        except Refusal as refusal:
            if refusal.error_code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise
            # The replica may be assigned to this broker later, and is then created in that directory.
            self._mover.prefer(replica, directory)
            raise Refusal(ErrorCode.REPLICA_NOT_AVAILABLE, refusal.message) from None
        await self._mover.move(partition, directory)


def refused(request: AlterReplicaLogDirsRequest, refusal: Refusal) -> AlterReplicaLogDirsResponse:
    """Return the response with the refusal of each replica, by topic in the order of first mention."""
    wanted: dict[str, dict[int, None]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partitions))
    return AlterReplicaLogDirsResponse(
        results=tuple(
            AlterReplicaLogDirTopicResult(
                topic_name=topic,
                partitions=tuple(
                    AlterReplicaLogDirPartitionResult(partition_index=number, error_code=refusal.error_code)
                    for number in numbers
                ),
            )
            for topic, numbers in wanted.items()
        )
    )


class _Refusals:
    """The refusals of one request: one line for each kind, with its first replica, since a request may name many."""

    def __init__(self) -> None:
        self._first: dict[ErrorCode, tuple[TopicPartition, LogDirectory, Refusal]] = {}
        self._counts: Counter[ErrorCode] = Counter()

    def add(self, replica: TopicPartition, directory: LogDirectory, refusal: Refusal) -> None:
        self._first.setdefault(refusal.error_code, (replica, directory, refusal))
        self._counts[refusal.error_code] += 1

    def log(self) -> None:
        for error_code, (replica, directory, refusal) in self._first.items():
            log.warning(
                "replica moves refused",
                replicas=self._counts[error_code],
                partition=str(replica)[:TEXT_MAX],
                directory=directory[:TEXT_MAX],
                reason=str(refusal)[:TEXT_MAX],
            )
