"""Swapping cleaned segments in: a crash anywhere leaves the old segments or the new one, never a mixture."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from kraft.log.cleaning.segment_swap import cleaned_path, complete_swaps, swap_in
from kraft.model.errors import Corruption
from kraft.model.ids import Offset
from tests.support.disks.sim_content import CrashMode
from tests.support.disks.sim_disk import PowerFailure, SimDisk

DIRECTORY = "data/orders-0"
SUFFIXES = (".log", ".index", ".timeindex")
BASES = (0, 10, 25, 40, 70)
BASE, END = Offset(10), Offset(40)

SEEDS = range(25)


def name(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


def log_with_cleaned_group() -> SimDisk:
    """Five segments with indexes, and the cleaned content of the second and third; a producer snapshot inside."""
    disk = SimDisk()
    disk.make_dir(DIRECTORY)
    disk.sync_dir("")
    disk.sync_dir("data")
    for base in BASES:
        for suffix in SUFFIXES:
            disk.write_file(f"{DIRECTORY}/{name(base, suffix)}", f"old {base}{suffix}".encode())
    disk.write_file(f"{DIRECTORY}/{name(25, '.snapshot')}", b"producers at 25")
    file = disk.open(cleaned_path(DIRECTORY, BASE), create=True)
    file.append([b"new 10"])
    file.sync()
    return disk


def files(disk: SimDisk) -> dict[str, bytes]:
    """Files that count, without those that are to be removed anyway."""
    return {
        found: disk.read_file(f"{DIRECTORY}/{found}")
        for found in disk.list(DIRECTORY)
        if not found.endswith(".deleted")
    }


OLD = {name(base, suffix): f"old {base}{suffix}".encode() for base in BASES for suffix in SUFFIXES} | {
    name(25, ".snapshot"): b"producers at 25"
}
GONE = [name(25, suffix) for suffix in SUFFIXES] + [name(10, ".index"), name(10, ".timeindex")]
NEW = {found: data for found, data in OLD.items() if found not in GONE} | {name(10, ".log"): b"new 10"}


def test_the_cleaned_file_takes_the_place_of_the_whole_group() -> None:
    disk = log_with_cleaned_group()
    deleted = swap_in(disk, DIRECTORY, BASE, END)
    assert files(disk) == NEW
    assert deleted == [f"{DIRECTORY}/{name(25, suffix)}.deleted" for suffix in sorted(SUFFIXES)]
    assert all(disk.exists(path) for path in deleted)


def test_a_swap_is_durable_when_it_returns() -> None:
    disk = log_with_cleaned_group()
    swap_in(disk, DIRECTORY, BASE, END)
    disk.crash(CrashMode.DROP, Random(0))
    assert files(disk) == NEW


def test_an_open_handle_goes_on_reading_the_old_content() -> None:
    disk = log_with_cleaned_group()
    open_files = [disk.open(f"{DIRECTORY}/{name(base, '.log')}", create=False) for base in (10, 25)]
    swap_in(disk, DIRECTORY, BASE, END)
    assert [file.read_at(0, 100) for file in open_files] == [b"old 10.log", b"old 25.log"]


def test_a_group_without_records_leaves_an_empty_segment_that_keeps_the_base_offset() -> None:
    disk = log_with_cleaned_group()
    disk.open(cleaned_path(DIRECTORY, BASE), create=False).truncate(0)
    swap_in(disk, DIRECTORY, BASE, END)
    assert files(disk)[name(10, ".log")] == b""


def test_without_a_crash_there_is_nothing_to_complete() -> None:
    disk = log_with_cleaned_group()
    swap_in(disk, DIRECTORY, BASE, END)
    assert complete_swaps(disk, DIRECTORY) == []
    assert files(disk) == NEW


def test_cleaned_files_of_a_cleaning_that_never_ended_are_removed() -> None:
    disk = log_with_cleaned_group()
    assert complete_swaps(disk, DIRECTORY) == []
    assert files(disk) == OLD


# --- crashes -------------------------------------------------------------------------------------------------


def every_crash(disk: SimDisk, operation: Callable[[SimDisk], object]) -> list[SimDisk]:
    """The disk after a crash in each of the operation's accesses, in each way, with each seed."""
    crashed: list[SimDisk] = []
    rehearsal = disk.clone()
    before = rehearsal.points
    operation(rehearsal)
    for point in range(before + 1, rehearsal.points + 1):
        stopped = disk.clone()
        stopped.stop_at = point
        with pytest.raises(PowerFailure):
            operation(stopped)
        for mode in CrashMode:
            for seed in SEEDS:
                after = stopped.clone()
                after.crash(mode, Random(seed))
                crashed.append(after)
    return crashed


