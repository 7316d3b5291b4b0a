"""The simulated disk: what each kind of crash may leave behind, and that without faults it is a disk like any other."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest

from kraft.runtime.disk import RealDisk
from tests.support.disks.disk_calls import what_a_log_does
from tests.support.disks.sim_content import SECTOR_BYTES, CrashMode, SyncFailure
from tests.support.disks.sim_disk import PowerFailure, SimDisk

SEEDS = range(300)


def disk_with(path: str, data: bytes) -> SimDisk:
    """A disk with one durable file, in a durable directory."""
    disk = SimDisk()
    disk.make_dir("d")
    disk.sync_dir("")
    file = disk.open(path, create=True)
    file.append([data])
    file.sync()
    disk.sync_dir("d")
    return disk


def contents_after(disk: SimDisk, mode: CrashMode, path: str = "d/f") -> set[bytes | None]:
    """All that crashes with 300 seeds make of a file; None when its name is gone."""
    found: set[bytes | None] = set()
    for seed in SEEDS:
        crashed = disk.clone()
        crashed.crash(mode, Random(seed))
        found.add(crashed.read_file(path) if crashed.exists(path) else None)
    return found


# --- without faults ------------------------------------------------------------------------------------------


def test_without_faults_it_behaves_as_the_real_disk_does(tmp_path: Path) -> None:
    simulated = SimDisk()
    simulated.make_dir("root")
    assert what_a_log_does(simulated, "root") == what_a_log_does(RealDisk(), str(tmp_path))


# --- what a crash leaves -------------------------------------------------------------------------------------


def test_what_was_synced_survives_every_crash() -> None:
    disk = disk_with("d/f", b"synced" * 500)
    for mode in CrashMode:
        assert contents_after(disk, mode) == {b"synced" * 500}


def test_a_drop_forgets_all_that_was_not_synced() -> None:
    disk = disk_with("d/f", b"old")
    disk.open("d/f", create=False).append([b"new"])
    disk.open("d/g", create=True)
    disk.rename("d/f", "d/h")
    crashed = disk.clone()
    crashed.crash(CrashMode.DROP, Random(0))
    assert list(crashed.list("d")) == ["f"]
    assert crashed.read_file("d/f") == b"old"


def test_a_crash_that_keeps_forgets_nothing() -> None:
    disk = disk_with("d/f", b"old")
    disk.open("d/f", create=False).append([b"new"])
    disk.rename("d/f", "d/h")
    assert contents_after(disk, CrashMode.KEEP, "d/h") == {b"oldnew"}


def test_what_outlived_its_process_is_not_synced_by_that() -> None:
    disk = disk_with("d/f", b"old")
    disk.open("d/f", create=False).append([b"new"])
    disk.open("d/g", create=True)
    disk.crash(CrashMode.KEEP, Random(0))
    assert (disk.read_file("d/f"), list(disk.list("d"))) == (b"oldnew", ["f", "g"])
    disk.crash(CrashMode.DROP, Random(0))
    assert (disk.read_file("d/f"), list(disk.list("d"))) == (b"old", ["f"])


def test_a_torn_write_ends_at_a_sector_and_the_writes_before_it_are_whole() -> None:
    disk = disk_with("d/f", b"")
    file = disk.open("d/f", create=False)
    file.append([b"a" * 700])
    file.append([b"b" * 1000])
    whole = b"a" * 700 + b"b" * 1000
    assert contents_after(disk, CrashMode.TEAR) == {whole[:700], whole[:1024], whole[:1536]}


def test_reordered_sectors_survive_one_by_one_and_the_size_with_or_without_them() -> None:
    disk = disk_with("d/f", b"o" * 600)
    file = disk.open("d/f", create=False)
    file.write_at(0, b"n" * 1100)
    found = contents_after(disk, CrashMode.REORDER)
    sectors = [(b"o" * 512, b"n" * 512), (b"o" * 88 + bytes(424), b"n" * 512), (bytes(76), b"n" * 76)]
    grown = {a + b + c for a in sectors[0] for b in sectors[1] for c in sectors[2]}
    not_grown = {(a + b)[:600] for a in sectors[0] for b in sectors[1]}
    assert found == grown | not_grown


def test_a_sector_may_survive_as_it_was_between_two_writes() -> None:
    disk = disk_with("d/f", b"0")
    file = disk.open("d/f", create=False)
    file.write_at(1, b"1")
    file.write_at(2, b"2")
    assert contents_after(disk, CrashMode.REORDER) == {b"0", b"0\0", b"01", b"0\0\0", b"01\0", b"012"}


def test_bytes_do_not_come_back_behind_a_truncation_that_survived() -> None:
    disk = disk_with("d/f", b"o" * SECTOR_BYTES * 2)
    file = disk.open("d/f", create=False)
    file.truncate(SECTOR_BYTES)
    file.append([b"n" * SECTOR_BYTES])
    old, new, empty = (letter * SECTOR_BYTES for letter in (b"o", b"n", b"\0"))
    assert contents_after(disk, CrashMode.REORDER) == {old + old, old, old + empty, old + new}


def test_a_new_file_is_lost_unless_its_directory_was_synced() -> None:
    disk = disk_with("d/f", b"")
    file = disk.open("d/g", create=True)
    file.append([b"data"])
    file.sync()
    assert contents_after(disk, CrashMode.DROP, "d/g") == {None}
    assert contents_after(disk, CrashMode.REORDER, "d/g") == {None, b"data"}
    disk.sync_dir("d")
    assert contents_after(disk, CrashMode.DROP, "d/g") == {b"data"}


def test_a_file_in_a_directory_whose_name_was_not_synced_is_lost() -> None:
    disk = SimDisk()
    disk.make_dir("new")
    disk.write_atomically("new/f", b"data")
    assert contents_after(disk, CrashMode.DROP, "new/f") == {None}
    disk.sync_dir("")
    assert contents_after(disk, CrashMode.DROP, "new/f") == {b"data"}


def test_names_survive_a_tear_in_order_and_a_reordering_in_any() -> None:
    disk = disk_with("d/f", b"")
    for name in "abc":
        disk.open(f"d/{name}", create=True)

    def names_after(mode: CrashMode) -> set[str]:
        found = set()
        for seed in SEEDS:
            crashed = disk.clone()
            crashed.crash(mode, Random(seed))
            found.add("".join(crashed.list("d")))
        return found

    assert names_after(CrashMode.TEAR) == {"f", "af", "abf", "abcf"}
    assert names_after(CrashMode.REORDER) == {"f", "af", "abf", "abcf", "acf", "bf", "bcf", "cf"}


def test_a_rename_is_one_step_and_may_outrun_the_content() -> None:
    disk = disk_with("d/f", b"old")
    file = disk.open("d/g", create=True)
    file.append([b"new"])
    disk.rename("d/g", "d/f")
    found = contents_after(disk, CrashMode.REORDER)
    assert found == {b"old", b"new", b"", bytes(3)}, "the target is never missing, and the source was not synced"
    file.sync()
    assert contents_after(disk, CrashMode.REORDER) == {b"old", b"new"}
    disk.sync_dir("d")
    assert contents_after(disk, CrashMode.REORDER) == {b"new"}


def test_an_atomic_write_leaves_the_old_content_or_the_new_one_at_every_point() -> None:
    base = disk_with("d/f", b"old")
    before = base.points
    for stop_at in range(1, 6):
        disk = base.clone()
        disk.stop_at = disk.points + stop_at
        with pytest.raises(PowerFailure):
            disk.write_atomically("d/f", b"new")
        for mode in CrashMode:
            assert contents_after(disk, mode) <= {b"old", b"new"}
    base.write_atomically("d/f", b"new")
    assert base.points == before + 5, "five points: create, write, sync, rename, sync of the directory"
    for mode in CrashMode:
        assert contents_after(base, mode) == {b"new"}


# --- power ---------------------------------------------------------------------------------------------------


def test_the_power_fails_in_the_midst_of_the_operation_that_was_named() -> None:
    disk = disk_with("d/f", b"")
    file = disk.open("d/f", create=False)
    disk.stop_at = disk.points + 2
    file.append([b"one"])
    with pytest.raises(PowerFailure, match="sync d/f"):
        file.sync()
    assert not isinstance(PowerFailure(), Exception)
    with pytest.raises(PowerFailure):
        disk.read_file("d/f")
    file.close()
    disk.crash(CrashMode.DROP, Random(0))
    assert disk.read_file("d/f") == b"", "the sync had not done its work"
    with pytest.raises(OSError, match="lost power"):
        file.read_at(0, 1)


def test_a_clone_goes_its_own_way() -> None:
    disk = disk_with("d/f", b"old")
    file = disk.open("d/f", create=False)
    file.append([b"new"])
    disk.rename("d/f", "d/g")
    clone = disk.clone()
    file.sync()
    disk.sync_dir("d")
    assert contents_after(clone, CrashMode.DROP) == {b"old"}
    assert contents_after(disk, CrashMode.DROP, "d/g") == {b"oldnew"}
    assert clone.read_file("d/g") == b"oldnew"


def test_the_same_seed_leaves_the_same_disk() -> None:
    disk = disk_with("d/f", b"")
    for name in "fghi":
        file = disk.open(f"d/{name}", create=True)
        for letter in b"abc":
            file.append([bytes([letter]) * 700])

    def after(seed: int) -> list[tuple[str, bytes]]:
        crashed = disk.clone()
        crashed.crash(CrashMode.REORDER, Random(seed))
        return [(name, crashed.read_file(f"d/{name}")) for name in crashed.list("d")]

    assert after(1) == after(1) != after(2)


# --- faults --------------------------------------------------------------------------------------------------


def test_a_failed_sync_is_reported_once_and_its_pages_are_never_written() -> None:
    disk = disk_with("d/f", b"old")
    file = disk.open("d/f", create=False)
    file.append([b"lost"])
    disk.fail_next_sync(SyncFailure.MARKS_CLEAN, "/f")
    with pytest.raises(OSError, match=r".") as failed:
        file.sync()
    assert failed.value.errno == errno.EIO
    assert disk.read_file("d/f") == b"oldlost"
    file.sync()
    file.append([b"more"])
    file.sync()
    assert contents_after(disk, CrashMode.DROP) == {b"old\0\0\0\0more"}


def test_a_failed_sync_forgets_no_truncation() -> None:
    disk = disk_with("d/f", b"old and long")
    file = disk.open("d/f", create=False)
    file.truncate(3)
    disk.fail_next_sync(SyncFailure.MARKS_CLEAN, "/f")
    with pytest.raises(OSError, match=r"."):
        file.sync()
    file.sync()
    assert contents_after(disk, CrashMode.DROP) == {b"old"}


def test_what_is_written_again_after_a_failed_sync_is_durable_with_the_next() -> None:
    disk = disk_with("d/f", b"old")
    file = disk.open("d/f", create=False)
    file.append([b"lost"])
    disk.fail_next_sync(SyncFailure.MARKS_CLEAN, "/f")
    with pytest.raises(OSError, match=r"."):
        file.sync()
    file.write_at(3, file.read_at(3, 4))
    file.sync()
    assert contents_after(disk, CrashMode.DROP) == {b"oldlost"}


def test_a_failed_sync_may_drop_its_pages() -> None:
    disk = disk_with("d/f", b"old")
    file = disk.open("d/f", create=False)
    file.append([b"lost"])
    disk.fail_next_sync(SyncFailure.DROPS)
    with pytest.raises(OSError, match=r"."):
        file.sync()
    file.sync()
    assert disk.read_file("d/f") == b"old"


def test_a_sync_of_a_directory_can_fail_too() -> None:
    disk = disk_with("d/f", b"old")
    disk.open("d/g", create=True)
    disk.fail_next_sync(SyncFailure.MARKS_CLEAN, "d")
    with pytest.raises(OSError, match=r"."):
        disk.sync_dir("d")
    assert contents_after(disk, CrashMode.DROP, "d/g") == {None}


def test_a_full_disk_takes_the_first_part_of_a_write() -> None:
    disk = SimDisk(capacity_bytes=10)
    file = disk.open("f", create=True)
    file.append([b"123456"])
    assert disk.free_bytes("") == 4
    with pytest.raises(OSError, match=r".") as full:
        file.append([b"789abc"])
    assert full.value.errno == errno.ENOSPC
    assert disk.read_file("f") == b"123456789a"
    file.write_at(0, b"over")
    with pytest.raises(OSError, match=r"."):
        file.reserve(11)
    disk.capacity_bytes = 20
    file.reserve(15)
    assert (disk.free_bytes(""), disk.read_file("f")) == (5, b"over56789a")
    disk.remove("f")
    assert disk.free_bytes("") == 20


def test_reads_fail_on_request() -> None:
    disk = disk_with("d/f", b"data")
    file = disk.open("d/f", create=False)
    disk.unreadable.add("d/f")
    with pytest.raises(OSError, match=r".") as failed:
        file.read_at(0, 1)
    assert failed.value.errno == errno.EIO
    with pytest.raises(OSError, match=r".") as failed:
        disk.read_file("d/f")
    assert failed.value.errno == errno.EIO


def test_a_flipped_bit_is_read_at_once_and_after_a_crash() -> None:
    disk = disk_with("d/f", b"\0\0")
    disk.flip_bit("d/f", 9)
    assert disk.read_file("d/f") == b"\0\2"
    assert contents_after(disk, CrashMode.DROP) == {b"\0\2"}


# --- directories that are renamed --------------------------------------------------------------------------------


def test_a_directory_is_renamed_with_all_in_it(tmp_path: Path) -> None:
    for disk, root in ((SimDisk(), "d"), (RealDisk(), str(tmp_path))):
        disk.make_dir(f"{root}/a/deeper")
        disk.make_dir(f"{root}/ab")
        file = disk.open(f"{root}/a/deeper/f", create=True)
        disk.rename(f"{root}/a", f"{root}/b")
        file.append([b"later"])
        assert disk.list(root) == ["ab", "b"]
        assert disk.read_file(f"{root}/b/deeper/f") == b"later"
        disk.make_dir(f"{root}/c/full")
        with pytest.raises(OSError, match="not empty"):
            disk.rename(f"{root}/b", f"{root}/c")


@pytest.mark.parametrize("mode", [CrashMode.TEAR, CrashMode.REORDER])
def test_a_directory_has_its_old_name_or_its_new_one_after_a_crash(mode: CrashMode) -> None:
    disk = disk_with("d/f", b"data")
    disk.rename("d", "e")
    assert contents_after(disk, mode, "d/f") == contents_after(disk, mode, "e/f") == {b"data", None}
    disk.sync_dir("")
    assert contents_after(disk, mode, "e/f") == {b"data"}
    assert contents_after(disk, mode, "d/f") == {None}


def test_what_was_unsynced_in_a_renamed_directory_is_synced_under_its_new_name() -> None:
    disk = disk_with("d/f", b"data")
    disk.open("d/g", create=True)
    disk.rename("d/f", "d/h")
    disk.rename("d", "e")
    disk.sync_dir("")
    assert contents_after(disk, CrashMode.DROP, "e/f") == {b"data"}
    disk.sync_dir("e")
    assert contents_after(disk, CrashMode.DROP, "e/h") == {b"data"}
    assert contents_after(disk, CrashMode.DROP, "e/g") == {b""}
    assert contents_after(disk, CrashMode.DROP, "e/f") == {None}
