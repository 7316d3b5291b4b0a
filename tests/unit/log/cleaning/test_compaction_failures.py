"""Compaction that fails in the middle, and what it leaves behind."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from random import Random

import pytest
from msgspec.structs import replace

from kraft.log.cleaning.cleaned_segments import discard
from kraft.log.cleaning.compaction import CleaningAborted, clean
from kraft.log.cleaning.segment_swap import complete_swaps
from kraft.log.format.record_batch import read_header
from kraft.model.errors import Corruption
from kraft.model.ids import Offset
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.disks.sim_content import CrashMode
from tests.support.disks.sim_disk import PowerFailure, SimDisk
from tests.support.log.compacted_log import COMPACT, MAP_BYTES, NOW_MS, CompactedLog, batch_at, new_log, view


def two_segments() -> CompactedLog:
    """A log whose first segment is clean and second dirty; the cleaning rewrites both."""
    log = new_log()
    log.segment([("a", "1"), ("b", "1")], [("c", "1")])
    log.compact()
    log.segment([("a", "2"), ("b", "2")], [("d", "1")])
    return log


@pytest.mark.parametrize("base", [0, 3])
def test_any_flipped_bit_is_corruption_and_nothing_is_replaced(base: int) -> None:
    path = f"data/orders-0/{base:020d}.log"
    size = len(two_segments().disk.read_file(path))
    unnoticed = []
    named = set()
    for bit in range(size * 8):
        log = two_segments()
        assert isinstance(log.disk, MemoryDisk)
        data = bytearray(log.disk.read_file(path))
        data[bit // 8] ^= 1 << bit % 8
        plan = log.plan()
        assert plan is not None
        log.disk.write_file(path, bytes(data))
        before = log.files()
        try:
            clean(log.disk, log.directory, plan, COMPACT, 0, MAP_BYTES, {}, lambda _: None, ())
            unnoticed.append(bit)
        except Corruption as error:
            named.add(error.file)
            assert log.files() == before
    assert named == {path}
    # Neither the leader epoch nor a base offset that still is in order is covered by the checksum: readers compare
    # both with what the log knows of itself.
    header_bits = {bit // 8 for bit in unnoticed}
    epochs = {start + byte for start in starts_of(path) for byte in range(12, 16)}
    offsets = {start + byte for start in starts_of(path) for byte in range(8)}
    assert header_bits <= epochs | offsets


def starts_of(path: str) -> list[int]:
    data = two_segments().disk.read_file(path)
    starts = [0]
    while (end := starts[-1] + read_header(data, starts[-1]).size_bytes) < len(data):
        starts.append(end)
    return starts


def test_a_file_that_is_too_short_is_corruption() -> None:
    log = two_segments()
    plan = log.plan()
    assert plan is not None
    log.disk.open(plan.segments[1].path, create=False).truncate(100)
    with pytest.raises(Corruption, match="bytes are missing"):
        clean(log.disk, log.directory, plan, COMPACT, 0, MAP_BYTES, {}, lambda _: None, ())


@pytest.mark.parametrize("cut_bytes", [1, 30, 65])
def test_a_segment_that_ends_inside_a_batch_is_corruption(cut_bytes: int) -> None:
    log = two_segments()
    assert isinstance(log.disk, MemoryDisk)
    plan = log.plan()
    assert plan is not None
    torn = plan.segments[1]
    log.disk.write_file(torn.path, log.disk.read_file(torn.path)[:-cut_bytes])
    before = log.files()
    plan = replace(plan, segments=(plan.segments[0], replace(torn, size_bytes=torn.size_bytes - cut_bytes)))
    with pytest.raises(Corruption):
        clean(log.disk, log.directory, plan, COMPACT, 0, MAP_BYTES, {}, lambda _: None, ())
    assert log.files() == before


def test_a_segment_that_was_deleted_meanwhile_aborts_the_cleaning() -> None:
    log = two_segments()
    plan = log.plan()
    assert plan is not None
    log.disk.remove(plan.segments[1].path)
    with pytest.raises(CleaningAborted, match="no longer exists"):
        clean(log.disk, log.directory, plan, COMPACT, 0, MAP_BYTES, {}, lambda _: None, ())


def test_the_caller_may_abort_at_any_moment_and_no_file_is_left() -> None:
    calls = 0
    counting = Counting()
    two_segments().clean(on_progress=counting)
    for stop_at in range(1, counting.calls + 1):
        log = two_segments()
        before = log.files()
        with pytest.raises(CleaningAborted, match="enough"):
            log.clean(on_progress=Counting(stop_at))
        assert log.files() == before
        calls += 1
    assert calls >= 4


@dataclass
class Counting:
    stop_at: int = 0
    calls: int = field(default=0, init=False)

    def __call__(self, _: int) -> None:
        self.calls += 1
        if self.calls == self.stop_at:
            raise CleaningAborted("enough")


@pytest.mark.parametrize("fails", ["fails_writes", "fails_next_sync"])
def test_a_disk_that_fails_leaves_the_log_as_it_was(fails: str) -> None:
    log = two_segments()
    before = log.files()
    setattr(log.disk, fails, True)
    with pytest.raises(OSError, match=r"device|error"):
        log.clean()
    assert log.files() == before


def test_a_file_of_an_earlier_cleaning_is_overwritten() -> None:
    log = two_segments()
    assert isinstance(log.disk, MemoryDisk)
    log.disk.write_file(f"data/orders-0/{0:020d}.log.cleaned", b"left behind" * 1_000)
    log.compact()
    assert log.pairs() == [(2, "c", "1"), (3, "a", "2"), (4, "b", "2"), (5, "d", "1")]


def test_a_result_fits_only_the_log_it_was_made_of() -> None:
    log = two_segments()
    result = log.clean()
    segments = log.facts()
    assert result.fits(segments)
    assert not result.fits(segments[1:]), "retention has dropped the first segment"
    assert not result.fits(segments[:1])
    assert not result.fits(segments[:2]), "a truncation has made a replaced segment the active one"
    assert not result.fits([segments[0], replace(segments[1], size_bytes=1), segments[2]])
    before = set(log.files())
    discard(log.disk, result)
    assert before - set(log.files()) == {f"{0:020d}.log.cleaned"}


def log_whose_second_group_drops_a_tombstone(disk: SimDisk) -> CompactedLog:
    """The first group loses the old value of a key, the second the tombstone above it, whose horizon has passed."""
    log = CompactedLog(disk)
    log.segment([("a", "1"), ("b", "1"), ("c", "1")])
    log.segment([("b", "2"), ("d", "1")])
    log.segment([("a", None), ("e", "1")], [("d", "2")])
    log.compact(TWO_GROUPS, now_ms=NOW_MS)
    # The checkpoint that says how far the log is clean was lost, and the first segment restored: all is dirty again.
    log.cleaned_end = Offset(0)
    disk.write_file(log.facts()[0].path, batch_at(0, ("a", "1"), ("b", "1"), ("c", "1")))
    log.append(("f", "1"))
    return log


TWO_GROUPS = dataclasses.replace(COMPACT, segment_bytes=200)


def test_a_crash_anywhere_in_a_cleaning_of_several_groups_loses_nothing_and_brings_nothing_back() -> None:
    disk = SimDisk()
    rehearsal = log_whose_second_group_drops_a_tombstone(disk)
    begun_at = disk.points
    expected = view(rehearsal.pairs())
    result = rehearsal.compact(TWO_GROUPS, now_ms=2 * NOW_MS)
    assert len(result.groups) >= 2
    assert (5, "a", None) not in rehearsal.pairs()
    assert view(rehearsal.pairs()) == expected
    outcomes, crashes = set(), 0
    for point in range(begun_at + 1, disk.points + 1):
        disk = SimDisk()
        log = log_whose_second_group_drops_a_tombstone(disk)
        disk.stop_at = point
        with pytest.raises(PowerFailure):
            log.compact(TWO_GROUPS, now_ms=2 * NOW_MS)
        for mode in CrashMode:
            for seed in range(10):
                log.disk = crashed = disk.clone()
                crashed.crash(mode, Random(seed))
                complete_swaps(crashed, log.directory)
                assert view(log.pairs()) == expected
                outcomes.add(tuple(log.pairs()))
                crashes += 1
    print(f"{crashes} crashes of a cleaning: {len(outcomes)} different logs after them, all of them right")
    assert crashes >= 500
    assert len(outcomes) >= 3, "nothing, the first group, and both"
