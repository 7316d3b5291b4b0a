"""A close writes what the files beside the segments lack, and nothing to a log whose files say all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from kraft.log.change import ChangeUnderWay, run_now
from kraft.log.partition_log import PartitionLog
from kraft.log.recovery.log_checkpoint import LogCheckpoint, read_checkpoint, write_checkpoint
from kraft.model.ids import Offset
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.log.log_building import DIRECTORY, NOW_MS, append, open_log, read_records
from tests.support.log.transactional_log import ABORT, end, send

END: Final = 4
ACTIVE: Final = f"{DIRECTORY}/{2:020d}"


def closed() -> MemoryDisk:
    """Return the disk of a log that was closed: a segment of aborted records, and one of their marker and a record."""
    disk = MemoryDisk()
    log = open_log(disk)
    send(log, 7, 0, "aborted", "too")
    end(log, 7, ABORT)
    append(log, "plain")
    log.close()
    return disk


def steps_of_close(log: PartitionLog) -> int:
    closing, steps = ChangeUnderWay(log.closing()), 0
    while closing.step is not None:
        steps += 1
        closing.step.run()
        closing.resume()
    return steps


def lowered(disk: MemoryDisk) -> None:
    write_checkpoint(disk, DIRECTORY, LogCheckpoint(recovery_point=Offset(3), aborted_from=Offset(2)))


DAMAGE: Final[dict[str, Callable[[MemoryDisk], None]]] = {
    "no offset index": lambda disk: disk.remove(f"{ACTIVE}.index"),
    "no index of aborted transactions": lambda disk: disk.remove(f"{ACTIVE}.txnindex"),
    "no snapshot": lambda disk: disk.remove(f"{DIRECTORY}/{END:020d}.snapshot"),
    "a low recovery point": lowered,
    "no checkpoint": lambda disk: disk.remove(f"{DIRECTORY}/log-checkpoint"),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("is_clean", [False, True])
def test_a_close_completes_the_files_so_that_the_next_start_reads_nothing_and_the_next_close_writes_nothing(
    damage: str, is_clean: bool
) -> None:
    disk = closed()
    whole = set(disk.list(DIRECTORY))
    DAMAGE[damage](disk)
    log = open_log(disk, clean_shutdown=is_clean)
    assert steps_of_close(log) > 0
    assert set(disk.list(DIRECTORY)) >= whole
    log = open_log(disk, clean_shutdown=True)
    assert (log.recovery_report.batches_checked, log.log_end_offset) == (0, END)
    assert steps_of_close(log) == 0


def emptied(log: PartitionLog) -> None:
    run_now(log.starting_at(Offset(50)))


def truncated(log: PartitionLog) -> None:
    run_now(log.truncating_to(Offset(3)))


@pytest.mark.parametrize("change", [truncated, emptied])
def test_a_log_that_was_cut_is_written_at_its_close(change: Callable[[PartitionLog], None]) -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    for value in ("a", "b", "c", "d"):
        append(log, value)
    log.close()
    log = open_log(disk, clean_shutdown=True)
    change(log)
    expected = log.log_end_offset
    assert steps_of_close(log) > 0
    log = open_log(disk, clean_shutdown=True)
    assert (log.recovery_report.batches_checked, log.log_end_offset) == (0, expected)
    assert read_checkpoint(disk, DIRECTORY).recovery_point == expected
    assert steps_of_close(log) == 0


def test_producers_that_expired_do_not_come_back_with_the_next_start() -> None:
    disk = closed()
    log = open_log(disk, clean_shutdown=True)
    assert log.expire_producers(NOW_MS, 1_000) == 0
    assert steps_of_close(log) == 0
    log = open_log(disk, clean_shutdown=True)
    assert list(log.producers) == [7]
    log.expire_producers(0, 1_000)
    assert log.expire_producers(2_000, 1_000) == 1
    log.close()
    log = open_log(disk, clean_shutdown=True)
    assert list(log.producers) == []
    assert read_records(log)[-1].value == b"plain"
