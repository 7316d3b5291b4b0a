"""Moves replicas from one log directory of this broker to another, on an operator's request. Source: KIP-113.

A requested move is durable before the response: the empty directory of the copy stands for it, and after a restart the
move is begun again. A move that was interrupted during the swap is finished then (see move_directories.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import Final

import structlog

from kraft.log.disk import is_shortage
from kraft.model.callbacks import AsyncCallback, NowMs, OnDirectoryFailure
from kraft.model.errors import ErrorCode, InvalidBatch, Refusal
from kraft.model.ids import LogDirectory, TopicPartition
from kraft.quotas.replication_throttle import ReplicationThrottle
from kraft.server.loop.threads import in_thread
from kraft.server.replica.move_directories import (
    NAME_BYTES_MAX,
    LeftCopy,
    copies_left,
    copy_name,
    finish_moves,
    remove_copy,
)
from kraft.server.replica.partition import Partition
from kraft.server.replica.partition_services import Admit
from kraft.server.replica.partitions import Partitions
from kraft.server.replica.replica_directories import DirectoryFailed
from kraft.server.replica.replica_move import PIECE_BYTES, Read, ReplicaMove
from kraft.server.replica.replica_storage import ReplicaStorage

log = structlog.get_logger()

MOVES_AT_ONCE: Final = 2
"""Moves in progress at the same time; others wait."""
RETRY_AFTER_S: Final = 1.0
"""Pause of a move that finds no room on the disk."""
THROTTLED_S_MAX: Final = 0.5
"""Longest wait for the throttle until a move checks whether it is wanted still, or the rate is another one."""
BUSY_CHECK_S: Final = 0.05
"""Interval in which the swap checks for the end of a change of the log, or of a compaction, which stops at its next
piece."""


class ReplicaMover:
    """Moves replicas until `run` is cancelled; the next process begins unfinished moves again."""

    def __init__(
        self,
        *,
        partitions: Partitions,
        storage: ReplicaStorage,
        copy_thread: Executor,
        admit: Admit,
        directory_failed: OnDirectoryFailure,
        moved: AsyncCallback,
        draw_move_id: Callable[[], str],
        throttle: ReplicationThrottle,
        monotonic_ms: NowMs,
    ) -> None:
        """`moved` is called after replicas have moved. `draw_move_id` draws 32 hexadecimal digits."""
        self._partitions = partitions
        self._storage = storage
        self._directories = storage.directories
        self._replica_directories = storage.replica_directories
        self._disk = storage.disk
        self._copy_thread = copy_thread
        self._admit = admit
        self._directory_failed = directory_failed
        self._moved = moved
        self._draw_move_id = draw_move_id
        self._throttle = throttle
        self._monotonic_ms = monotonic_ms
        self._waiting: asyncio.Queue[tuple[Partition, ReplicaMove]] = asyncio.Queue()
        self._altering = asyncio.Lock()
        self._under_way: set[ReplicaMove] = set()
        """All moves: waiting, in progress, and those whose copy is still to be removed."""
        self._logged_as_delayed: set[ReplicaMove] = set()

    # --- at the start ----------------------------------------------------------------------------------------

    async def finish_interrupted(self) -> None:
        """Finish moves that a crash interrupted. Call it before `ReplicaDirectories` looks for replicas."""
        for failure in await self._storage.in_thread(finish_moves, self._disk, self._directories.online):
            self._directory_failed(failure.directory, str(failure))

    async def run(self) -> None:
        """Move replicas until cancelled. Call it when all replicas of this broker are open or offline."""
        async with self._altering:
            await self._begin_again()
        async with asyncio.TaskGroup() as workers:
            for _ in range(MOVES_AT_ONCE):
                workers.create_task(self._work())

    async def _begin_again(self) -> None:
        """Begin the moves of an earlier process again, with new copies: the old ones may have records that the
        original has dropped since."""
        try:
            found = await self._storage.in_thread(copies_left, self._disk, self._directories.online)
            own = {move.move_id for move in self._under_way}
            left = [copy for copy in found if copy.move_id not in own]
            if left and self._directories.offline:
                # A copy may be the replica; the directory that shows it may be in the offline log directory.
                log.warning("replica copies kept, a log directory is offline", copies=len(left))
                return
            for copy in left:
                await self._begin_one_again(copy)
        except DirectoryFailed as failure:
            self._directory_failed(failure.directory, str(failure))

    async def _begin_one_again(self, left: LeftCopy) -> None:
        name = left.topic_partition
        partition = self._partitions.find_by_name(name.topic, name.partition)
        if partition is not None and partition.topic_id == left.topic_id and partition.replica_log.move is None:
            try:
                await self._begin(partition, left.directory)
            except Refusal as refusal:
                log.warning("replica move refused", partition=str(name), directory=left.directory, reason=str(refusal))
        await self._storage.in_thread_of(left.directory, remove_copy, self._disk, left.directory, name, left.move_id)

    def close(self) -> None:
        """Close the copies' files. Call it after `run` was cancelled and the copying thread has ended."""
        for move in self._under_way:
            move.release()

    # --- requests of operators -------------------------------------------------------------------------------

    async def move(self, partition: Partition, directory: LogDirectory) -> None:
        """Begin a move of the replica to `directory`, in place of an earlier move to another one.

        Returns at once if the replica is there or moves there already. Raises Refusal: KAFKA_STORAGE_ERROR while a log
        directory is offline or if the copy's directory cannot be created, INVALID_TOPIC_EXCEPTION for a topic name that
        is too long for the name of a copy.
        """
        async with self._altering:
            under_way = partition.replica_log.move
            if under_way is not None and under_way.destination != directory:
                partition.replica_log.move = None
                self._log("replica move cancelled", partition, under_way)
            elif under_way is not None:
                return
            await self._begin(partition, directory)

    def prefer(self, topic_partition: TopicPartition, directory: LogDirectory) -> None:
        """Set the log directory in which this replica is created, if this process ever does."""
        self._replica_directories.prefer(topic_partition, directory)

    async def _begin(self, partition: Partition, directory: LogDirectory) -> None:
        if partition.log_directory == directory:
            return
        self._check_may_begin(partition, directory)
        move = ReplicaMove(
            self._disk,
            topic_partition=partition.topic_partition,
            topic_id=partition.topic_id,
            destination=directory,
            move_id=self._draw_move_id(),
        )
        self._under_way.add(move)
        try:
            await self._storage.in_thread_of(directory, move.begin)
        except DirectoryFailed as failure:
            self._under_way.discard(move)
            if not failure.is_full:
                self._directory_failed(failure.directory, str(failure))
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(failure)) from failure
        partition.replica_log.move = move
        self._waiting.put_nowait((partition, move))
        self._log("replica move started", partition, move)

    def _check_may_begin(self, partition: Partition, directory: LogDirectory) -> None:
        name = partition.topic_partition
        if len(copy_name(name, "0" * 32)) > NAME_BYTES_MAX:
            raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"the name of {name} is too long for a move")
        if self._directories.offline or not self._directories.is_online(directory):
            # After a crash, the choice between original and copy needs every log directory.
            offline = ", ".join(self._directories.offline)
            problem = f"no replica can be moved while {offline} is offline: repair it and restart the node"
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, problem)
        if not partition.is_open:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{name} is offline on this broker")

    # --- moving ----------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            partition, move = await self._waiting.get()
            try:
                is_moved = await self._carry_out(partition, move)
            except Exception as error:
                # One failed move must not stop the others.
                log.error(
                    "internal error", task="replica moves", partition=str(partition.topic_partition), exc_info=error
                )
                is_moved = False
            if not is_moved:
                await self._cancel(partition, move)
            self._under_way.discard(move)
            self._logged_as_delayed.discard(move)

    async def _carry_out(self, partition: Partition, move: ReplicaMove) -> bool:
        """Copy and swap. Return False if the move ended without the swap."""
        while self._is_wanted(partition, move):
            if partition.replica_log.is_changing:
                # Bytes read during a change may be truncated already.
                await asyncio.sleep(BUSY_CHECK_S)
                continue
            if (wait_ms := self._throttle.wait_ms(self._monotonic_ms())) > 0:
                await asyncio.sleep(min(wait_ms / 1_000, THROTTLED_S_MAX))
                continue
            try:
                work = move.next_work(partition.log, _reader(partition))
                if work is not None:
                    self._admit(move.destination, PIECE_BYTES)
                    await in_thread(self._copy_thread, work)
                    copied_bytes = -move.size_bytes
                    move.work_is_done()
                    copied_bytes += move.size_bytes
                    self._throttle.take(max(copied_bytes, 0), self._monotonic_ms())
                elif (source := self._try_swap(partition, move)) is not None:
                    await self._finish(partition, move, source)
                    return True
                elif partition.replica_log.files_in_use.locked():
                    await asyncio.sleep(BUSY_CHECK_S)
            except InvalidBatch as invalid:
                log.error("replica move refused", partition=str(partition.topic_partition), reason=str(invalid))
                return False
            except Refusal as refusal:
                await self._wait_for_room(partition, move, refusal)
            except OSError as error:
                await self._wait_after_error(partition, move, error)
        return move.is_decided

    def _is_wanted(self, partition: Partition, move: ReplicaMove) -> bool:
        return (
            partition.replica_log.move is move and partition.is_open and self._directories.is_online(move.destination)
        )

    async def _wait_for_room(self, partition: Partition, move: ReplicaMove, refusal: Refusal) -> None:
        if move.failure is not None:
            self._directory_failed(move.destination, refusal.message)
        elif self._is_wanted(partition, move):
            if move not in self._logged_as_delayed:
                self._logged_as_delayed.add(move)
                self._log("replica move delayed", partition, move, reason=refusal.message)
            await asyncio.sleep(RETRY_AFTER_S)

    async def _wait_after_error(self, partition: Partition, move: ReplicaMove, error: OSError) -> None:
        """Handle an error of the destination while the copy was opened."""
        if is_shortage(error):
            await self._wait_for_room(partition, move, Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
        else:
            self._directory_failed(move.destination, str(error))

    def _try_swap(self, partition: Partition, move: ReplicaMove) -> LogDirectory | None:
        """Try the swap. Return the log directory that the replica was in; None if it cannot be done yet.

        It does not await, so the original cannot change meanwhile. Raises Refusal.
        """
        original, source = partition.log, partition.log_directory
        if not partition.replica_log.files_in_use.acquire(blocking=False):
            return None
        try:
            if not move.catches_up(original, _reader(partition)):
                return None
            with move.opened_directories(source) as (held, held_destination):
                move.rename_original(source, held)
                partition.log_moved(move.take_copy())
                move.put_copy_in_place(held_destination)
        except DirectoryFailed as failure:
            if failure.is_shortage and not move.is_decided:
                raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(failure)) from failure
            self._directory_failed(failure.directory, str(failure))
            return None
        finally:
            partition.replica_log.files_in_use.release()
        with suppress(Refusal):
            partition.log_became_durable()
        return source

    async def _finish(self, partition: Partition, move: ReplicaMove, source: LogDirectory) -> None:
        """Remove the original after the swap."""
        self._log("replica moved", partition, move, moved_from=source, log_end=partition.log.log_end_offset)
        name = partition.topic_partition
        try:
            self._replica_directories.moved(name, source, move.destination)
            await self._moved()
            await self._storage.in_thread_of(source, move.remove_original, source)
        except DirectoryFailed as failure:
            self._directory_failed(failure.directory, str(failure))

    async def _cancel(self, partition: Partition, move: ReplicaMove) -> None:
        if partition.replica_log.move is move:
            partition.replica_log.move = None
            self._log("replica move cancelled", partition, move)
        move.release()
        if move.is_decided or not self._directories.is_online(move.destination):
            return
        try:
            await self._storage.in_thread_of(move.destination, move.remove)
        except DirectoryFailed as failure:
            self._directory_failed(failure.directory, str(failure))

    # --- small parts -----------------------------------------------------------------------------------------

    def _log(self, event: str, partition: Partition, move: ReplicaMove, **facts: object) -> None:
        log.info(event, partition=str(partition.topic_partition), directory=move.destination, **facts)


def _reader(partition: Partition) -> Read:
    log = partition.replica_log
    return lambda start, bytes_max: log.read(start, bytes_max, log.log.log_end_offset, at_least_one=True)
