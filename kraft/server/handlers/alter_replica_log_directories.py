"""AlterReplicaLogDirs: which log directory of this broker a replica is to be in. Source: KIP-113."""

from __future__ import annotations

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.model.log_directories import AlterReplicaLogDirectoriesRequest, ReplicaDirectory, ReplicaDirectoryResult
from kraft.server.replica.log_directories import LogDirectories
from kraft.server.replica.moves import ReplicaMoves
from kraft.server.replica.partitions import Partitions


class AlterReplicaLogDirectoriesHandler:
    def __init__(self, directories: LogDirectories, partitions: Partitions, moves: ReplicaMoves) -> None:
        self._directories = directories
        self._partitions = partitions
        self._moves = moves

    async def handle(self, request: AlterReplicaLogDirectoriesRequest) -> list[ReplicaDirectoryResult]:
        """One result a replica, in the order in which they are named first; of two directories the later counts.

        A replica that is answered NONE is in its directory already or is going to be: the copy goes on afterwards.
        """
        wanted = {(each.topic, each.partition): each for each in request.replicas}
        return [await self._alter(each) for each in wanted.values()]

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
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {wanted.directory} is out of use")
        if not self._directories.is_online(wanted.directory):
            raise Refusal(ErrorCode.LOG_DIR_NOT_FOUND, f"this broker has no log directory {wanted.directory}")
        try:
            partition = self._partitions.by_name(wanted.topic, wanted.partition)
        except Refusal as refusal:
            if refusal.error_code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise
            # It may be assigned to this broker before long: then it is begun there.
            await self._moves.prefer(TopicPartition(wanted.topic, wanted.partition), wanted.directory)
            raise Refusal(ErrorCode.REPLICA_NOT_AVAILABLE, refusal.message) from None
        await self._moves.move(partition, wanted.directory)
