"""A replaced leader with an uncommitted transaction returns as a follower, after its successor deleted records.

The logs are real ones on disks in memory, and the follower is the real machine. The old leader's last batch ends where
the new leader's log starts, so no fetch ever asks for the offsets in which the two logs differ.
"""

from __future__ import annotations

import pytest

from kraft.log.change import run_now
from kraft.log.partition_log import PartitionLog
from kraft.model.ids import Offset
from kraft.replication import divergence
from kraft.replication.effects import RestartAt, TruncateTo
from tests.simulation.followed_log import follow
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.log.log_building import append, open_log, sync
from tests.support.log.transactional_log import send

PRODUCER = 7


def old_leader() -> PartitionLog:
    """Return a log of two committed records, and a transaction at offsets 2 to 4 that nobody else has."""
    log = open_log(MemoryDisk())
    append(log, "a", "b")
    send(log, PRODUCER, 0, "never", "committed", "anywhere")
    return log


def new_leader(log_start: int, *, was_restarted: bool = False) -> PartitionLog:
    """Return the log of the next leader, which wrote other records at these offsets and deleted some."""
    log = open_log(MemoryDisk())
    if was_restarted:
        log.truncate_fully_and_start_at(Offset(log_start))
    else:
        append(log, "a", "b")
        append(log, "c", "d", "e", epoch=1)
    for value in ("f", "g"):
        append(log, value, epoch=1)
    sync(log)
    run_now(log.advancing_log_start(Offset(log_start)))
    return log


def assert_has_no_transaction(log: PartitionLog) -> None:
    assert log.producers == {}
    assert log.transactions.last_stable_offset(log.log_end_offset) == log.log_end_offset


@pytest.mark.parametrize("log_start", [2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("was_restarted", [False, True])
def test_a_transaction_that_the_new_leader_never_had_is_dropped(log_start: int, *, was_restarted: bool) -> None:
    log = old_leader()
    leader = new_leader(log_start, was_restarted=was_restarted and log_start > 2)

    follow(log, leader, 1, high_watermark=2)

    assert_has_no_transaction(log)


@pytest.mark.parametrize("was_restarted", [False, True])
def test_a_longer_tail_of_the_old_leader_is_dropped_as_well(*, was_restarted: bool) -> None:
    log = old_leader()
    send(log, PRODUCER, 3, "and", "more")

    follow(log, new_leader(5, was_restarted=was_restarted), 1, high_watermark=2)

    assert_has_no_transaction(log)


def test_it_would_stay_open_if_the_leader_took_what_it_does_not_know_for_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(divergence, "_is_unknown_below_start", lambda log, epoch: False)
    log = old_leader()

    follow(log, new_leader(5, was_restarted=True), 1, high_watermark=2)

    assert log.transactions.last_stable_offset(log.log_end_offset) == 5


def test_a_follower_with_the_same_deleted_records_keeps_its_producers() -> None:
    """All records were deleted when the leader changed, as in a repartition topic of Kafka Streams."""
    leader, log = open_log(MemoryDisk()), open_log(MemoryDisk())
    for each in (leader, log):
        append(each, "a", "b")
        send(each, PRODUCER, 0, "c")
        sync(each)
    run_now(leader.advancing_log_start(Offset(3)))
    append(leader, "d", epoch=1)
    run_now(leader.advancing_log_start(Offset(3)))

    done = follow(log, leader, 1, high_watermark=3)

    assert not any(isinstance(effect, TruncateTo | RestartAt) for effect in done)
    assert list(log.producers) == [PRODUCER]


def test_no_log_ever_ends_below_the_log_start_of_its_leader() -> None:
    """If this replica led next, it would give offsets to its records that consumers know for deleted ones."""
    done = follow(old_leader(), new_leader(5), 1, high_watermark=2)

    assert [effect for effect in done if isinstance(effect, TruncateTo | RestartAt)] == [RestartAt(offset=Offset(5))]
