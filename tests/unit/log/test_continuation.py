from __future__ import annotations

import pytest

from kraft.log.change import run_now
from kraft.log.format.record_batch import build_batch, split
from kraft.log.format.record_codec import Record
from kraft.log.leader_epochs import EpochStart
from kraft.log.topic_config import TopicConfig
from kraft.model.errors import InvalidBatch
from kraft.model.ids import LeaderEpoch, Offset
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.log.log_building import (
    DIRECTORY,
    EPOCH,
    SMALL_SEGMENTS,
    append,
    open_log,
    read_all,
    stored,
    sync,
)


def test_a_follower_copies_the_leaders_bytes() -> None:
    leader, follower = open_log(MemoryDisk()), open_log(MemoryDisk())
    for epoch, value in ((0, "a"), (0, "b"), (2, "c"), (5, "d")):
        append(leader, value, epoch=epoch)
    records = leader.read(Offset(0), 1 << 20, Offset(4))
    assert follower.append_as_follower(records) == 3
    assert follower.read(Offset(0), 1 << 20, Offset(4)) == records
    assert follower.epoch_cache.entries == leader.epoch_cache.entries == (EpochStart(EPOCH, Offset(0)), (2, 2), (5, 3))


def test_a_follower_spreads_what_it_copies_over_segments() -> None:
    leader, disk = open_log(MemoryDisk()), MemoryDisk()
    for number in range(10):
        append(leader, f"value {number}")
    follower = open_log(disk, SMALL_SEGMENTS)
    follower.append_as_follower(leader.read(Offset(0), 1 << 20, Offset(10)))
    assert read_all(follower) == read_all(leader)
    logs = [name for name in disk.list(DIRECTORY) if name.endswith(".log")]
    assert len(logs) == 5
    segments = {name: disk.read_file(f"{DIRECTORY}/{name}") for name in logs}
    assert all(len(segment) <= 200 for segment in segments.values())
    assert logs == [f"{split(segment)[0][0].base_offset:020d}.log" for segment in segments.values()]


def test_a_follower_refuses_what_does_not_continue_its_log() -> None:
    leader, follower = open_log(MemoryDisk()), open_log(MemoryDisk())
    append(leader, "a", epoch=3)
    append(leader, "b", epoch=3)
    append(follower, "x", epoch=4)
    with pytest.raises(InvalidBatch, match="received offset 0, expected 1"):
        follower.append_as_follower(leader.read(Offset(0), 1 << 20, Offset(1)))
    with pytest.raises(InvalidBatch, match="received leader epoch 3 after 4"):
        follower.append_as_follower(leader.read(Offset(1), 1 << 20, Offset(2)))
    corrupt = bytearray(leader.read(Offset(1), 1 << 20, Offset(2)))
    corrupt[-2] ^= 1
    with pytest.raises(InvalidBatch, match="checksum"):
        follower.append_as_follower(corrupt)
    assert read_all(follower) == ["x"]


def test_a_follower_takes_the_holes_that_compaction_made_at_its_leader() -> None:
    disk = MemoryDisk()
    log = open_log(disk, TopicConfig(segment_bytes=200))
    for offset in (0, 5, 6, 40, 90):
        record = Record(0, 1_000, b"k", f"{offset}".encode())
        log.append_as_follower(build_batch([record], base_offset=offset, leader_epoch=0))
    for start, found in ((0, 0), (1, 5), (5, 5), (7, 40), (41, 90), (90, 90)):
        assert split(log.read(Offset(start), 1, Offset(91)))[0][0].base_offset == found
    sync(log)
    disk.crash()
    again = open_log(disk, log.config)
    assert (again.log_end_offset, again.log_start_offset) == (91, 0)


def test_an_empty_follower_that_begins_inside_its_leaders_batch_takes_all_of_it() -> None:
    disk = MemoryDisk()
    leader, follower = open_log(MemoryDisk()), open_log(disk)
    append(leader, "a", "b", "c")
    follower.truncate_fully_and_start_at(Offset(1))
    follower.append_as_follower(leader.read(Offset(1), 1 << 20, Offset(3)))
    sync(follower)
    disk.crash()
    for log in (follower, open_log(disk)):
        assert (log.log_start_offset, log.log_end_offset) == (1, 3)
        assert read_all(log) == ["b", "c"]


def test_an_empty_follower_takes_records_of_an_earlier_epoch_than_those_it_dropped() -> None:
    """An unclean election may cause this: the leader never had what this replica had committed and deleted."""
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "a", epoch=4)
    append(log, "b", epoch=5)
    run_now(log.advancing_log_start(Offset(2)))
    log.append_as_follower(stored("c", offset=2, epoch=4))
    sync(log)
    disk.crash()
    for found in (log, open_log(disk)):
        assert (found.log_start_offset, read_all(found)) == (2, ["c"])
        assert found.epoch_cache.entries == (EpochStart(LeaderEpoch(4), Offset(2)),)
