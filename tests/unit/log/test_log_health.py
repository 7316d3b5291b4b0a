from __future__ import annotations

import errno
import os
from collections.abc import Callable

import pytest

from kraft.log.change import run_now
from kraft.log.partition_log import PartitionLog
from kraft.log.topic_config import TopicConfig
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import Offset
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.disks.sim_disk import SimDisk
from tests.support.log.log_building import (
    DIRECTORY,
    NOW_MS,
    SMALL_SEGMENTS,
    append,
    batch_of,
    open_log,
    read_all,
    refused,
    roll,
    sync,
)


def test_after_a_failed_sync_the_log_accepts_nothing_more() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "a")
    disk.fails_next_sync = True
    ticket = log.prepare_sync()
    ticket.run()
    with pytest.raises(Refusal) as refusal:
        log.complete_sync(ticket, run_now)
    assert refusal.value.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.synced_end_offset == 0
    for attempt in (log.prepare_sync, lambda: roll(log), lambda: append(log, "b"), lambda: log.truncate_to(Offset(0))):
        with pytest.raises(Refusal, match="offline"):
            attempt()
    assert read_all(log) == ["a"]
    log.close()


def test_after_a_failed_write_the_log_is_offline() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "a")
    disk.fails_writes = True
    assert refused(log, batch_of("b")).error_code is ErrorCode.KAFKA_STORAGE_ERROR
    disk.fails_writes = False
    assert "no space left" in refused(log, batch_of("b")).message
    assert log.failure is not None


def test_a_failed_roll_takes_the_log_offline() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "a")
    disk.fails_next_sync = True
    with pytest.raises(Refusal, match="goes offline"):
        roll(log)
    assert (log.synced_end_offset, log.log_end_offset) == (0, 1)


@pytest.mark.parametrize("work", [roll, PartitionLog.settle])
def test_a_sync_that_fails_for_want_of_room_takes_the_log_offline(
    monkeypatch: pytest.MonkeyPatch, work: Callable[[PartitionLog], None]
) -> None:
    """The kernel may have dropped what it could not write, and the next sync would succeed without it."""
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "a")

    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as without_room:
        without_room.setattr(disk, "check_sync", full)
        with pytest.raises(Refusal, match="goes offline"):
            work(log)
    assert "No space left" in refused(log, batch_of("b")).message
    assert (log.synced_end_offset, log.log_end_offset) == (0, 1)


def test_a_full_disk_refuses_an_append_and_the_log_goes_on_when_there_is_room() -> None:
    disk = SimDisk(capacity_bytes=20_000)
    log = open_log(disk, TopicConfig(segment_bytes=4_000))
    while disk.free_bytes(DIRECTORY) > 600:
        append(log, "x" * 500)
    for _ in range(5):
        assert refused(log, batch_of("x" * 500)).error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.failure is None
    assert len(read_all(log)) == log.log_end_offset > 20
    log.reconfigure(TopicConfig(segment_bytes=4_000, retention_bytes=4_000))
    for path in run_now(log.applying_retention(NOW_MS, log.log_end_offset)):
        disk.remove(path)
    append(log, "there is room again")
    log.close()
    assert read_all(open_log(disk))[-1] == "there is room again"


@pytest.mark.parametrize("renames_before", [0, 1])
def test_a_disk_that_fills_up_in_the_middle_of_a_truncation_takes_the_log_offline(
    monkeypatch: pytest.MonkeyPatch, renames_before: int
) -> None:
    """Segments are gone by then: a record appended at the old end of the log would follow a hole."""
    disk = MemoryDisk()
    log = open_log(disk, SMALL_SEGMENTS)
    for number in range(9):
        append(log, f"value {number}" * 5)
    sync(log)
    rename, renames = disk.rename, list[str]()

    def fill_up(old: str, new: str) -> None:
        if new.endswith(".deleted"):
            if len(renames) == renames_before:
                raise OSError(errno.ENOSPC, "No space left on device")
            renames.append(old)
        rename(old, new)

    monkeypatch.setattr(disk, "rename", fill_up)
    with pytest.raises(Refusal, match="goes offline"):
        log.truncate_to(Offset(2))
    assert len(renames) == renames_before
    monkeypatch.setattr(disk, "rename", rename)
    assert "No space left" in refused(log, batch_of("behind a hole")).message
    log.close()
    again = open_log(disk, SMALL_SEGMENTS)
    assert read_all(again) == [f"value {number}" * 5 for number in range(again.log_end_offset)]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_is_full_before_a_truncation_leaves_the_log_as_it_was(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    disk = MemoryDisk()
    log = open_log(disk, SMALL_SEGMENTS)
    for value in range(9):
        append(log, f"value {value}" * 5)
    sync(log)

    def refuse(path: str, data: bytes) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as full:
        full.setattr(disk, "write_atomically", refuse)
        with pytest.raises(Refusal, match="the disk is full"):
            log.truncate_to(Offset(2))
    assert (log.failure, log.log_end_offset, len(read_all(log))) == (None, 9, 9)
    assert log.truncate_to(Offset(2)) == 2
