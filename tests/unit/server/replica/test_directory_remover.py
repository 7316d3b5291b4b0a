from __future__ import annotations

import asyncio
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kraft.runtime.disk import RealDisk
from kraft.server.replica.directory_remover import DeletedDirectory, DirectoryRemover
from kraft.server.replica.log_directories import LogDirectories, as_log_directory
from tests.support.server.replicas import until

pytestmark = pytest.mark.real_time


class SlowDisk(RealDisk):
    """Removes a file when the test lets it."""

    def __init__(self) -> None:
        self.may_remove = threading.Semaphore(0)
        self.asked = threading.Event()

    def remove(self, path: str) -> None:
        self.asked.set()
        assert self.may_remove.acquire(timeout=30)
        super().remove(path)


def marked(directory: Path, number: int) -> DeletedDirectory:
    name = f"orders-{number}.0-delete"
    (directory / name).mkdir(parents=True)
    for file in range(3):
        (directory / name / f"{file:020}.log").write_bytes(b"records")
    return DeletedDirectory(directory=as_log_directory(directory), name=name, replica=f"orders-{number}")


def removals(
    *directories: Path, disk: RealDisk, thread: ThreadPoolExecutor, failures: list[str] | None = None
) -> DirectoryRemover:
    noted = failures if failures is not None else []
    in_use = LogDirectories([as_log_directory(directory) for directory in directories], {})
    return DirectoryRemover(
        disk=disk,
        directories=in_use,
        thread=thread,
        directory_failed=lambda where, why: noted.append(f"{where}: {why}"),
    )


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def files(directory: Path) -> list[str]:
    return [path.name for path in directory.rglob("*.log")]


async def test_directories_are_removed_one_at_a_time_without_blocking_the_loop(tmp_path: Path) -> None:
    disk = SlowDisk()
    with ThreadPoolExecutor(1) as thread:
        background = removals(tmp_path, disk=disk, thread=thread)
        running = asyncio.create_task(background.run())
        for number in range(3):
            background.add(marked(tmp_path, number))
        await until(disk.asked.is_set)
        assert len(names(tmp_path)) == 3
        disk.may_remove.release(3)
        await until(lambda: len(names(tmp_path)) == 2)
        disk.may_remove.release(6)
        await until(lambda: not names(tmp_path))
        background.add(marked(tmp_path, 4))
        disk.may_remove.release(3)
        await until(lambda: not names(tmp_path))
        running.cancel()
        await asyncio.wait([running])


async def test_a_node_that_stops_waits_for_one_file_only(tmp_path: Path) -> None:
    disk = SlowDisk()
    with ThreadPoolExecutor(1) as thread:
        background = removals(tmp_path, disk=disk, thread=thread)
        running = asyncio.create_task(background.run())
        for number in range(2):
            background.add(marked(tmp_path, number))
        await until(disk.asked.is_set)
        running.cancel()
        await asyncio.wait([running])
        disk.may_remove.release(1)
    assert len(files(tmp_path)) == 5, "the thread has ended, and what is left is for the next start"


async def test_a_directory_that_cannot_be_removed_takes_its_log_directory_out_of_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, failures = RealDisk(), list[str]()
    a, b = tmp_path / "a", tmp_path / "b"

    def fail(path: str) -> None:
        raise OSError("input/output error")

    with ThreadPoolExecutor(1) as thread:
        background = removals(a, b, disk=disk, thread=thread, failures=failures)
        background.add(marked(a, 0))
        background.add(marked(b, 1))
        monkeypatch.setattr(disk, "remove", lambda path: fail(path) if "/a/" in path else RealDisk().remove(path))
        await background.remove_waiting()
    assert failures == [f"{a}: input/output error"]
    assert names(b) == []


@pytest.mark.parametrize("vanishes_before", ["list", "remove_tree"])
async def test_a_directory_that_an_operator_has_removed_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vanishes_before: str
) -> None:
    disk, failures = RealDisk(), list[str]()
    act = getattr(disk, vanishes_before)

    def act_too_late(path: str) -> object:
        if path.endswith("orders-0.0-delete"):
            shutil.rmtree(path)
        return act(path)

    monkeypatch.setattr(disk, vanishes_before, act_too_late)
    with ThreadPoolExecutor(1) as thread:
        background = removals(tmp_path, disk=disk, thread=thread, failures=failures)
        background.add(marked(tmp_path, 0))
        background.add(marked(tmp_path, 1))
        await background.remove_waiting()
    assert (failures, names(tmp_path)) == ([], [])


async def test_nothing_is_touched_in_a_log_directory_that_failed_meanwhile(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    with ThreadPoolExecutor(1) as thread:
        background = removals(a, b, disk=RealDisk(), thread=thread)
        background.add(marked(a, 0))
        background.add(marked(b, 1))
        background._directories.fail(as_log_directory(a), "input/output error")
        await background.remove_waiting()
    assert (len(names(a)), names(b)) == (1, [])
