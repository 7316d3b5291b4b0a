from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from kraft.log import group_commit
from kraft.log.change import run_now
from kraft.log.format.record_batch import build_batch, split
from kraft.log.format.record_codec import Record
from kraft.log.leader_epochs import CHECKPOINT_NAME
from kraft.log.partition_log import PartitionLog
from kraft.log.recovery.log_checkpoint import CHECKPOINT_NAME as LOG_CHECKPOINT_NAME
from kraft.log.recovery.log_checkpoint import EARLIER_SUFFIX, read_checkpoint, write_checkpoint
from kraft.log.topic_config import TopicConfig
from kraft.model.errors import Corruption, ErrorCode, Refusal
from kraft.model.ids import LeaderEpoch, Offset
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.log.log_building import DIRECTORY, NOW_MS, append, newest, open_log, read_all, stored, sync

SMALL_SEGMENTS = TopicConfig(segment_bytes=400, index_interval_bytes=100)
FIRST_LOG = f"{DIRECTORY}/{0:020d}.log"


def log_files(disk: MemoryDisk) -> list[str]:
    return [f"{DIRECTORY}/{name}" for name in disk.list(DIRECTORY) if name.endswith(".log")]


def disk_with(count: int, config: TopicConfig | None = None) -> MemoryDisk:
    disk = MemoryDisk()
    log = open_log(disk, config)
    for number in range(count):
        append(log, f"value {number}", epoch=number // 5)
    log.close()
    return disk


def killed_disk_with(count: int, config: TopicConfig | None = None) -> MemoryDisk:
    """The disk after a killed process: nothing was closed, and the last segment may be in the page cache only."""
    disk = MemoryDisk()
    log = open_log(disk, config)
    for number in range(count):
        append(log, f"value {number}", epoch=number // 5)
    return disk


def values(count: int) -> list[str]:
    return [f"value {number}" for number in range(count)]


def test_a_new_directory_is_an_empty_log() -> None:
    log = open_log(MemoryDisk())
    assert (log.log_start_offset, log.log_end_offset, log.latest_epoch) == (0, 0, -1)
    assert log.recovery_report.segments == 0


@pytest.mark.parametrize("clean_shutdown", [True, False])
def test_everything_is_there_after_a_stop(clean_shutdown: bool) -> None:
    disk = disk_with(20, SMALL_SEGMENTS)
    log = open_log(disk, SMALL_SEGMENTS, clean_shutdown)
    assert read_all(log) == values(20)
    assert log.epoch_cache.entries == ((0, 0), (1, 5), (2, 10), (3, 15))
    assert log.recovery_report.segments == len(log_files(disk)) > 3
    assert log.recovery_report.batches_checked == 0, "all of it was known to be durable"
    assert log.recovery_report.torn_at is None
    append(log, "more", epoch=9)
    assert read_all(log)[-1] == "more"


def test_after_a_kill_the_last_segment_is_checked_whole() -> None:
    disk = killed_disk_with(20, SMALL_SEGMENTS)
    log = open_log(disk, SMALL_SEGMENTS)
    assert read_all(log) == values(20)
    last = open_log(disk, SMALL_SEGMENTS).segments()[-1]
    assert log.recovery_report.batches_checked == 20 - last.base_offset > 0


def test_what_was_durable_is_not_read_again_after_a_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "CHECKPOINT_INTERVAL_BYTES", 300)
    disk = MemoryDisk()
    log = open_log(disk)
    for number in range(20):
        append(log, f"value {number}", epoch=number // 5)
        sync(log)
    append(log, "value 20", epoch=4)
    disk.crash(kept_bytes=1000)
    again = open_log(disk)
    assert read_all(again) == values(21)
    assert 0 < again.recovery_report.batches_checked < 5
    assert again.epoch_cache.entries == ((0, 0), (1, 5), (2, 10), (3, 15), (4, 20))
    assert newest(again) == newest(log)


def test_a_log_that_lost_what_was_durable_is_refused() -> None:
    disk = disk_with(4)
    disk.write_file(FIRST_LOG, disk.read_file(FIRST_LOG)[:-1])
    with pytest.raises(Corruption, match="it was durable, so this is corruption"):
        open_log(disk)


@pytest.mark.parametrize("clean_shutdown", [True, False])
def test_a_log_that_lost_whole_durable_batches_at_its_end_is_refused(clean_shutdown: bool) -> None:
    disk = disk_with(4)
    *kept, _ = split(disk.read_file(FIRST_LOG))
    disk.write_file(FIRST_LOG, b"".join(bytes(batch) for _, batch in kept))
    with pytest.raises(Corruption, match="the log ends at offset 3, but everything below 4 was durable"):
        open_log(disk, clean_shutdown=clean_shutdown)


def test_nothing_is_torn_after_a_clean_shutdown() -> None:
    disk = disk_with(4)
    disk.write_file(FIRST_LOG, disk.read_file(FIRST_LOG) + b"more")
    with pytest.raises(Corruption, match="closed cleanly"):
        open_log(disk, clean_shutdown=True)
    assert open_log(disk).recovery_report.torn_bytes == 4


def test_a_lost_sector_in_the_middle_of_what_was_not_synced_is_torn() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "synced")
    sync(log)
    for number in range(4):
        append(log, f"{number}" * 700)
    data = bytearray(disk.read_file(FIRST_LOG))
    data[1024:1536] = bytes(512)
    disk.write_file(FIRST_LOG, bytes(data))
    assert read_all(open_log(disk)) == ["synced", "0" * 700]


def test_a_tail_torn_at_any_byte_is_cut_off() -> None:
    whole = killed_disk_with(4).read_file(FIRST_LOG)
    batches = [bytes(batch) for _, batch in split(whole)]
    kept = sum(map(len, batches[:3]))
    for size in range(kept + 1, len(whole)):
        disk = killed_disk_with(4)
        disk.write_file(FIRST_LOG, whole[:size])
        log = open_log(disk)
        report = log.recovery_report
        assert (report.torn_at, report.torn_bytes, report.torn_file) == (3, size - kept, FIRST_LOG)
        assert read_all(log) == values(3)
        append(log, "instead", epoch=7)
        log.close()
        assert read_all(open_log(disk)) == [*values(3), "instead"]


def test_a_tail_of_zeros_or_noise_is_cut_off() -> None:
    noise = random.Random(7).randbytes(300_000)
    for tail in (bytes(5000), b"\x02" * 500, noise):
        disk = killed_disk_with(4)
        disk.write_file(FIRST_LOG, disk.read_file(FIRST_LOG) + tail)
        log = open_log(disk)
        assert log.recovery_report.torn_bytes == len(tail)
        assert read_all(log) == values(4)


def test_every_flipped_bit_before_the_last_batch_is_corruption() -> None:
    whole = disk_with(3).read_file(FIRST_LOG)
    size = split(whole)[0][0].size_bytes
    for bit in range(2 * size * 8):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        disk = MemoryDisk()
        disk.write_file(FIRST_LOG, bytes(flipped))
        # The leader epoch lies outside the checksum, but the epoch of the batch behind gives a change of it away.
        with pytest.raises(Corruption) as corruption:
            open_log(disk)
        assert corruption.value.position in (0, size, 2 * size)


def test_corruption_in_an_earlier_segment_is_found_when_it_is_read_and_nothing_is_cut() -> None:
    disk = killed_disk_with(20, SMALL_SEGMENTS)
    path = log_files(disk)[1]
    damaged = bytearray(disk.read_file(path))
    damaged[-3] ^= 1
    disk.write_file(path, bytes(damaged))
    # It was synced before the next segment was begun, so that opening takes it on trust.
    log = open_log(disk, SMALL_SEGMENTS)
    assert log.log_end_offset == 20
    with pytest.raises(Corruption, match="checksum"):
        read_all(log)
    assert disk.read_file(path) == damaged


def test_an_earlier_segment_that_is_cut_short_is_refused() -> None:
    disk = disk_with(20, SMALL_SEGMENTS)
    path = log_files(disk)[1]
    disk.write_file(path, disk.read_file(path)[:-10])
    with pytest.raises(Corruption, match="beyond the end of the file"):
        open_log(disk, SMALL_SEGMENTS, clean_shutdown=True)


def test_a_missing_segment_is_refused() -> None:
    disk = disk_with(20, SMALL_SEGMENTS)
    disk.remove(log_files(disk)[1])
    with pytest.raises(Corruption, match="the previous segment ends at offset"):
        open_log(disk, SMALL_SEGMENTS)


def test_a_foreign_log_file_is_refused() -> None:
    disk = disk_with(2)
    disk.write_file(f"{DIRECTORY}/notes.log", b"")
    with pytest.raises(Corruption, match="not a base offset"):
        open_log(disk)


def test_batches_that_do_not_continue_each_other_are_refused() -> None:
    whole = disk_with(3).read_file(FIRST_LOG)
    batches = [bytes(batch) for _, batch in split(whole)]
    for order in ([0, 2], [0, 0], [1, 2]):
        disk = MemoryDisk()
        disk.write_file(FIRST_LOG, b"".join(batches[index] for index in order))
        with pytest.raises(Corruption, match=r"has base offset \d, expected \d"):
            open_log(disk)


def test_an_epoch_that_goes_down_is_refused() -> None:
    batches = [
        build_batch([Record(0, 0, None, None)], base_offset=offset, leader_epoch=epoch)
        for offset, epoch in ((0, 5), (1, 4))
    ]
    disk = MemoryDisk()
    disk.write_file(FIRST_LOG, b"".join(batches))
    with pytest.raises(Corruption, match="leader epoch 4 follows 5"):
        open_log(disk)


@pytest.mark.parametrize("damage", [None, b"", b"\xff" * 8, b"\xff" * 7, bytes(64)])
def test_indexes_are_rebuilt_when_missing_or_wrong(damage: bytes | None) -> None:
    disk = disk_with(20, SMALL_SEGMENTS)
    paths = [path.replace(".log", suffix) for path in log_files(disk)[:-1] for suffix in (".index", ".timeindex")]
    before = [disk.read_file(path) for path in paths]
    assert all(before)
    for path in paths:
        if damage is None:
            disk.remove(path)
        else:
            disk.write_file(path, damage)
    log = open_log(disk, SMALL_SEGMENTS, clean_shutdown=True)
    assert log.recovery_report.indexes_rebuilt == len(paths) // 2
    assert [disk.read_file(path) for path in paths] == before
    assert read_all(log) == values(20)


def test_an_index_spoilt_while_the_log_is_open_costs_time_and_nothing_else() -> None:
    disk = disk_with(20, SMALL_SEGMENTS)
    log = open_log(disk, SMALL_SEGMENTS)
    for path in log_files(disk):
        disk.write_file(path.replace(".log", ".index"), b"spoilt")
    assert read_all(log) == values(20)


def test_files_that_a_crash_left_behind_are_removed() -> None:
    disk = disk_with(2)
    before = disk.list(DIRECTORY)
    for name in ("leader-epoch-checkpoint.tmp", f"{99:020d}.index", f"{99:020d}.timeindex", f"{0:020d}.log.deleted"):
        disk.write_file(f"{DIRECTORY}/{name}", b"left behind")
    open_log(disk)
    assert disk.list(DIRECTORY) == before


def test_a_stale_checkpoint_does_not_outweigh_the_log() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "a", epoch=1)
    disk.write_file(f"{DIRECTORY}/{CHECKPOINT_NAME}", b"0\n2\n1 0\n3 40\n")
    log.close()
    disk.write_file(f"{DIRECTORY}/{CHECKPOINT_NAME}", b"0\n2\n1 0\n3 40\n")
    assert open_log(disk).epoch_cache.entries == ((1, 0),)


