"""DescribeLogDirs: this broker's log directories, with their replicas, sizes and free space.

Source: KIP-113, KIP-827.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection

from kraft.model.errors import ErrorCode
from kraft.model.ids import LogDirectory
from kraft.model.log_directories import (
    DescribeLogDirectoriesRequest,
    DescribeLogDirectoriesResponse,
    LogDirectoryDescription,
    ReplicaSize,
)
from kraft.rpc.call import Served
from kraft.rpc.calls import DESCRIBE_LOG_DIRECTORIES
from kraft.server.replica.log_directories import LogDirectories
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Partitions
from kraft.server.replica.replica_move import ReplicaMove

UNKNOWN_SPACE = (-1, -1)


def space_of(directory: LogDirectory) -> tuple[int, int]:
    """Return total and usable bytes of the directory's file system; -1 for both if they cannot be read."""
    try:
        usage = shutil.disk_usage(directory)
    except OSError:
        return UNKNOWN_SPACE
    return usage.total, usage.free


class DescribeLogDirectoriesHandler:
    def __init__(
        self,
        directories: LogDirectories,
        partitions: Partitions,
        shortage_of: Callable[[LogDirectory], str],
        space: Callable[[LogDirectory], tuple[int, int]] = space_of,
    ) -> None:
        """`shortage_of` returns why appends to a directory are refused, empty while they are not."""
        self._directories = directories
        self._partitions = partitions
        self._shortage_of = shortage_of
        self._space = space

    def handle(self, request: DescribeLogDirectoriesRequest) -> list[LogDirectoryDescription]:
        """Return the online log directories in the order of log.dirs, then the offline ones."""
        asked = None if request.all_partitions else {(each.topic, each.partition) for each in request.partitions}
        replicas = self._replicas(asked)
        online = [self._described(directory, replicas.get(directory, [])) for directory in self._directories.online]
        failed = [
            LogDirectoryDescription(directory=directory, error_code=ErrorCode.KAFKA_STORAGE_ERROR, reason=reason)
            for directory, reason in sorted(self._directories.offline.items())
        ]
        return online + failed

    async def describe(self, request: DescribeLogDirectoriesRequest) -> DescribeLogDirectoriesResponse:
        return DescribeLogDirectoriesResponse(directories=self.handle(request))

    def served(self) -> list[Served]:
        return [DESCRIBE_LOG_DIRECTORIES.served_by(self.describe)]

    def _replicas(self, asked: Collection[tuple[str, int]] | None) -> dict[LogDirectory, list[ReplicaSize]]:
        """Return the replicas of each directory, sorted by topic and partition; None asks for all."""
        found: dict[LogDirectory, list[ReplicaSize]] = {}
        for partition in sorted(self._partitions if asked is None else self._held_of(asked), key=_name):
            found.setdefault(partition.log_directory, []).append(_size(partition))
            if (move := partition.replica_log.move) is not None:
                found.setdefault(move.destination, []).append(_copy_size(partition, move))
        return found

    def _held_of(self, asked: Collection[tuple[str, int]]) -> list[Partition]:
        # Leaders ask for some partitions every other second: it must not take longer with all that are held here.
        held = (self._partitions.find_by_name(topic, number) for topic, number in asked)
        return [partition for partition in held if partition is not None]

    def _described(self, directory: LogDirectory, replicas: list[ReplicaSize]) -> LogDirectoryDescription:
        total_bytes, usable_bytes = self._space(directory)
        return LogDirectoryDescription(
            directory=directory,
            total_bytes=total_bytes,
            usable_bytes=usable_bytes,
            reason=self._shortage_of(directory),
            replicas=replicas,
        )


def _name(partition: Partition) -> tuple[str, int]:
    return partition.topic_partition.topic, partition.topic_partition.partition


def _size(partition: Partition) -> ReplicaSize:
    topic, number = _name(partition)
    return ReplicaSize(
        topic=topic,
        partition=number,
        size_bytes=partition.log.size_bytes,
        offset_lag=max(0, partition.high_watermark - partition.log.log_end_offset),
    )


def _copy_size(partition: Partition, move: ReplicaMove) -> ReplicaSize:
    topic, number = _name(partition)
    return ReplicaSize(
        topic=topic,
        partition=number,
        size_bytes=move.size_bytes,
        offset_lag=max(0, partition.log.log_end_offset - max(move.log_end_offset, partition.log.log_start_offset)),
        is_future=True,
    )