def test_a_crash_at_any_point_of_the_swap_recovers_to_the_old_segments_or_to_the_new_one() -> None:
    crashed = every_crash(log_with_cleaned_group(), lambda disk: swap_in(disk, DIRECTORY, BASE, END))
    found = {"old": 0, "new": 0}
    for disk in crashed:
        complete_swaps(disk, DIRECTORY)
        found["new" if files(disk) == NEW else "old"] += 1
        assert files(disk) in (OLD, NEW)
    print(f"{len(crashed)} crashes of a swap: {found}")
    assert len(crashed) >= 500
    assert min(found.values()) > 0


def test_a_crash_at_any_point_of_the_recovery_recovers_to_the_new_segment() -> None:
    disk = log_with_cleaned_group()
    disk.rename(cleaned_path(DIRECTORY, BASE), f"{DIRECTORY}/{BASE:020d}.{END:020d}.swap")
    disk.sync_dir(DIRECTORY)
    disk.write_file(f"{DIRECTORY}/{name(70, '.log')}.cleaned", b"unfinished")
    crashed = every_crash(disk, lambda crashing: complete_swaps(crashing, DIRECTORY))
    assert len(crashed) >= 500
    for after in crashed:
        complete_swaps(after, DIRECTORY)
        assert files(after) == NEW


def test_what_recovery_has_completed_stays_through_another_crash() -> None:
    disk = log_with_cleaned_group()
    disk.rename(cleaned_path(DIRECTORY, BASE), f"{DIRECTORY}/{BASE:020d}.{END:020d}.swap")
    assert complete_swaps(disk, DIRECTORY) == [BASE]
    disk.crash(CrashMode.DROP, Random(0))
    complete_swaps(disk, DIRECTORY)
    assert files(disk) == NEW


# --- bad names -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "swap",
    [
        ".swap",
        "00000000000000000010.log.swap",
        "00000000000000000010.swap",
        "00000000000000000010.00000000000000000010.swap",
        "00000000000000000040.00000000000000000010.swap",
        "0000000000000000001x.00000000000000000040.swap",
        "00000000000000000010.000000000000000000٤0.swap",
    ],
)
def test_a_swap_file_that_does_not_say_what_it_replaces_is_corruption(swap: str) -> None:
    disk = log_with_cleaned_group()
    disk.write_file(f"{DIRECTORY}/{swap}", b"?")
    with pytest.raises(Corruption, match="the file name is not <base offset>"):
        complete_swaps(disk, DIRECTORY)
    assert disk.read_file(f"{DIRECTORY}/{name(25, '.log')}") == b"old 25.log"


def test_two_swap_files_that_overlap_are_corruption() -> None:
    disk = log_with_cleaned_group()
    disk.write_file(f"{DIRECTORY}/{0:020d}.{25:020d}.swap", b"?")
    disk.write_file(f"{DIRECTORY}/{10:020d}.{40:020d}.swap", b"?")
    with pytest.raises(Corruption, match="overlaps another one that ends at offset 25"):
        complete_swaps(disk, DIRECTORY)
    assert disk.read_file(f"{DIRECTORY}/{name(10, '.log')}") == b"old 10.log"


def test_files_with_names_like_a_segments_are_left_alone() -> None:
    disk = log_with_cleaned_group()
    for other in ("notes.log", "00000000000000000025.log.bak", "123.log"):
        disk.write_file(f"{DIRECTORY}/{other}", b"mine")
    swap_in(disk, DIRECTORY, BASE, END)
    assert files(disk) == NEW | dict.fromkeys(("notes.log", "00000000000000000025.log.bak", "123.log"), b"mine")