def test_producers_are_known_again_after_a_restart() -> None:
    disk = MemoryDisk()
    log = open_log(disk, SMALL_SEGMENTS)
    batches = [
        build_batch([Record(0, 0, None, b"v")], producer_id=9, producer_epoch=0, base_sequence=sequence)
        for sequence in range(8)
    ]
    for batch in batches:
        log.append_as_leader(batch, LeaderEpoch(0), NOW_MS, run_now)
    log.close()
    log = open_log(disk, SMALL_SEGMENTS)
    assert log.append_as_leader(batches[7], LeaderEpoch(0), NOW_MS, run_now).duplicate
    assert log.append_as_leader(batches[3], LeaderEpoch(0), NOW_MS, run_now).base_offset == 3


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed in order", "killed"])
def test_a_producer_whose_records_retention_has_dropped_is_known_after_a_restart(is_closed: bool) -> None:
    disk = MemoryDisk()
    config = replace(SMALL_SEGMENTS, retention_ms=1_000)
    log = open_log(disk, config)
    batches = [
        build_batch([Record(0, 0, None, b"v")], producer_id=9, producer_epoch=0, base_sequence=sequence)
        for sequence in range(7)
    ]
    for batch in batches:
        log.append_as_leader(batch, LeaderEpoch(0), NOW_MS, run_now)
    run_now(log.applying_retention(10_000, log.log_end_offset))
    assert log.log_start_offset == log.log_end_offset == 7, "none of its records is left"
    if is_closed:
        log.close()
    log = open_log(disk, config)
    assert log.append_as_leader(batches[6], LeaderEpoch(0), NOW_MS, run_now).duplicate
    assert log.append_as_leader(batches[2], LeaderEpoch(0), NOW_MS, run_now).base_offset == 2
    with pytest.raises(Refusal) as refusal:
        log.append_as_leader(batches[1], LeaderEpoch(0), NOW_MS, run_now)
    assert refusal.value.error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("kept_bytes", [0, 1, 40, 75, 100, 10_000])
