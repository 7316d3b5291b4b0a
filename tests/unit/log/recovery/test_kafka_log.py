"""Logs that Kafka wrote: their segments and epochs are those of Kafka's format, and there is no `log-checkpoint`."""

from __future__ import annotations

import pytest

from kraft.log.change import run_now
from kraft.log.integrity.directory import verify_partition
from kraft.log.leader_epochs import CHECKPOINT_NAME as EPOCHS
from kraft.log.leader_epochs import LeaderEpochCache, has_checksum
from kraft.log.recovery.log_checkpoint import CHECKPOINT_NAME, EARLIER_SUFFIX, read_checkpoint
from kraft.log.topic_config import TopicConfig
from kraft.model.errors import Corruption
from kraft.model.ids import Offset
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.log.log_building import DIRECTORY, SMALL_SEGMENTS, append, open_log, read_all, read_records, stored

EPOCHS_PATH = f"{DIRECTORY}/{EPOCHS}"


def kafkas(disk: MemoryDisk, *, first: int, epochs: bytes, config: TopicConfig = SMALL_SEGMENTS) -> list[str]:
    """Turn the log into Kafka's, without the segments before that number; return what its records are."""
    log = open_log(disk, config)
    for number in range(12):
        append(log, f"value {number}", epoch=number // 6)
    base_offsets = [segment.base_offset for segment in log.segments()]
    log.close()
    for base_offset in base_offsets[:first]:
        for suffix in (".log", ".index", ".timeindex"):
            disk.remove(f"{DIRECTORY}/{base_offset:020d}{suffix}")
    for name in (CHECKPOINT_NAME, CHECKPOINT_NAME + EARLIER_SUFFIX):
        if disk.exists(f"{DIRECTORY}/{name}"):
            disk.remove(f"{DIRECTORY}/{name}")
    disk.write_file(EPOCHS_PATH, epochs)
    return [f"value {number}" for number in range(base_offsets[first], 12)]


def faults(disk: MemoryDisk) -> list[str]:
    return [finding.reason for finding in verify_partition(disk, DIRECTORY).findings if not finding.is_note]


def test_a_log_that_begins_above_0_opens_and_is_kept() -> None:
    disk = MemoryDisk()
    kept = kafkas(disk, first=2, epochs=b"0\n2\n0 4\n1 6\n")
    assert kept[0] == "value 4"
    assert faults(disk) == []
    log = open_log(disk)
    assert (log.log_start_offset, read_all(log)) == (4, kept)
    append(log, "next", epoch=2)
    log.release()
    assert has_checksum(disk.read_file(EPOCHS_PATH))
    again = open_log(disk, SMALL_SEGMENTS)
    assert (again.log_start_offset, read_all(again)) == (4, [*kept, "next"])


def test_records_that_kafka_had_deleted_from_the_first_segment_stay_deleted() -> None:
    disk = MemoryDisk()
    kept = kafkas(disk, first=2, epochs=b"0\n2\n0 5\n1 6\n")
    log = open_log(disk, SMALL_SEGMENTS)
    assert (log.log_start_offset, read_all(log)) == (5, kept[1:])


@pytest.mark.parametrize("epochs", [b"0\n1\n1 6\n", b"0\n2\n0 2\n1 6\n"])
def test_a_first_epoch_that_begins_behind_the_first_segment_deletes_nothing(epochs: bytes) -> None:
    """Kafka has lost its earlier epochs, as in KAFKA-7959, and went on with the next one or with a later segment."""
    disk = MemoryDisk()
    kept = kafkas(disk, first=0, epochs=epochs)
    files = [name for name in disk.list(DIRECTORY) if name.endswith(".log")]
    assert faults(disk) == []
    for _ in range(2):
        log = open_log(disk, SMALL_SEGMENTS)
        assert (log.log_start_offset, read_all(log)) == (0, kept)
        log.close()
    assert [name for name in disk.list(DIRECTORY) if name.endswith(".log")] == files


@pytest.mark.parametrize("start", [6, 8])
def test_a_first_epoch_inside_the_first_segment_deletes_what_is_of_the_same_epoch(start: int) -> None:
    """Kafka moves the epoch of the first record that it keeps; one that begins there may follow lost epochs."""
    disk = MemoryDisk()
    values = kafkas(disk, first=0, epochs=b"0\n1\n1 %d\n" % start, config=TopicConfig())
    assert faults(disk) == []
    log = open_log(disk)
    expected = 0 if start == 6 else 8
    assert (log.log_start_offset, read_all(log)) == (expected, values[expected:])


@pytest.mark.parametrize("suffix", ["", EARLIER_SUFFIX])
def test_a_log_is_taken_for_kafkas_only_once(suffix: str) -> None:
    """Either checkpoint shows that it was: the epochs stay as Kafka wrote them until the next one begins."""
    disk = MemoryDisk()
    kept = kafkas(disk, first=2, epochs=b"0\n2\n0 4\n1 6\n")
    epochs = disk.read_file(EPOCHS_PATH)
    log = open_log(disk, SMALL_SEGMENTS)
    run_now(log.advancing_log_start(Offset(7)))
    log.close()
    disk.write_file(EPOCHS_PATH, epochs)
    disk.remove(f"{DIRECTORY}/{CHECKPOINT_NAME}{suffix}")
    log = open_log(disk, SMALL_SEGMENTS)
    assert (log.log_start_offset, read_all(log)) == (7, kept[3:])


def test_an_adopted_log_has_both_checkpoints_at_once() -> None:
    disk = MemoryDisk()
    kafkas(disk, first=2, epochs=b"0\n2\n0 5\n1 6\n")
    open_log(disk, SMALL_SEGMENTS).release()
    disk.write_file(f"{DIRECTORY}/{CHECKPOINT_NAME}", b"damaged")
    assert read_checkpoint(disk, DIRECTORY).log_start_offset == 5


def test_a_compacted_log_opens() -> None:
    disk = MemoryDisk()
    log = open_log(disk, SMALL_SEGMENTS)
    for number in range(6):
        log.append_as_follower(stored(f"value {number}", offset=100 + 10 * number, epoch=3))
    log.close()
    for name in (CHECKPOINT_NAME, CHECKPOINT_NAME + EARLIER_SUFFIX):
        disk.remove(f"{DIRECTORY}/{name}")
    disk.write_file(EPOCHS_PATH, b"0\n1\n3 100\n")
    found = read_records(open_log(disk, SMALL_SEGMENTS))
    assert [record.offset for record in found] == [100, 110, 120, 130, 140, 150]


def test_a_log_whose_first_segments_are_missing_is_refused() -> None:
    disk = MemoryDisk()
    kafkas(disk, first=2, epochs=b"0\n2\n0 0\n1 6\n")
    reason = "the log starts at offset 0, but its first segment is missing"
    with pytest.raises(Corruption, match=reason):
        open_log(disk, SMALL_SEGMENTS)
    assert reason in faults(disk)


def test_a_log_of_kraft_that_lost_its_checkpoints_and_its_front_is_not_taken_for_kafkas() -> None:
    disk = MemoryDisk()
    kafkas(disk, first=2, epochs=LeaderEpochCache.decode(b"0\n2\n0 4\n1 6\n", EPOCHS).encode())
    with pytest.raises(Corruption, match="its first segment is missing"):
        open_log(disk, SMALL_SEGMENTS)
