"""The file system without FUSE: what programs see before and after the power was lost."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from chaos.nemesis.power_loss.loss import AtStake, Loss
from chaos.nemesis.power_loss.volume import KEEP_SIZE, Volume
from tests.support.disks.sim_content import CrashMode
from tests.support.disks.sim_disk import SimDisk

NEW_FILE = os.O_RDWR | os.O_CREAT


def write(volume: Volume, path: str, data: bytes, flags: int = 0) -> int:
    handle = volume.create(path, 0o644, NEW_FILE | flags)
    assert volume.write(handle, 0, data) == len(data)
    return handle


def read(volume: Volume, path: str) -> bytes:
    return volume.read(volume.open(path, os.O_RDONLY), 0, 1 << 20)


def sync_dir(volume: Volume, path: str) -> None:
    volume.sync(volume.open_dir(path))


def durable(volume: Volume, path: str, data: bytes) -> int:
    handle = write(volume, path, data)
    volume.sync(handle)
    sync_dir(volume, os.path.dirname(path))
    return handle


def lose(volume: Volume, loss: Loss = Loss.ALL, seed: int = 0) -> AtStake:
    volume.cut_power()
    return volume.restore_power(loss, seed)


def names(volume: Volume, path: str = "/") -> list[str]:
    return sorted(volume.list(path, volume.open_dir(path)))


def assert_refused(number: int, call: Callable[[], object]) -> None:
    with pytest.raises(OSError) as refused:  # noqa: PT011  The number is looked at below.
        call()
    assert refused.value.errno == number


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    return Volume(tmp_path)


# --- what is lost ---------------------------------------------------------------------------------------------


def test_what_was_written_is_read_and_is_lost_unless_it_was_synced(volume: Volume) -> None:
    handle = durable(volume, "/f", b"synced")
    volume.write(handle, 6, b" and not")
    assert read(volume, "/f") == b"synced and not"
    assert lose(volume) == AtStake(files=1, written_bytes=8, names=0)
    assert read(volume, "/f") == b"synced"


def test_a_synced_file_without_a_synced_name_is_gone(volume: Volume, tmp_path: Path) -> None:
    volume.sync(write(volume, "/f", b"synced"))
    assert lose(volume) == AtStake(files=0, written_bytes=0, names=1)
    assert names(volume) == []
    assert list(tmp_path.iterdir()) == []


def test_a_synced_name_without_synced_content_is_an_empty_file(volume: Volume) -> None:
    write(volume, "/f", b"not synced")
    sync_dir(volume, "/")
    lose(volume)
    assert read(volume, "/f") == b""


def test_a_file_that_was_replaced_is_back_until_the_directory_is_synced(volume: Volume) -> None:
    durable(volume, "/f", b"old")
    volume.sync(write(volume, "/f.tmp", b"new"))
    volume.rename("/f.tmp", "/f")
    assert (names(volume), read(volume, "/f")) == (["f"], b"new")
    lose(volume)
    assert (names(volume), read(volume, "/f")) == (["f"], b"old")


def test_a_file_that_was_replaced_in_a_synced_directory_stays_replaced(volume: Volume) -> None:
    durable(volume, "/f", b"old")
    volume.sync(write(volume, "/f.tmp", b"new"))
    volume.rename("/f.tmp", "/f")
    sync_dir(volume, "/")
    lose(volume)
    assert (names(volume), read(volume, "/f")) == (["f"], b"new")


def test_what_was_removed_is_back_until_the_directory_is_synced(volume: Volume, tmp_path: Path) -> None:
    durable(volume, "/f", b"kept")
    volume.unlink("/f")
    assert names(volume) == []
    lose(volume)
    assert read(volume, "/f") == b"kept"
    volume.unlink("/f")
    sync_dir(volume, "/")
    lose(volume)
    assert (names(volume), list(tmp_path.iterdir())) == ([], [])


@pytest.mark.parametrize("is_synced", [False, True])
def test_a_truncation_counts_when_the_file_is_synced(volume: Volume, is_synced: bool) -> None:
    handle = durable(volume, "/f", b"whole")
    volume.truncate("/f", 2)
    assert (read(volume, "/f"), volume.attributes("/f", None)["st_size"]) == (b"wh", 2)
    if is_synced:
        volume.sync(handle)
    lose(volume)
    assert read(volume, "/f") == (b"wh" if is_synced else b"whole")


def test_a_file_emptied_at_its_opening_is_whole_again(volume: Volume) -> None:
    durable(volume, "/f", b"whole")
    volume.open("/f", os.O_WRONLY | os.O_TRUNC)
    assert read(volume, "/f") == b""
    lose(volume)
    assert read(volume, "/f") == b"whole"


@pytest.mark.parametrize("flag", [os.O_SYNC, os.O_DSYNC])
def test_a_file_opened_for_synchronous_writes_loses_none(volume: Volume, flag: int) -> None:
    durable(volume, "/f", b"")
    write(volume, "/f", b"passed on", flag)
    lose(volume)
    assert read(volume, "/f") == b"passed on"


def test_a_directory_needs_its_parent_to_be_synced(volume: Volume) -> None:
    volume.make_dir("/d", 0o755)
    durable(volume, "/d/f", b"synced")
    assert names(volume, "/d") == ["f"]
    lose(volume)
    assert names(volume) == []


# --- while the power fails ------------------------------------------------------------------------------------


def test_without_power_everything_fails_and_handles_from_before_are_dead(volume: Volume) -> None:
    handle = durable(volume, "/f", b"old")
    volume.cut_power()
    for call in (
        lambda: volume.write(handle, 0, b"new"),
        lambda: volume.sync(handle),
        lambda: volume.read(handle, 0, 1),
        lambda: volume.open("/f", os.O_RDONLY),
        lambda: volume.unlink("/f"),
    ):
        assert_refused(errno.EIO, call)
    volume.close(handle)
    volume.restore_power(Loss.ALL, 0)
    assert_refused(errno.EBADF, lambda: volume.write(handle, 0, b"new"))
    assert read(volume, "/f") == b"old"


def test_a_sync_under_way_when_the_power_is_cut_fails_and_passes_nothing_on(tmp_path: Path) -> None:
    is_failing = False

    def wait_for_disk() -> None:
        if is_failing:
            failing.cut_power()

    failing = Volume(tmp_path, wait_for_disk)
    handle = durable(failing, "/f", b"old")
    failing.write(handle, 0, b"new")
    is_failing = True
    assert_refused(errno.EIO, lambda: failing.sync(handle))
    failing.restore_power(Loss.ALL, 0)
    assert read(failing, "/f") == b"old"


def test_what_is_written_while_a_sync_is_under_way_is_not_covered_by_it(tmp_path: Path) -> None:
    during: list[Callable[[], object]] = []

    def wait_for_disk() -> None:
        while during:
            during.pop()()

    volume = Volume(tmp_path, wait_for_disk)
    handle = durable(volume, "/f", b"old")
    volume.write(handle, 0, b"new")
    during.append(lambda: volume.write(handle, 3, b"er"))
    volume.sync(handle)
    assert read(volume, "/f") == b"newer"
    lose(volume)
    assert read(volume, "/f") == b"new"


def test_a_sync_that_is_held_ends_when_the_power_is_cut_and_has_passed_nothing_on(volume: Volume) -> None:
    handle = durable(volume, "/f", b"old")
    volume.hold_syncs()
    volume.write(handle, 0, b"new")
    with ThreadPoolExecutor() as threads:
        sync = threads.submit(volume.sync, handle)
        # Nothing but syncs is held.
        volume.write(handle, 3, b"er")
        assert read(volume, "/f") == b"newer"
        assert not sync.done()
        volume.cut_power()
        assert_refused(errno.EIO, lambda: sync.result(timeout=30))
    assert volume.restore_power(Loss.ALL, 0).written_bytes == 5
    assert read(volume, "/f") == b"old"
    durable(volume, "/f", b"new")


# --- as any other file system ---------------------------------------------------------------------------------


def test_appending_goes_to_the_end_whatever_the_position(volume: Volume) -> None:
    handle = write(volume, "/f", b"one", os.O_APPEND)
    volume.write(handle, 0, b"two")
    assert read(volume, "/f") == b"onetwo"


def test_space_is_reserved_behind_the_end_or_makes_the_file_longer(volume: Volume) -> None:
    handle = write(volume, "/f", b"one")
    volume.allocate(handle, KEEP_SIZE, 3, 1_000)
    assert read(volume, "/f") == b"one"
    volume.allocate(handle, 0, 0, 5)
    assert read(volume, "/f") == b"one\0\0"
    assert_refused(errno.EOPNOTSUPP, lambda: volume.allocate(handle, 2, 0, 5))


def test_an_open_file_is_read_after_its_name_is_gone(volume: Volume, tmp_path: Path) -> None:
    handle = durable(volume, "/f", b"still here")
    volume.unlink("/f")
    sync_dir(volume, "/")
    assert volume.read(handle, 0, 100) == b"still here"
    assert volume.attributes(None, handle)["st_size"] == 10
    volume.close(handle)
    sync_dir(volume, "/")
    assert list(tmp_path.iterdir()) == []


def test_programs_are_refused_what_other_file_systems_refuse(volume: Volume) -> None:
    volume.make_dir("/d", 0o755)
    write(volume, "/d/f", b"")
    write(volume, "/f", b"")
    volume.make_dir("/empty", 0o755)
    assert_refused(errno.ENOENT, lambda: volume.open("/x", os.O_RDONLY))
    assert_refused(errno.ENOENT, lambda: volume.create("/x/f", 0o644, NEW_FILE))
    assert_refused(errno.ENOTDIR, lambda: volume.create("/f/f", 0o644, NEW_FILE))
    assert_refused(errno.EEXIST, lambda: volume.create("/f", 0o644, NEW_FILE | os.O_EXCL))
    assert_refused(errno.EEXIST, lambda: volume.make_dir("/d", 0o755))
    assert_refused(errno.EISDIR, lambda: volume.open("/d", os.O_RDONLY))
    assert_refused(errno.EISDIR, lambda: volume.unlink("/d"))
    assert_refused(errno.EISDIR, lambda: volume.truncate("/d", 0))
    assert_refused(errno.ENOTDIR, lambda: volume.remove_dir("/f"))
    assert_refused(errno.ENOTDIR, lambda: volume.open_dir("/f"))
    assert_refused(errno.ENOTEMPTY, lambda: volume.remove_dir("/d"))
    assert_refused(errno.ENOTEMPTY, lambda: volume.rename("/empty", "/d"))
    assert_refused(errno.EISDIR, lambda: volume.rename("/f", "/d"))
    assert_refused(errno.ENOTDIR, lambda: volume.rename("/d", "/f"))


def test_directories_are_moved_with_what_is_in_them(volume: Volume) -> None:
    volume.make_dir("/d", 0o755)
    write(volume, "/d/f", b"inside")
    volume.rename("/d", "/moved")
    assert (names(volume), read(volume, "/moved/f")) == (["moved"], b"inside")
    volume.unlink("/moved/f")
    volume.remove_dir("/moved")
    assert names(volume) == []


def test_modes_and_times_are_kept(volume: Volume) -> None:
    write(volume, "/f", b"data")
    volume.change_mode("/f", 0o600)
    volume.change_times("/f", 5, 7)
    found = volume.attributes("/f", None)
    assert (found["st_mode"], found["st_atime"], found["st_mtime"]) == (0o100600, 5, 7)
    assert volume.space()["f_bsize"] > 0


@pytest.mark.parametrize("seed", range(40))
def test_it_loses_the_same_as_the_simulated_disk(tmp_path: Path, seed: int) -> None:
    random, disk, volume = Random(seed), SimDisk(), Volume(tmp_path)
    directories = ["", "d", "d/e"]
    for directory in directories[1:]:
        disk.make_dir(directory)
        volume.make_dir(f"/{directory}", 0o755)
        if random.random() < 0.7:
            disk.sync_dir(os.path.dirname(directory))
            sync_dir(volume, f"/{os.path.dirname(directory)}")
    for _ in range(60):
        path, other = (os.path.join(random.choice(directories), random.choice("abc")) for _ in range(2))
        _do_the_same(random, disk, volume, path, other)
    disk.crash(CrashMode.DROP, random)
    lose(volume)
    assert _tree(volume, "/") == {
        f"/{path}": disk.read_file(path) for path in _paths(disk, "") if path not in directories
    }


def _do_the_same(random: Random, disk: SimDisk, volume: Volume, path: str, other: str) -> None:
    directory = os.path.dirname(path)
    match random.choice(["write", "write", "sync", "sync dir", "rename", "remove"]):
        case "write":
            data = random.randbytes(random.randrange(1, 2_000))
            disk.open(path, create=True).write_at(0, data)
            write(volume, f"/{path}", data)
        case "sync dir":
            disk.sync_dir(directory)
            sync_dir(volume, f"/{directory}")
        case _ if not disk.exists(path):
            assert_refused(errno.ENOENT, lambda: volume.open(f"/{path}", os.O_RDONLY))
        case "sync":
            disk.open(path, create=False).sync()
            volume.sync(volume.open(f"/{path}", os.O_RDWR))
        case "rename":
            if path != other:
                disk.rename(path, other)
                volume.rename(f"/{path}", f"/{other}")
        case _:
            disk.remove(path)
            volume.unlink(f"/{path}")


def _paths(disk: SimDisk, directory: str) -> list[str]:
    found = []
    for name in disk.list(directory):
        path = f"{directory}/{name}" if directory else name
        found.append(path)
        if path in ("d", "d/e"):
            found += _paths(disk, path)
    return found


def _tree(volume: Volume, directory: str) -> dict[str, bytes]:
    """Every file below, by its path."""
    found: dict[str, bytes] = {}
    for name in names(volume, directory):
        path = os.path.join(directory, name)
        if volume.attributes(path, None)["st_nlink"] == 2:
            found |= _tree(volume, path)
        else:
            found[path] = read(volume, path)
    return found


# --- syncs that fail -----------------------------------------------------------------------------------------


def test_what_a_failed_sync_did_not_write_is_read_until_the_power_is_lost(volume: Volume) -> None:
    handle = durable(volume, "/f.log", b"old")
    volume.write(handle, 3, b"lost")
    volume.fail_syncs(".log")
    assert_refused(errno.EIO, lambda: volume.sync(handle))
    assert volume.heal_syncs() == 4
    volume.sync(handle)
    volume.write(handle, 7, b"more")
    volume.sync(handle)
    assert read(volume, "/f.log") == b"oldlostmore"
    lose(volume)
    assert read(volume, "/f.log") == b"old\0\0\0\0more"


def test_what_is_written_again_after_a_failed_sync_is_durable(volume: Volume) -> None:
    handle = durable(volume, "/f.log", b"old")
    volume.write(handle, 3, b"lost")
    volume.fail_syncs(".log")
    assert_refused(errno.EIO, lambda: volume.sync(handle))
    volume.heal_syncs()
    volume.write(handle, 3, b"lost")
    volume.truncate("/f.log", 6)
    volume.sync(handle)
    assert read(volume, "/f.log") == b"oldlos"
    lose(volume)
    assert read(volume, "/f.log") == b"oldlos"


def test_only_the_syncs_of_such_paths_fail(volume: Volume) -> None:
    volume.fail_syncs("/a/f")
    durable(volume, "/f", b"kept")
    assert volume.heal_syncs() == 0
    lose(volume)
    assert read(volume, "/f") == b"kept"
