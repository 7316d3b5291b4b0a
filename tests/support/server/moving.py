"""A broker with several log directories, whose replicas a test moves between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from errno import ENOSPC
from itertools import count
from typing import Any, ClassVar, TypeVar

from kraft.log.disk import Disk
from kraft.log.topic_config import TopicConfig
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId, LogDirectory, Offset, TopicId, TopicPartition
from kraft.quotas.replication_throttle import UNLIMITED, ReplicationThrottle
from kraft.replication.effects import ProposeIsr
from kraft.server.replica.log_directories import LogDirectories
from kraft.server.replica.partition import Partition
from kraft.server.replica.partition_services import PartitionServices
from kraft.server.replica.partitions import Partitions
from kraft.server.replica.replica_directories import ReplicaDirectories
from kraft.server.replica.replica_move import ReplicaMove
from kraft.server.replica.replica_mover import ReplicaMover
from kraft.server.replica.replica_storage import ReplicaStorage
from tests.support.cluster_images import ORDERS
from tests.support.disks.open_by_path import OpenByPath
from tests.support.server.log_thread import LogThread
from tests.support.server.replicas import (
    DEFAULTS,
    ORDERS_0,
    WALL_MS,
    FailingDisk,
    InlineExecutor,
    append_to,
    batch,
    lead,
    loop_ms,
    until,
)
from tests.support.virtual_time import run_virtually

Result = TypeVar("Result")


class Mover:
    """A broker with the log directories `paths`; syncs on the test's request, and does the work of threads at once."""

    _opened: ClassVar[list[Partition]] = []

    def __init__(
        self,
        disk: Disk,
        paths: Sequence[LogDirectory],
        *,
        executor: Executor | None = None,
        offline: Sequence[LogDirectory] = (),
        exists: Callable[[TopicPartition], bool] = lambda _: True,
    ) -> None:
        self.disk = disk
        self.paths = tuple(paths)
        self.is_full = False
        self.failed: list[str] = []
        self.checkpoints = 0
        self.partitions = Partitions(exists)
        self.directories = LogDirectories(
            [path for path in paths if path not in offline], dict.fromkeys(offline, "no disk")
        )
        self.throttle = ReplicationThrottle(UNLIMITED, 0)
        self.store = ReplicaDirectories(disk, self.directories, closed_cleanly=())
        numbers = count(1)
        executor = executor or InlineExecutor()
        self.moves = ReplicaMover(
            partitions=self.partitions,
            storage=ReplicaStorage(
                disk=disk,
                directories=self.directories,
                replica_directories=self.store,
                thread=executor,
                threads=dict.fromkeys(paths, executor),
            ),
            copy_thread=executor,
            admit=self._admit,
            directory_failed=self.directory_failed,
            moved=self._moved,
            draw_move_id=lambda: f"{next(numbers):032x}",
            throttle=self.throttle,
            monotonic_ms=loop_ms,
        )
        self._thread = LogThread()

    # --- the broker around ---

    def _admit(self, directory: LogDirectory, size_bytes: int) -> None:
        if self.is_full:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{directory} has no room for {size_bytes} bytes")

    async def _moved(self) -> None:
        self.checkpoints += 1

    def directory_failed(self, directory: LogDirectory, reason: str) -> None:
        """Do the essentials of `ReplicaFailures`."""
        self.failed.append(directory)
        self.directories.fail(directory, reason)
        for partition in self.partitions:
            if partition.log_directory == directory:
                self.partitions.remove(partition)
                partition.retire()

    def _note_proposal(self, partition: Partition, proposal: ProposeIsr) -> None:
        raise AssertionError("no replica leaves an ISR here")

    def _note_rot(self, partition: Partition, reason: str) -> None:
        self.partitions.remove(partition)
        partition.retire()

    # --- for tests ---

    def open(
        self,
        topic_partition: TopicPartition = ORDERS_0,
        topic_id: TopicId = ORDERS,
        *,
        config: TopicConfig = DEFAULTS,
        sync_before_ack: bool = True,
        **configs: Any,
    ) -> Partition:
        """Open the replica in the directory that has it, otherwise in the first one."""
        effective = replace(config, **configs)
        self.store.prefer(topic_partition, self.paths[0])
        log = self.store.open(topic_partition, topic_id, effective)
        # As after each piece of openings: the name of a new log is durable before the log has records.
        self.disk.sync_dir(log.parent)
        partition = Partition(
            topic_partition=topic_partition,
            topic_id=topic_id,
            log=log,
            high_watermark=Offset(0),
            config=effective,
            services=PartitionServices(
                broker_id=BrokerId(1),
                replica_lag_time_max_ms=30_000,
                sync_before_ack=sync_before_ack,
                monotonic_ms=lambda: 0,
                wall_ms=lambda: WALL_MS,
                request_sync=self._thread.request,
                holds_writes=lambda _: False,
                propose_isr=self._note_proposal,
                directory_failed=lambda partition, reason: self.directory_failed(partition.log_directory, reason),
                replica_is_corrupt=self._note_rot,
                is_active=lambda _: True,
                admit=self._admit,
                role_changed=lambda _: None,
            ),
        )
        self.partitions.add(partition)
        self._opened.append(partition)
        return partition

    @classmethod
    def close_all(cls) -> None:
        """Release the files of every replica; what is unsynced stays unsynced."""
        while cls._opened:
            cls._opened.pop().log.release()

    def sync(self) -> None:
        """Run one round of the log syncer."""
        self._thread.run_round()

    async def moved(self, partition: Partition, path: LogDirectory) -> None:
        """Move the replica, and wait for the end of the move."""
        await self.moves.move(partition, path)
        await settled(partition)

    def places(self, topic_partition: TopicPartition = ORDERS_0) -> list[str]:
        """Return the log directories that have the replica under its own name."""
        return [path for path in self.paths if str(topic_partition) in self.names(path)]

    def names(self, path: str) -> list[str]:
        return list(self.disk.list(path))

    def run(self, scenario: Callable[[], Coroutine[Any, Any, Result]], *, in_real_time: bool = False) -> Result:
        """Wait while replicas are being moved. Time is virtual, unless there are threads to wait for."""

        async def with_moves() -> Result:
            await self.moves.finish_interrupted()
            moving = asyncio.ensure_future(self.moves.run())
            try:
                return await scenario()
            finally:
                moving.cancel()
                await asyncio.wait([moving])
                self.moves.close()
                assert moving.cancelled(), moving.exception()

        return asyncio.run(with_moves()) if in_real_time else run_virtually(with_moves())


