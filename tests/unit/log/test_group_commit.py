from __future__ import annotations

from collections.abc import Callable

import pytest

from kraft.log.change import run_now
from kraft.log.partition_log import PartitionLog
from kraft.log.recovery.log_checkpoint import read_checkpoint
from kraft.log.topic_config import TopicConfig
from kraft.model.errors import Refusal
from kraft.model.ids import Offset
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.log.log_building import (
    DIRECTORY,
    NOW_MS,
    SMALL_SEGMENTS,
    append,
    open_log,
    read_all,
    roll,
    sync,
)


def test_only_a_completed_sync_makes_records_durable() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "a")
    ticket = log.prepare_sync()
    append(log, "b")
    ticket.run()
    assert (log.synced_end_offset, log.dirty) == (0, True)
    log.complete_sync(ticket, run_now)
    assert (log.synced_end_offset, log.dirty) == (1, True)
    sync(log)
    assert (log.synced_end_offset, log.dirty) == (2, False)
    append(log, "c")
    disk.crash()
    assert read_all(open_log(disk)) == ["a", "b"]


def test_truncation_during_a_sync_takes_back_what_it_would_have_covered() -> None:
    log = open_log(MemoryDisk())
    for value in "abcd":
        append(log, value)
    ticket = log.prepare_sync()
    log.truncate_to(Offset(2))
    append(log, "x")
    append(log, "y")
    ticket.run()
    log.complete_sync(ticket, run_now)
    assert log.synced_end_offset == 2
    assert log.log_end_offset == 4


def test_a_segment_removed_during_a_sync_is_closed_when_the_sync_is_complete() -> None:
    log = open_log(MemoryDisk(), SMALL_SEGMENTS)
    for number in range(6):
        append(log, f"value {number}")
    ticket = log.prepare_sync()
    log.truncate_fully_and_start_at(Offset(2))
    ticket.run()
    assert ticket.error is None
    log.complete_sync(ticket, run_now)
    assert (log.synced_end_offset, log.log_end_offset) == (2, 2)
    with pytest.raises(OSError, match="closed"):
        ticket.file.sync()


def test_a_segment_deleted_by_retention_during_a_sync_is_closed_when_the_sync_is_complete() -> None:
    log = open_log(MemoryDisk(), TopicConfig(retention_ms=0))
    append(log, "a")
    ticket = log.prepare_sync()
    assert run_now(log.applying_retention(NOW_MS, Offset(1))), "the segment that is synced is deleted"
    ticket.run()
    assert ticket.error is None
    log.complete_sync(ticket, run_now)
    assert (log.log_start_offset, log.synced_end_offset, log.log_end_offset) == (1, 1, 1)
    with pytest.raises(OSError, match="closed"):
        ticket.file.sync()


def test_an_emptied_log_is_durable_even_while_a_sync_runs() -> None:
    log = open_log(MemoryDisk())
    append(log, "a")
    ticket = log.prepare_sync()
    log.truncate_fully_and_start_at(Offset(50))
    assert (log.log_start_offset, log.synced_end_offset, log.log_end_offset) == (50, 50, 50)
    append(log, "b")
    ticket.run()
    log.complete_sync(ticket, run_now)
    assert (log.synced_end_offset, log.dirty) == (50, True)


def test_rolling_during_a_sync_does_not_count_as_durable_before_both_succeeded() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "a")
    ticket = log.prepare_sync()
    append(log, "b")
    roll(log)
    assert log.synced_end_offset == 0
    ticket.run()
    log.complete_sync(ticket, run_now)
    assert log.synced_end_offset == 2


def test_rolling_makes_the_old_segment_durable() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "a")
    roll(log)
    assert (log.synced_end_offset, log.dirty) == (1, False)
    roll(log)
    append(log, "b")
    disk.crash()
    assert read_all(open_log(disk)) == ["a"]


@pytest.mark.parametrize("change", [roll, PartitionLog.close, PartitionLog.settle])
def test_a_later_sync_does_not_hide_a_failed_one(change: Callable[[PartitionLog], None]) -> None:
    """The disk reports the failure once; every later sync seems to succeed."""
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "a")
    ticket = log.prepare_sync()
    disk.fails_next_sync = True
    ticket.run()
    with pytest.raises(Refusal, match="goes offline"):
        change(log)
    assert read_checkpoint(disk, DIRECTORY).recovery_point == 0
    assert log.failure is not None


@pytest.mark.parametrize("change", [roll, PartitionLog.close])
def test_the_recovery_point_waits_for_a_sync_that_is_under_way(change: Callable[[PartitionLog], None]) -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "a")
    sync(log)
    append(log, "b")
    log.prepare_sync()
    change(log)
    assert read_checkpoint(disk, DIRECTORY).recovery_point == 1


def test_a_sync_that_was_run_and_not_completed_yet_is_enough_for_the_recovery_point() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "a")
    log.prepare_sync().run()
    append(log, "b")
    log.close()
    assert read_checkpoint(disk, DIRECTORY).recovery_point == 2
