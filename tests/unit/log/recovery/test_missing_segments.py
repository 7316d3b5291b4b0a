"""A log of a version that does not name segments: it merges some, and is killed before it writes its checkpoint."""

from __future__ import annotations

from random import Random

import pytest

from kraft.log.cleaning.segment_swap import cleaned_path, swap_in
from kraft.log.integrity.directory import verify_partition
from kraft.log.recovery.log_checkpoint import read_checkpoint
from kraft.model.errors import Corruption
from kraft.model.ids import Offset
from tests.support.disks.sim_content import CrashMode
from tests.support.disks.sim_disk import PowerFailure, SimDisk
from tests.support.log.log_building import DIRECTORY, SMALL_SEGMENTS, open_log, read_records, stored

LEFT = [0, 10, 60, 70, 80, 90, 100, 110]


def merged(*, is_swapped: bool) -> SimDisk:
    """A log with a hole in each segment of two records, of which the first three were replaced by one of them."""
    disk = SimDisk()
    disk.make_dir(DIRECTORY)
    for path in ("", "data"):
        disk.sync_dir(path)
    log = open_log(disk, SMALL_SEGMENTS)
    for number in range(12):
        log.append_as_follower(stored(f"value {number}", offset=10 * number, epoch=0))
    bases = [each.base_offset for each in log.segments()]
    log.close()
    assert list(read_checkpoint(disk, DIRECTORY).segments) == bases
    end = bases[3]
    assert end == 51
    cleaned = disk.open(cleaned_path(DIRECTORY, Offset(0)), create=True)
    cleaned.append([disk.read_file(f"{DIRECTORY}/{0:020d}.log")])
    cleaned.sync()
    if is_swapped:
        swap_in(disk, DIRECTORY, Offset(0), end)
    else:
        disk.rename(cleaned_path(DIRECTORY, Offset(0)), f"{DIRECTORY}/{0:020d}.{end:020d}.swap")
        disk.sync_dir(DIRECTORY)
    return disk


def offsets(disk: SimDisk) -> list[int]:
    log = open_log(disk, SMALL_SEGMENTS)
    found = [record.offset for record in read_records(log)]
    log.release()
    return found


@pytest.mark.parametrize("is_swapped", [True, False])
def test_segments_that_were_replaced_are_not_missing_wherever_the_opening_is_interrupted(is_swapped: bool) -> None:
    disk = merged(is_swapped=is_swapped)
    assert [each for each in verify_partition(disk, DIRECTORY).findings if not each.is_note] == []
    rehearsal = disk.clone()
    assert offsets(rehearsal) == LEFT
    for point in range(disk.points + 1, rehearsal.points + 1):
        stopped = disk.clone()
        stopped.stop_at = point
        with pytest.raises(PowerFailure):
            offsets(stopped)
        for mode in CrashMode:
            after = stopped.clone()
            after.crash(mode, Random(point))
            assert offsets(after) == LEFT


def test_a_replaced_segment_excuses_no_other() -> None:
    disk = merged(is_swapped=True)
    missing = f"{DIRECTORY}/{91:020d}.log"
    disk.remove(missing)
    for _ in range(2):
        with pytest.raises(Corruption, match="the segment is missing") as raised:
            open_log(disk, SMALL_SEGMENTS)
        assert raised.value.file == missing
    assert (missing, "the segment is missing") in [
        (each.file, each.reason) for each in verify_partition(disk, DIRECTORY).findings
    ]
