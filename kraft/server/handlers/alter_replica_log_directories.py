"""AlterReplicaLogDirs: move replicas between the log directories of this broker. Source: KIP-113."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.model.log_directories import AlterReplicaLogDirectoriesRequest, ReplicaDirectory, ReplicaDirectoryResult
from kraft.server.replica.log_directories import LogDirectories
from kraft.server.replica.moves import ReplicaMoves
from kraft.server.replica.partitions import Partitions

log = structlog.get_logger()

TEXT_MAX: Final = 300
"""The most characters that a log event repeats of a request."""


class AlterReplicaLogDirectoriesHandler:
    def __init__(self, directories: LogDirectories, partitions: Partitions, moves: ReplicaMoves) -> None:
        self._directories = directories
        self._partitions = partitions
        self._moves = moves

    async def handle(self, request: AlterReplicaLogDirectoriesRequest) -> list[ReplicaDirectoryResult]:
        """Return one result per replica, in the order of first mention; if one is named twice, the last one counts.

        NONE: the replica is in its directory already, or its move has begun and continues after the response.
        """
        wanted = {(each.topic, each.partition): each for each in request.replicas}
        results = [await self._alter(each) for each in wanted.values()]
        _log_refusals(list(wanted.values()), results)
        return results

    async def _alter(self, wanted: ReplicaDirectory) -> ReplicaDirectoryResult:
        error_code, message = ErrorCode.NONE, ""
        try:
            await self._move(wanted)
        except Refusal as refusal:
            error_code, message = refusal.error_code, refusal.message
        return ReplicaDirectoryResult(
            topic=wanted.topic, partition=wanted.partition, error_code=error_code, error_message=message
        )

    async def _move(self, wanted: ReplicaDirectory) -> None:
        if wanted.directory in self._directories.offline:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {wanted.directory} is offline")
        if not self._directories.is_online(wanted.directory):
            problem = f"this broker has no log directory {wanted.directory}: name one of its log.dirs"
            raise Refusal(ErrorCode.LOG_DIR_NOT_FOUND, problem)
        try:
            partition = self._partitions.by_name(wanted.topic, wanted.partition)
        except Refusal as refusal:
            if refusal.error_code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise
            # The replica may be assigned to this broker later, and is then created in that directory.
            self._moves.prefer(TopicPartition(wanted.topic, wanted.partition), wanted.directory)
            raise Refusal(ErrorCode.REPLICA_NOT_AVAILABLE, refusal.message) from None
        await self._moves.move(partition, wanted.directory)


def _log_refusals(wanted: Sequence[ReplicaDirectory], results: Sequence[ReplicaDirectoryResult]) -> None:
    """Log one line for each kind of refusal, with the first replica of that kind: a request may name many."""
    refused: dict[ErrorCode, list[tuple[ReplicaDirectory, ReplicaDirectoryResult]]] = {}
    for replica, result in zip(wanted, results, strict=True):
        if result.error_code is not ErrorCode.NONE:
            refused.setdefault(result.error_code, []).append((replica, result))
    for error_code, those in refused.items():
        replica, result = those[0]
        log.warning(
            "replica moves refused",
            replicas=len(those),
            partition=f"{replica.topic}-{replica.partition}"[:TEXT_MAX],
            directory=replica.directory[:TEXT_MAX],
            reason=f"{error_code.name}: {result.error_message}"[:TEXT_MAX],
        )