def test_a_power_failure_keeps_everything_synced_and_a_prefix_of_the_rest(kept_bytes: int) -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    for number in range(3):
        append(log, f"value {number}")
    sync(log)
    for number in range(3, 6):
        append(log, f"value {number}")
    disk.crash(kept_bytes)
    found = read_all(open_log(disk))
    assert 3 <= len(found) <= 6
    assert found == values(len(found))


def test_what_a_killed_process_left_in_the_page_cache_is_synced_before_it_counts() -> None:
    disk = MemoryDisk()
    append(open_log(disk), "a")
    # The process is killed: its bytes are with the kernel still, and the next process finds them.
    assert open_log(disk).synced_end_offset == 1
    disk.crash()
    assert read_all(open_log(disk)) == ["a"]


def test_a_crash_between_the_removals_of_a_truncation_leaves_a_log_without_a_hole() -> None:
    disk = disk_with(20, SMALL_SEGMENTS)
    log = open_log(disk, SMALL_SEGMENTS)
    removals = 0
    plain_rename = disk.rename

    def crash_at_the_second(source: str, target: str) -> None:
        nonlocal removals
        removals += target.endswith(".log.deleted")
        if removals == 2:
            raise KeyboardInterrupt
        plain_rename(source, target)

    disk.rename = crash_at_the_second  # type: ignore[method-assign]  # The crash is injected into this one disk.
    with pytest.raises(KeyboardInterrupt):
        log.truncate_to(Offset(2))
    disk.rename = plain_rename  # type: ignore[method-assign]  # The same.
    disk.crash()
    found = read_all(open_log(disk, SMALL_SEGMENTS))
    assert 2 <= len(found) < 20
    assert found == values(len(found))


