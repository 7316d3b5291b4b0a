"""A follower's log that was restarted, or emptied by retention, and a leader that keeps records below its start.

The logs are real ones on disks in memory, and the follower is the real machine. Where the elections were clean, the
follower keeps what it has; after an unclean one, it needs what the new leader wrote below its start.
"""

from __future__ import annotations

import pytest

from kraft.log.change import run_now
from kraft.log.partition_log import PartitionLog
from kraft.model.ids import Offset
from kraft.replication.effects import RestartAt, TruncateTo
from tests.simulation.followed_log import follow
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.log.log_building import append, open_log, read_all, sync


def log_of(*epochs: int, start: int = 0) -> PartitionLog:
    """Return a log with one record of each epoch; those below `start` are deleted."""
    log = open_log(MemoryDisk())
    for offset, epoch in enumerate(epochs):
        append(log, f"{offset} of {epoch}", epoch=epoch)
    sync(log)
    run_now(log.advancing_log_start(Offset(start)))
    return log


def restarted(start: int) -> PartitionLog:
    log = open_log(MemoryDisk())
    append(log, "left behind")
    log.truncate_fully_and_start_at(Offset(start))
    return log


@pytest.mark.parametrize("leader_epoch", [1, 2])
@pytest.mark.parametrize("start", [3, 5, 7])
def test_a_log_that_began_above_what_an_unclean_leader_wrote_begins_again_below(start: int, leader_epoch: int) -> None:
    """The election in epoch 1 was unclean, and that in epoch 2 clean, or there was none yet."""
    log, leader = restarted(start), log_of(0, 0, 1, 1, 1, 1, 1, start=1)

    follow(log, leader, leader_epoch, high_watermark=start)

    assert read_all(log) == read_all(leader)


def test_a_log_that_was_cut_below_its_start_begins_again_at_that_of_its_leader() -> None:
    """Its leader deleted its first records; the next one, by an unclean election, has others there."""
    log, leader = log_of(0, 0, 2, 2, 2, start=3), log_of(0, 0, 0, 1, 3, 3)

    follow(log, leader, 3, high_watermark=5)

    assert read_all(log) == read_all(leader)


@pytest.mark.parametrize("reopens", [False, True])
def test_a_log_that_retention_emptied_is_known_by_its_last_deleted_record(*, reopens: bool) -> None:
    disk = MemoryDisk()
    log, leader = open_log(disk), log_of(0, 0, 1, 1, 1)
    log.append_as_follower(leader.read(Offset(0), 1 << 20, Offset(5)))
    sync(log)
    run_now(log.advancing_log_start(Offset(5)))
    if reopens:
        log.close()
        log = open_log(disk)
    run_now(leader.advancing_log_start(Offset(2)))
    append(leader, "5 of 1", epoch=1)
    sync(leader)

    done = follow(log, leader, 1, high_watermark=5)

    assert not any(isinstance(effect, TruncateTo | RestartAt) for effect in done)
    assert read_all(log) == ["5 of 1"]


def test_a_log_in_the_isr_keeps_its_start_under_a_leader_that_was_to_delete_as_much() -> None:
    """Begun anew at the earlier leader's log start, it joined the ISR; below its high watermark it must not go."""
    log, leader = restarted(3), log_of(0, 0, 0, 1)

    done = follow(log, leader, 1, high_watermark=3, empty_start_max=3)

    assert not any(isinstance(effect, TruncateTo | RestartAt) for effect in done)
    assert read_all(log) == ["3 of 1"]
