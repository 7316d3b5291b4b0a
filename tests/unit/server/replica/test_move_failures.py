"""Moves when disks are full or fail, replicas are corrupt, or topics are deleted."""

from __future__ import annotations

import asyncio
from errno import EIO, EMFILE, ENFILE, ENOMEM, ENOSPC

import pytest
from structlog.testing import capture_logs

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import LogDirectory
from kraft.runtime.disk import RealDisk
from kraft.server.replica.partition import Partition
from kraft.server.replica.replica_directories import METADATA_FILE
from tests.support.server.moving import LETTERS, Mover, WatchedDisk, settled, written
from tests.support.server.replicas import (
    batch,
    remove_directory,
    values_in,
)


def test_a_full_disk_makes_a_move_wait(mover: Mover, disk: WatchedDisk, paths: list[LogDirectory]) -> None:
    partition = written(mover, *LETTERS)

    async def scenario() -> None:
        with capture_logs() as logged:
            mover.is_full = True
            await mover.moves.move(partition, paths[1])
            await asyncio.sleep(10)
            mover.is_full, disk.refuses_new_files = False, True
            await asyncio.sleep(10)
            disk.is_full, disk.refuses_new_files = True, False
            await asyncio.sleep(10)
            disk.is_full = False
            await settled(partition)
        assert [each["event"] for each in logged].count("replica move delayed") == 1

    mover.run(scenario)
    assert mover.failed == []
    assert (partition.log_directory, values_in(partition)) == (paths[1], [*LETTERS])


@pytest.mark.parametrize("number", [EMFILE, ENFILE, ENOMEM])
@pytest.mark.parametrize("lacks", [0, 1])
def test_a_swap_without_free_files_waits_for_them(
    mover: Mover, disk: WatchedDisk, paths: list[LogDirectory], lacks: int, number: int
) -> None:
    """It opens what it needs before it renames anything."""
    partition = written(mover, *LETTERS)
    refused: list[str] = []

    def refuse(path: str) -> None:
        if path == paths[lacks]:
            refused.append(path)
            raise OSError(number, "Too many open files")

    async def scenario() -> None:
        disk.before_dir_open = refuse
        await mover.moves.move(partition, paths[1])
        await asyncio.sleep(10)
        assert mover.names(paths[0]) == ["orders-0"]
        partition.append(batch("later"), -1)
        mover.sync()
        disk.before_dir_open = lambda path: None
        await settled(partition)

    mover.run(scenario)
    assert (mover.failed, len(refused) > 1) == ([], True)
    assert (partition.log_directory, values_in(partition)) == (paths[1], [*LETTERS, "later"])


def test_a_copy_without_free_files_for_its_checkpoints_waits_for_them(
    mover: Mover, disk: WatchedDisk, paths: list[LogDirectory]
) -> None:
    partition = written(mover, *LETTERS)
    write, refused = disk.write_atomically, list[str]()

    def refuse(path: str, data: bytes) -> None:
        if path.startswith(paths[1]) and not path.endswith(METADATA_FILE) and len(refused) < 3:
            refused.append(path)
            raise OSError(EMFILE, "Too many open files")
        write(path, data)

    async def scenario() -> None:
        disk.write_atomically = refuse  # type: ignore[method-assign]
        await mover.moves.move(partition, paths[1])
        await settled(partition)

    mover.run(scenario)
    assert (mover.failed, len(refused)) == ([], 3)
    assert (partition.log_directory, values_in(partition)) == (paths[1], [*LETTERS])


def test_a_directory_without_room_for_the_copy_is_refused(
    mover: Mover, disk: WatchedDisk, paths: list[LogDirectory]
) -> None:
    partition = written(mover, "a")
    disk.is_full = True

    async def scenario() -> None:
        with pytest.raises(Refusal) as refusal:
            await mover.moves.move(partition, paths[1])
        assert refusal.value.error_code is ErrorCode.KAFKA_STORAGE_ERROR

    mover.run(scenario)
    assert (mover.failed, mover.names(paths[1])) == ([], [])