# --- segments that are gone ----------------------------------------------------------------------------------


@pytest.mark.parametrize("clean_shutdown", [True, False])
@pytest.mark.parametrize("is_sparse", [True, False])
def test_a_missing_front_of_a_log_is_corruption(is_sparse: bool, clean_shutdown: bool) -> None:
    disk = disk_with(20, SMALL_SEGMENTS)
    if is_sparse:
        write_checkpoint(disk, DIRECTORY, dataclasses.replace(read_checkpoint(disk, DIRECTORY), is_sparse=True))
    disk.remove(log_files(disk)[0])
    second = log_files(disk)[0]
    with pytest.raises(Corruption, match="the log starts at offset 0, but its first segment is missing") as raised:
        open_log(disk, SMALL_SEGMENTS, clean_shutdown)
    assert (raised.value.file, log_files(disk)[0]) == (second, second), "nothing is removed"


def sparse_log(disk: MemoryDisk) -> PartitionLog:
    """A log with a hole between two offsets in each segment, as a follower of a compacted leader has them."""
    log = open_log(disk, SMALL_SEGMENTS)
    for number in range(12):
        log.append_as_follower(stored(f"value {number}", offset=10 * number, epoch=0))
    log.close()
    return log


@pytest.mark.parametrize("clean_shutdown", [True, False])
@pytest.mark.parametrize("number", [1, 2, -1])
def test_a_missing_segment_of_a_sparse_log_is_corruption(number: int, *, clean_shutdown: bool) -> None:
    disk = MemoryDisk()
    sparse_log(disk)
    open_log(disk, SMALL_SEGMENTS, clean_shutdown).close()
    missing = log_files(disk)[number]
    disk.remove(missing)
    with pytest.raises(Corruption, match="the segment is missing") as raised:
        open_log(disk, SMALL_SEGMENTS, clean_shutdown)
    assert raised.value.file == missing


