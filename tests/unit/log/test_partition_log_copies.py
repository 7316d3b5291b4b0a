"""A log that was copied from another one takes its place, in a directory that is then renamed."""

from __future__ import annotations

from dataclasses import replace
from errno import ENOSPC
from pathlib import Path
from unittest.mock import patch

import pytest

from kraft.log.change import run_now
from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.log.leader_epochs import LeaderEpochCache
from kraft.log.log_health import LogHealth
from kraft.log.partition_log import PartitionLog
from kraft.model.errors import Refusal
from kraft.model.ids import Offset
from kraft.runtime.disk import RealDisk
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.log.log_building import EPOCH, NOW_MS, ORDERS, SMALL_SEGMENTS, append, open_log, read_records


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


def copied(disk: MemoryDisk, original: PartitionLog, directory: str = "copy") -> PartitionLog:
    """Copy only the batches."""
    copy = PartitionLog.open(disk, directory, original.config, ORDERS)
    copy.truncate_fully_and_start_at(original.log_start_offset)
    while copy.log_end_offset < original.log_end_offset:
        copy.append_as_follower(original.read(copy.log_end_offset, 1, original.log_end_offset))
    return copy


def test_a_copy_becomes_the_equal_of_its_original(disk: MemoryDisk) -> None:
    original = open_log(disk, SMALL_SEGMENTS)
    original.append_as_leader(
        build_batch([Record(0, 1, None, b"gone")], producer_id=7, producer_epoch=0, base_sequence=0),
        EPOCH,
        NOW_MS,
        run_now,
    )
    for value in "abcdef":
        append(original, value, "more", epoch=2)
    run_now(original.advancing_log_start(Offset(4)))
    copy = copied(disk, original)
    run_now(original.advancing_log_start(Offset(6)))
    assert 7 not in copy.producers
    changed = replace(SMALL_SEGMENTS, flush_ms=5)
    original.reconfigure(changed)
    copy.settle()
    copy.take_over(original)
    assert copy.synced_end_offset == copy.log_end_offset == original.log_end_offset
    disk.crash()
    for found in (copy, PartitionLog.open(disk, "copy", changed, ORDERS)):
        assert found.config == changed
        assert found.log_start_offset == original.log_start_offset == 6
        assert found.epoch_cache.entries == original.epoch_cache.entries
        assert dict(found.producers) == dict(original.producers)
        assert (found.is_sparse, found.cleaned_end_offset) == (original.is_sparse, original.cleaned_end_offset)


def test_a_copy_that_could_not_write_all_that_it_takes_over_does_so_the_next_time(disk: MemoryDisk) -> None:
    original = open_log(disk, SMALL_SEGMENTS)
    for epoch, value in enumerate("abc"):
        append(original, value, epoch=epoch)
    copy = copied(disk, original)
    copy._files.epochs.cache = LeaderEpochCache()
    failing = patch.object(disk, "check_write", side_effect=OSError(ENOSPC, "No space left on device"))
    with failing, pytest.raises(Refusal, match="the disk is full"):
        copy.take_over(original)
    assert copy.failure is None
    copy.take_over(original)
    again = PartitionLog.open(disk, "copy", SMALL_SEGMENTS, ORDERS)
    assert again.epoch_cache.entries == original.epoch_cache.entries


def test_a_log_goes_on_in_a_directory_that_was_renamed(tmp_path: Path) -> None:
    disk = RealDisk()
    log = PartitionLog.open(disk, f"{tmp_path}/before", SMALL_SEGMENTS, ORDERS)
    for value in "abcdef":
        append(log, value * 50)
    disk.rename(f"{tmp_path}/before", f"{tmp_path}/after")
    log.moved_to(f"{tmp_path}/after")
    assert log.directory == f"{tmp_path}/after"
    assert all(segment.path.startswith(f"{tmp_path}/after/") for segment in log.segments())
    for value in "ghijkl":
        append(log, value * 50, epoch=3)
    log.truncate_to(Offset(10))
    run_now(log.advancing_log_start(Offset(3)))
    for path in run_now(log.applying_retention(NOW_MS, Offset(10))):
        disk.remove(path)
    append(log, "z", epoch=4)
    kept = [record.value for record in read_records(log)]
    log.close()
    assert disk.list(str(tmp_path)) == ["after"]
    again = PartitionLog.open(disk, f"{tmp_path}/after", SMALL_SEGMENTS, ORDERS)
    assert [record.value for record in read_records(again)] == kept
    assert (again.log_start_offset, again.log_end_offset) == (log.log_start_offset, 11)


def test_a_failure_names_the_directory_in_which_it_happened() -> None:
    health = LogHealth("before", ORDERS)
    health.moved_to("after")
    with pytest.raises(Refusal):
        health.fail(OSError("input/output error"))
    assert health.failure == "after: input/output error"
