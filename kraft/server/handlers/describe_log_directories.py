"""DescribeLogDirs: this broker's log directories, with their replicas, sizes and free space.

Source: KIP-113, KIP-827.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable

from kraft.model.errors import ErrorCode
from kraft.model.ids import LogDirectory
from kraft.server.replica.log_directories import LogDirectories
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Partitions
from kraft.server.replica.replica_move import ReplicaMove
from kraft.wire.schema.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

_Topics = dict[str, list[DescribeLogDirsPartition]]

UNKNOWN_SPACE = (-1, -1)


def space_of(directory: LogDirectory) -> tuple[int, int]:
    """Return total and usable bytes of the directory's file system; -1 for both if they cannot be read."""
    try:
        usage = shutil.disk_usage(directory)
    except OSError:
        return UNKNOWN_SPACE
    return usage.total, usage.free


ShortageOf = Callable[[LogDirectory], str]
"""Returns why appends to a directory are refused; empty while they are not."""

SyncTime = Callable[[LogDirectory], float]
"""Returns how many seconds a round of syncs takes in a directory now."""


class DescribeLogDirectoriesHandler:
    def __init__(
        self,
        directories: LogDirectories,
        partitions: Partitions,
        shortage_of: ShortageOf,
        space: Callable[[LogDirectory], tuple[int, int]] = space_of,
        sync_s: SyncTime = lambda _: 0.0,
    ) -> None:
        self._directories = directories
        self._partitions = partitions
        self._shortage_of = shortage_of
        self._space = space
        self._sync_s = sync_s

    async def handle(self, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        """Return the online log directories in the order of log.dirs, then the offline ones."""
        replicas = self._replicas(request.topics)
        online = [self._described(directory, replicas.get(directory, {})) for directory in self._directories.online]
        failed = [
            DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory, topics=(), reason=reason)
            for directory, reason in sorted(self._directories.offline.items())
        ]
        return DescribeLogDirsResponse(results=(*online, *failed))

    def _replicas(self, asked: Iterable[DescribableLogDirTopic] | None) -> dict[LogDirectory, _Topics]:
        """Return the replicas of each directory, sorted by topic and partition; None asks for all."""
        found: dict[LogDirectory, _Topics] = {}
        for partition in sorted(self._partitions if asked is None else self._held_of(asked), key=_name):
            topic = partition.topic_partition.topic
            found.setdefault(partition.log_directory, {}).setdefault(topic, []).append(_size(partition))
            if (move := partition.replica_log.move) is not None:
                found.setdefault(move.destination, {}).setdefault(topic, []).append(_copy_size(partition, move))
        return found

    def _held_of(self, asked: Iterable[DescribableLogDirTopic]) -> list[Partition]:
        # Leaders ask for some partitions every other second: it must not take longer with all that are held here.
        names = {(topic.topic, number) for topic in asked for number in topic.partitions}
        held = (self._partitions.find_by_name(topic, number) for topic, number in names)
        return [partition for partition in held if partition is not None]

    def _described(self, directory: LogDirectory, replicas: _Topics) -> DescribeLogDirsResult:
        total_bytes, usable_bytes = self._space(directory)
        return DescribeLogDirsResult(
            error_code=ErrorCode.NONE,
            log_dir=directory,
            topics=tuple(DescribeLogDirsTopic(name=name, partitions=tuple(sizes)) for name, sizes in replicas.items()),
            total_bytes=total_bytes,
            usable_bytes=usable_bytes,
            reason=self._shortage_of(directory),
            sync_ms=round(self._sync_s(directory) * 1_000),
        )


def _name(partition: Partition) -> tuple[str, int]:
    return partition.topic_partition.topic, partition.topic_partition.partition


def _size(partition: Partition) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=partition.topic_partition.partition,
        partition_size=partition.log.size_bytes,
        offset_lag=max(0, partition.high_watermark - partition.log.log_end_offset),
        is_future_key=False,
    )


def _copy_size(partition: Partition, move: ReplicaMove) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=partition.topic_partition.partition,
        partition_size=move.size_bytes,
        offset_lag=max(0, partition.log.log_end_offset - max(move.log_end_offset, partition.log.log_start_offset)),
        is_future_key=True,
    )