def test_a_sparse_log_whose_checkpoint_names_no_segments_opens_and_names_them() -> None:
    disk = MemoryDisk()
    sparse_log(disk)
    write_checkpoint(disk, DIRECTORY, dataclasses.replace(read_checkpoint(disk, DIRECTORY), segments=()))
    log = open_log(disk, SMALL_SEGMENTS)
    base_offsets = tuple(each.base_offset for each in log.segments())
    log.close()
    assert read_checkpoint(disk, DIRECTORY).segments == base_offsets


def test_segments_that_retention_deletes_or_a_truncation_drops_are_not_missed() -> None:
    disk = MemoryDisk()
    sparse_log(disk)
    log = open_log(disk, replace(SMALL_SEGMENTS, retention_bytes=800))
    run_now(log.advancing_log_start(Offset(log.segments()[2].base_offset + 1)))
    run_now(log.applying_retention(NOW_MS, Offset(111)))
    log.truncate_to(Offset(61))
    for _ in range(2):
        disk.crash()
        log = open_log(disk, SMALL_SEGMENTS)
    assert log.log_end_offset <= 61


@pytest.mark.parametrize("clean_shutdown", [True, False])
def test_a_log_that_lost_all_its_segments_is_corrupt(clean_shutdown: bool) -> None:
    disk = disk_with(20, SMALL_SEGMENTS)
    for path in log_files(disk):
        disk.remove(path)
    with pytest.raises(Corruption, match="no segment is left, but everything below offset 20 was durable"):
        open_log(disk, SMALL_SEGMENTS, clean_shutdown)


def test_segments_without_any_checkpoint_have_to_begin_at_offset_0() -> None:
    disk = disk_with(20, SMALL_SEGMENTS)
    for name in (LOG_CHECKPOINT_NAME, LOG_CHECKPOINT_NAME + EARLIER_SUFFIX):
        disk.remove(f"{DIRECTORY}/{name}")
    assert read_all(open_log(disk, SMALL_SEGMENTS)) == values(20)
    disk = disk_with(20, SMALL_SEGMENTS)
    for name in (LOG_CHECKPOINT_NAME, LOG_CHECKPOINT_NAME + EARLIER_SUFFIX):
        disk.remove(f"{DIRECTORY}/{name}")
    disk.remove(log_files(disk)[0])
    with pytest.raises(Corruption, match="its first segment is missing"):
        open_log(disk, SMALL_SEGMENTS)


def dropped_front(disk: MemoryDisk) -> None:
    log = open_log(disk, replace(SMALL_SEGMENTS, retention_bytes=800))
    run_now(log.advancing_log_start(log.segments()[1].base_offset))
    for path in run_now(log.applying_retention(NOW_MS, Offset(20))):
        disk.remove(path)


def begun_anew(disk: MemoryDisk) -> None:
    log = open_log(disk, SMALL_SEGMENTS)
    log.truncate_fully_and_start_at(Offset(7))
    append(log, "a", epoch=9)
    sync(log)


@pytest.mark.parametrize("damage", [None, b"noise"])
@pytest.mark.parametrize("change", [dropped_front, begun_anew])
def test_deleted_segments_do_not_count_as_missing_without_the_latest_checkpoint(
    change: Callable[[MemoryDisk], None], damage: bytes | None
) -> None:
    disk = disk_with(20, SMALL_SEGMENTS)
    change(disk)
    expected = open_log(disk, SMALL_SEGMENTS)
    path = f"{DIRECTORY}/{LOG_CHECKPOINT_NAME}"
    disk.remove(path)
    if damage is not None:
        disk.write_file(path, damage)
    log = open_log(disk, SMALL_SEGMENTS)
    assert log.log_start_offset == expected.log_start_offset > 0
    assert read_all(log) == read_all(expected)