async def settled(partition: Partition) -> None:
    """Wait until no replica is being moved, or removed after a move."""
    await until(lambda: partition.replica_log.move is None, within_s=60)
    await asyncio.sleep(0.01)


class WatchedDisk(FailingDisk):
    """Fails some operations on names, and reports each one before it happens."""

    def __init__(self) -> None:
        super().__init__()
        self.before_rename: Callable[[str, str], None] = lambda source, target: None
        self.before_dir_sync: Callable[[str], None] = lambda path: None
        self.before_dir_open: Callable[[str], None] = lambda path: None
        self.refuses_new_files = False

    def open(self, path: str, create: bool) -> Any:
        if create and self.refuses_new_files:
            raise OSError(ENOSPC, "No space left on device")
        return super().open(path, create)

    def rename(self, source: str, target: str) -> None:
        self.before_rename(source, target)
        super().rename(source, target)

    def sync_dir(self, path: str) -> None:
        self.before_dir_sync(path)
        super().sync_dir(path)

    def open_dir(self, path: str) -> Any:
        self.before_dir_open(path)
        return OpenByPath(self.sync_dir, path)


def written(mover: Mover, *values: str, **configs: Any) -> Partition:
    """Return a replica that this broker leads alone; each value is a batch, and all are synced."""
    partition = mover.open(**configs)
    lead(partition, replicas=(1,))
    for value in values:
        append_to(partition, batch(value), -1)
    mover.sync()
    return partition


LETTERS = "abcdefghij"


async def until_copied(move: ReplicaMove, offset: int) -> None:
    """Wait until the copy reaches `offset`, and little longer."""
    async with asyncio.timeout(60):
        while move.log_end_offset < offset:  # noqa: ASYNC110  In virtual time, every turn of the loop is checked.
            await asyncio.sleep(0)
