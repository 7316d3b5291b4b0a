from __future__ import annotations

import dataclasses
import struct

import pytest
from crc32c import crc32c

from kraft.log.change import run_now
from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.log.integrity.directory import FileFinding, VerifiedPartition, is_partition_directory, verify_partition
from kraft.log.leader_epochs import EpochStart, LeaderEpochCache
from kraft.log.partition_log import PartitionLog
from kraft.log.recovery.log_checkpoint import LogCheckpoint, read_checkpoint
from kraft.log.recovery.producer_snapshot import decode_snapshot, encode_snapshot
from kraft.log.topic_config import UNLIMITED, TopicConfig
from kraft.model.ids import LeaderEpoch, Offset
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.log.log_building import DIRECTORY, NOW_MS, batch_of, open_log, sync

SMALL = TopicConfig(segment_bytes=700, index_interval_bytes=100, retention_ms=UNLIMITED)
BATCHES = 16


def write(log: PartitionLog, numbers: range) -> None:
    sequence = 0
    for number in numbers:
        values = [f"value-{number}-{index}" for index in range(3)]
        if number % 4:
            batch = batch_of(*values, timestamp_ms=1_000 * number)
        else:
            records = [Record(0, 1_000 * number, b"key", value.encode()) for value in values]
            batch = build_batch(records, producer_id=7, producer_epoch=0, base_sequence=sequence)
            sequence += 3
        log.append_as_leader(batch, LeaderEpoch(number // 6), NOW_MS, run_now)


def written(batches: int = BATCHES) -> MemoryDisk:
    disk = MemoryDisk()
    log = open_log(disk, SMALL)
    write(log, range(batches))
    log.close()
    return disk


def verified(disk: MemoryDisk, *, was_closed: bool = False) -> VerifiedPartition:
    return verify_partition(disk, DIRECTORY, was_closed=was_closed)


def findings(disk: MemoryDisk) -> list[FileFinding]:
    return [finding._replace(file=finding.file.removeprefix(f"{DIRECTORY}/")) for finding in verified(disk).findings]


def change(disk: MemoryDisk, name: str, data: bytes) -> None:
    disk.write_file(f"{DIRECTORY}/{name}", data)


def content(disk: MemoryDisk, name: str) -> bytes:
    return disk.read_file(f"{DIRECTORY}/{name}")


def names(disk: MemoryDisk, suffix: str) -> list[str]:
    return [name for name in disk.list(DIRECTORY) if name.endswith(suffix)]


def flipped(data: bytes, bit: int) -> bytes:
    copy = bytearray(data)
    copy[bit // 8] ^= 1 << bit % 8
    return bytes(copy)


# --- what is well ----------------------------------------------------------------------------------------------------


def test_a_sound_log_is_counted_through() -> None:
    disk = written()
    found = verified(disk, was_closed=True)
    assert found.findings == ()
    assert (found.batches, found.records) == (BATCHES, 3 * BATCHES)
    assert (found.log_start_offset, found.log_end_offset) == (0, 3 * BATCHES)
    assert found.segments == len(names(disk, ".log")) >= 3
    assert found.size_bytes == sum(len(content(disk, name)) for name in names(disk, ".log"))


def test_an_empty_log_is_sound() -> None:
    assert verified(written(batches=0)).findings == ()


def test_a_directory_whose_creation_was_cut_short_has_nothing_to_verify() -> None:
    disk = MemoryDisk()
    change(disk, "partition.metadata", b"version: 0\n")
    found = verified(disk)
    assert (found.findings, found.segments, found.log_end_offset) == ((), 0, 0)


def test_a_log_that_is_being_written_is_sound() -> None:
    disk = MemoryDisk()
    log = open_log(disk, SMALL)
    for number in range(BATCHES):
        write(log, range(number, number + 1))
        assert not any(not finding.is_note for finding in verified(disk).findings)
        if number % 5 == 0:
            sync(log)
    log.close()


def test_a_log_whose_start_was_moved_is_sound() -> None:
    disk = MemoryDisk()
    log = open_log(disk, SMALL)
    write(log, range(BATCHES))
    run_now(log.advancing_log_start(Offset(20)))
    for path in run_now(log.applying_retention(NOW_MS, log.log_end_offset)):
        disk.remove(path)
    log.close()
    found = verified(disk, was_closed=True)
    assert (found.findings, found.log_start_offset) == ((), 20)


def test_a_truncated_log_is_sound() -> None:
    disk = MemoryDisk()
    log = open_log(disk, SMALL)
    write(log, range(BATCHES))
    log.truncate_to(Offset(25))
    log.close()
    found = verified(disk, was_closed=True)
    assert (found.findings, found.log_end_offset) == ((), 24)


def test_a_directory_of_a_partition_is_known_by_its_files() -> None:
    assert is_partition_directory(written().list(DIRECTORY))
    assert not is_partition_directory(["meta.properties", "orders-0"])


# --- what is not -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".snapshot", "-checkpoint"])
def test_a_flipped_bit_is_found_in_whatever_file_it_is(suffix: str) -> None:
    disk = written()
    tried = 0
    for name in names(disk, suffix):
        sound = content(disk, name)
        # Thirteen has no factor in common with eight: every bit of a byte gets its turn.
        for bit in range(0, 8 * len(sound), 13):
            change(disk, name, flipped(sound, bit))
            found = verified(disk, was_closed=True)
            assert any(not finding.is_note for finding in found.findings), f"bit {bit} of {name}"
            tried += 1
        change(disk, name, sound)
    assert tried > 20
    assert verified(disk, was_closed=True).findings == ()


def test_an_end_that_is_no_whole_batch_is_a_note_unless_the_log_was_closed() -> None:
    disk = written()
    name = names(disk, ".log")[-1]
    sound = content(disk, name)
    change(disk, name, sound + batch_of("torn")[:-3])
    (finding,) = findings(disk)
    assert (finding.file, finding.position, finding.is_note) == (name, len(sound), True)
    assert "not a whole batch" in finding.reason
    (fault,) = verified(disk, was_closed=True).findings[:1]
    assert not fault.is_note


def test_a_batch_that_is_finished_while_it_is_read_is_sound() -> None:
    disk = written()
    name = names(disk, ".log")[-1]
    sound = content(disk, name)
    late = bytearray(batch_of("late"))
    struct.pack_into(">q", late, 0, 3 * BATCHES)
    change(disk, name, sound + late[:-4])
    reads = 0

    def finish_it(_: int) -> None:
        nonlocal reads
        reads += 1
        if reads == len(names(disk, ".log")):
            # By now the size of the last file was taken.
            disk.open(f"{DIRECTORY}/{name}", create=False).append([late[-4:]])

    found = verify_partition(disk, DIRECTORY, read_bytes=finish_it)
    assert reads == len(names(disk, ".log"))
    assert found.findings == ()


def test_a_sector_that_was_lost_with_the_power_is_a_note() -> None:
    disk = written()
    name = names(disk, ".log")[-1]
    sound = content(disk, name)
    lost = bytearray(batch_of("x" * 3_000) + batch_of("whole"))
    struct.pack_into(">q", lost, len(lost) - len(batch_of("whole")), 3 * BATCHES + 1)
    lost[600:2_000] = bytes(1_400)
    struct.pack_into(">q", lost, 0, 3 * BATCHES)
    change(disk, name, sound + lost)
    (finding,) = findings(disk)
    assert (finding.position, finding.is_note) == (len(sound), True)


def test_a_broken_end_below_the_recovery_point_is_a_fault() -> None:
    disk = written()
    name = names(disk, ".log")[-1]
    change(disk, name, content(disk, name)[:-3])
    found = [finding for finding in findings(disk) if finding.file == name]
    assert found
    assert not any(finding.is_note for finding in found)


def test_records_that_were_durable_and_are_gone_are_missed() -> None:
    disk = written()
    name = names(disk, ".log")[-1]
    # The file ends with a whole batch, so nothing in it looks wrong.
    change(disk, name, b"")
    for index in (*names(disk, ".index")[-1:], *names(disk, ".timeindex")[-1:]):
        change(disk, index, b"")
    (finding,) = [finding for finding in findings(disk) if not finding.is_note]
    assert finding.file == "log-checkpoint"
    assert "everything was durable up to offset 48, but the log ends at" in finding.reason


def test_a_segment_that_is_gone_is_missed() -> None:
    disk = written()
    first, second = names(disk, ".log")[:2]
    for suffix in (".log", ".index", ".timeindex"):
        disk.remove(f"{DIRECTORY}/{second.removesuffix('.log')}{suffix}")
    assert any(finding.file == first and "the next segment begins at" in finding.reason for finding in findings(disk))


def test_a_first_segment_that_is_gone_is_missed() -> None:
    disk = written()
    first, second = names(disk, ".log")[:2]
    for suffix in (".log", ".index", ".timeindex"):
        disk.remove(f"{DIRECTORY}/{first.removesuffix('.log')}{suffix}")
    found = [finding for finding in findings(disk) if not finding.is_note]
    assert found[0] == FileFinding(second, 0, "the log starts at offset 0, but its first segment is missing")


def test_a_segment_of_a_compacted_log_that_is_gone_is_missed() -> None:
    disk = written()
    first, second = names(disk, ".log")[:2]
    bases = tuple(Offset(int(name.removesuffix(".log"))) for name in (first, second))
    checkpoint = dataclasses.replace(read_checkpoint(disk, DIRECTORY), is_sparse=True, segments=bases)
    change(disk, "log-checkpoint", checkpoint.encode())
    assert findings(disk) == []
    for suffix in (".log", ".index", ".timeindex"):
        disk.remove(f"{DIRECTORY}/{second.removesuffix('.log')}{suffix}")
    assert findings(disk)[0] == FileFinding(second, 0, "the segment is missing")


def test_a_log_whose_segments_are_all_gone_is_missed() -> None:
    disk = written()
    for name in names(disk, ".log"):
        disk.remove(f"{DIRECTORY}/{name}")
    found = [finding for finding in findings(disk) if not finding.is_note]
    assert found == [FileFinding("log-checkpoint", 0, "no segment is left, but everything below offset 48 was durable")]


def test_a_fault_says_where_the_next_whole_batch_begins() -> None:
    disk = written()
    name = names(disk, ".log")[0]
    data = bytearray(content(disk, name))
    (length,) = struct.unpack_from(">i", data, 8)
    struct.pack_into(">i", data, 8, 0x7FFFFFF0)
    change(disk, name, bytes(data))
    reasons = [finding.reason for finding in findings(disk) if finding.file == name]
    assert any(f"not read from here on; a whole batch follows at byte {12 + length}" in reason for reason in reasons)


def test_an_index_entry_for_no_batch_is_a_fault() -> None:
    disk = written()
    name = names(disk, ".index")[0]
    entries = bytearray(content(disk, name))
    (position,) = struct.unpack_from(">I", entries, 4)
    struct.pack_into(">I", entries, 4, position + 1)
    change(disk, name, bytes(entries))
    (finding,) = findings(disk)
    assert (finding.file, finding.position) == (name, 0)
    assert finding.reason.endswith(f"at byte {position + 1}, where no batch begins")


def test_a_missing_index_is_a_note() -> None:
    disk = written()
    name = names(disk, ".index")[0]
    disk.remove(f"{DIRECTORY}/{name}")
    assert findings(disk) == [FileFinding(name, 0, "the file is missing; opening the log rebuilds it", is_note=True)]


def test_epochs_that_contradict_the_log_are_a_fault() -> None:
    disk = written()
    cache = LeaderEpochCache((EpochStart(LeaderEpoch(0), Offset(0)), EpochStart(LeaderEpoch(2), Offset(12))))
    change(disk, "leader-epoch-checkpoint", cache.encode())
    first = findings(disk)[0]
    assert not first.is_note
    assert first.reason == "the batch at offset 12 has leader epoch 0, leader-epoch-checkpoint has 2"


def test_epochs_that_are_behind_the_log_are_a_note() -> None:
    disk = written()
    change(disk, "leader-epoch-checkpoint", LeaderEpochCache((EpochStart(LeaderEpoch(0), Offset(0)),)).encode())
    (finding,) = findings(disk)
    assert (finding.file, finding.is_note) == ("leader-epoch-checkpoint", True)
    assert finding.reason == "leader epoch 1, in the log from offset 18 on, is missing"


def test_a_snapshot_of_batches_that_the_log_does_not_hold_is_a_fault() -> None:
    disk = written()
    name = names(disk, ".snapshot")[-1]
    path = f"{DIRECTORY}/{name}"
    states = decode_snapshot(disk.read_file(path), path)
    change(disk, name, encode_snapshot({8: states[7]}))
    (finding,) = findings(disk)
    assert (finding.file, finding.is_note) == (name, False)
    assert "producer 8 wrote epoch 0 up to offset" in finding.reason
    assert finding.reason.endswith("the log has nothing")


def test_a_hole_is_a_fault_unless_the_log_was_compacted() -> None:
    disk = MemoryDisk()
    data = b"".join(build_batch([Record(0, 5, None, b"v")], base_offset=at, leader_epoch=0) for at in (0, 1, 7))
    change(disk, "00000000000000000000.log", data)
    (finding,) = findings(disk)
    assert "a batch has base offset 7, expected 2" in finding.reason
    change(disk, "log-checkpoint", LogCheckpoint(is_sparse=True).encode())
    assert findings(disk) == []


def test_a_name_that_is_no_offset_is_a_fault() -> None:
    disk = written()
    change(disk, "notes.log", b"")
    assert findings(disk) == [FileFinding("notes.log", 0, "the name is not a base offset")]


def test_a_compaction_that_was_interrupted_is_a_note() -> None:
    disk = written()
    change(disk, "00000000000000000000.00000000000000000009.swap", b"")
    (finding,) = findings(disk)
    assert finding.is_note


def test_records_are_decoded_unless_that_is_not_wanted() -> None:
    disk = written(batches=0)
    bad = bytearray(batch_of("a", "b"))
    bad[61] = 0x7F
    struct.pack_into(">iiB", bad, 8, len(bad) - 12, 0, 2)
    struct.pack_into(">I", bad, 17, crc32c(bytes(bad[21:])))
    change(disk, "00000000000000000000.log", bytes(bad))
    assert any("cannot be read" in finding.reason for finding in findings(disk))
    shallow = verify_partition(disk, DIRECTORY, decode_records=False).findings
    assert not any("cannot be read" in finding.reason for finding in shallow)