def test_a_failed_destination_leaves_the_replica_intact(
    mover: Mover, disk: WatchedDisk, paths: list[LogDirectory]
) -> None:
    partition = written(mover, *LETTERS)
    disk.fails_syncs_in = (paths[1],)

    async def scenario() -> None:
        await mover.moves.move(partition, paths[1])
        await settled(partition)
        assert mover.failed == [paths[1]]
        partition.append(batch("k"), -1)
        mover.sync()

    mover.run(scenario)
    assert (partition.log_directory, values_in(partition)) == (paths[0], [*LETTERS, "k"])
    assert partition.log.synced_end_offset == 11


def test_a_deleted_replicas_copy_is_removed(mover: Mover, paths: list[LogDirectory]) -> None:
    partition = written(mover, *LETTERS)

    async def scenario() -> None:
        mover.is_full = True
        await mover.moves.move(partition, paths[1])
        await asyncio.sleep(0.1)
        mover.partitions.remove(partition)
        partition.retire()
        remove_directory(partition)
        await asyncio.sleep(2)

    mover.run(scenario)
    assert [mover.names(path) for path in paths] == [[], [], []]


@pytest.mark.parametrize("operation", ["rename", "sync"])
@pytest.mark.parametrize("failing", [0, 1])
def test_a_directory_that_fails_in_the_swap_takes_the_replica_offline_and_the_next_start_has_it_whole(
    disk: WatchedDisk, paths: list[LogDirectory], failing: int, operation: str
) -> None:
    mover = Mover(disk, paths)
    partition = written(mover, *LETTERS)
    swapping: list[str] = []

    def fail_rename(source: str, target: str) -> None:
        swapping.extend([source] if source.endswith("orders-0") else [])
        if operation == "rename" and swapping and source.startswith(paths[failing]):
            raise OSError(EIO, "input/output error")

    def fail_sync(path: str) -> None:
        if operation == "sync" and swapping and path == paths[failing]:
            raise OSError(EIO, "input/output error")

    async def scenario() -> None:
        disk.before_rename, disk.before_dir_sync = fail_rename, fail_sync
        await mover.moves.move(partition, paths[1])
        await asyncio.sleep(0.1)
        assert mover.failed == [paths[failing]]
        assert not partition.is_open
        assert list(mover.partitions) == []
        with pytest.raises(Refusal):
            partition.append(batch("never"), -1)

    mover.run(scenario)
    # While a log directory is out of use nothing is concluded, and nothing removed.
    other = Mover(RealDisk(), paths, offline=[paths[failing]])
    names = [mover.names(path) for path in paths]
    other.run(lambda: asyncio.sleep(0.1))
    if other.places() == []:
        assert [mover.names(path) for path in paths] == names
    again = Mover(RealDisk(), paths)
    reopened: list[Partition] = []

    async def restart() -> None:
        await again.moves.finish_interrupted()
        assert len(again.places()) == 1
        reopened.append(again.open())

    asyncio.run(restart())
    assert values_in(reopened[0]) == [*LETTERS]
    again.run(lambda: settled(reopened[0]))
    assert sum(len(again.names(path)) for path in paths) == 1
    assert values_in(reopened[0]) == [*LETTERS]


def test_a_disk_too_full_for_the_swap_makes_the_move_wait(
    mover: Mover, disk: WatchedDisk, paths: list[LogDirectory]
) -> None:
    partition = written(mover, *LETTERS)
    attempts: list[str] = []

    def fail_twice(source: str, target: str) -> None:
        if source == f"{paths[0]}/orders-0":
            attempts.append(target)
            if len(attempts) <= 2:
                raise OSError(ENOSPC, "No space left on device")

    async def scenario() -> None:
        disk.before_rename = fail_twice
        await mover.moves.move(partition, paths[1])
        await asyncio.sleep(1.5)
        partition.append(batch("k"), -1)
        mover.sync()
        await settled(partition)

    mover.run(scenario)
    assert (mover.failed, partition.log_directory) == ([], paths[1])
    assert values_in(partition) == [*LETTERS, "k"]


def test_a_replica_that_is_found_corrupt_is_not_moved(mover: Mover, paths: list[LogDirectory]) -> None:
    partition = written(mover, *LETTERS)
    with open(partition.log.segments()[0].path, "r+b") as opened:
        opened.seek(100)
        opened.write(b"bad")

    async def scenario() -> None:
        await mover.moves.move(partition, paths[1])
        await settled(partition)

    mover.run(scenario)
    assert not partition.is_open
    assert (mover.names(paths[0]), mover.names(paths[1])) == (["orders-0"], [])
