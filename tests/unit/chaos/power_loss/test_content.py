"""One file's content: the simulated disk says what a loss of power may do to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from chaos.nemesis.power_loss.content import Content
from chaos.nemesis.power_loss.loss import PAGE_BYTES, SECTOR_BYTES, Loss
from tests.support.disks.sim_content import CrashMode
from tests.support.disks.sim_disk import SimDisk, SimFile

SEEDS = range(300)
OLD = b"o" * PAGE_BYTES * 2
NEW = b"n" * PAGE_BYTES * 2


def synced(path: Path, data: bytes) -> Content:
    content = Content(path)
    content.write(0, data)
    content.sync(content.mark)
    return content


def survivors(tmp_path: Path, loss: Loss, change: Callable[[Content], None]) -> set[bytes]:
    """All that losses with 300 seeds make of a file that held two pages of `OLD`."""
    found = set()
    for seed in SEEDS:
        content = synced(tmp_path / str(seed), OLD)
        change(content)
        content.lose_power(loss, Random(seed))
        assert content.is_synced
        found.add(content.read(0, 1 << 20))
    return found


def do_anything(random: Random, content: Content, file: SimFile) -> None:
    """The same to both."""
    position, size = random.randrange(3 * PAGE_BYTES), random.choice([1, 100, SECTOR_BYTES, 5_000])
    match random.choice(["write", "write", "append", "truncate", "sync"]):
        case "write":
            data = random.randbytes(size)
            content.write(position, data)
            file.write_at(position, data)
        case "append":
            data = random.randbytes(size)
            content.write(content.size, data)
            file.append([data])
        case "truncate":
            content.truncate(position)
            file.truncate(position)
        case _:
            content.sync(content.mark)
            file.sync()


@pytest.mark.parametrize("seed", range(30))
def test_it_reads_syncs_and_forgets_as_the_simulated_disk_does(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    disk, content = SimDisk(), Content(tmp_path / "image")
    file = disk.open("f", create=True)
    disk.sync_dir("")
    for _ in range(40):
        do_anything(random, content, file)
        position, size = random.randrange(4 * PAGE_BYTES), random.randrange(6_000)
        assert content.size == file.size
        assert content.read(position, size) == file.read_at(position, size)
    disk.crash(CrashMode.DROP, random)
    content.lose_power(Loss.ALL, random)
    assert content.read(0, 1 << 20) == disk.read_file("f") == (tmp_path / "image").read_bytes()


@pytest.mark.parametrize("seed", range(30))
def test_every_surviving_sector_was_once_there_in_a_file_of_a_size_that_it_had(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    content, file = Content(tmp_path / "image"), SimDisk().open("f", create=True)
    images = [b""]
    for _ in range(12):
        do_anything(random, content, file)
        images.append(content.read(0, 1 << 20))
        if content.is_synced:
            images = images[-1:]
    content.lose_power(Loss.PAGES, random)
    survived = content.read(0, 1 << 20)
    assert len(survived) in map(len, images)
    for start in range(0, len(survived), SECTOR_BYTES):
        sector = survived[start : start + SECTOR_BYTES]
        # What a file did not have at the time reads as zeros, when it has it afterwards.
        once = {image[start : start + len(sector)].ljust(len(sector), b"\0") for image in images}
        assert sector in once


def test_of_the_tail_the_first_operations_survive_and_the_next_is_torn_at_a_sector(tmp_path: Path) -> None:
    def change(content: Content) -> None:
        content.write(100, b"n" * 1_000)
        content.truncate(50)

    written = OLD[:100] + b"n" * 1_000 + OLD[1_100:]
    torn = [OLD[:100] + b"n" * (edge - 100) + OLD[edge:] for edge in (SECTOR_BYTES, 2 * SECTOR_BYTES)]
    assert survivors(tmp_path, Loss.TAIL, change) == {OLD, *torn, written, OLD[:50]}


def test_of_pages_some_survive_whole_and_some_in_sectors(tmp_path: Path) -> None:
    found = survivors(tmp_path, Loss.PAGES, lambda content: content.write(0, NEW))
    first, second = OLD[:PAGE_BYTES], NEW[:PAGE_BYTES]
    assert {OLD, NEW, first + second, second + first} <= found
    assert len(found) > 4
    for survived in found:
        for start in range(0, len(OLD), SECTOR_BYTES):
            assert survived[start : start + SECTOR_BYTES] in (OLD[:SECTOR_BYTES], NEW[:SECTOR_BYTES])


def test_a_size_may_survive_without_its_bytes_and_bytes_never_behind_the_size(tmp_path: Path) -> None:
    found = survivors(tmp_path, Loss.PAGES, lambda content: content.write(len(OLD), b"tail"))
    assert found == {OLD, OLD + bytes(4), OLD + b"tail"}


def test_older_bytes_do_not_come_back_behind_a_truncation(tmp_path: Path) -> None:
    def change(content: Content) -> None:
        content.truncate(0)
        content.write(PAGE_BYTES, b"new")

    found = survivors(tmp_path, Loss.PAGES, change)
    assert found == {OLD, b"", bytes(PAGE_BYTES + 3), bytes(PAGE_BYTES) + b"new"}


def test_a_sync_covers_what_had_been_done_when_its_mark_was_taken(tmp_path: Path) -> None:
    content = synced(tmp_path / "image", b"old")
    content.write(0, b"mid")
    mark = content.mark
    content.write(0, b"new")
    content.sync(mark)
    # A later sync with an earlier mark does no harm.
    content.sync(mark - 1)
    assert content.read(0, 10) == b"new"
    assert (content.is_synced, content.unsynced_bytes) == (False, 3)
    content.lose_power(Loss.ALL, Random(0))
    assert content.read(0, 10) == b"mid"
