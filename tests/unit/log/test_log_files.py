from __future__ import annotations

from dataclasses import replace
from errno import ENOSPC
from unittest.mock import patch

import pytest

from kraft.log.change import ChangeUnderWay, run_now
from kraft.log.cleaning.cleaned_segments import CleaningResult, open_cleaned
from kraft.log.cleaning.cleaning_plan import plan_cleaning
from kraft.log.cleaning.compaction import clean
from kraft.log.format.record_batch import BatchHeader, build_batch, read_header, split, validate
from kraft.log.format.record_codec import Record
from kraft.log.leader_epochs import EpochStart
from kraft.log.log_files import LogFiles
from kraft.log.log_health import LogHealth
from kraft.log.partition_log import PartitionLog
from kraft.log.recovery.log_checkpoint import read_checkpoint
from kraft.log.recovery.recovery import recover
from kraft.log.segment.segment import Segment
from kraft.log.topic_config import UNLIMITED, TopicConfig
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import LeaderEpoch, Offset
from tests.support.disks.memory_disk import MemoryDisk, MemoryFile
from tests.support.log.compacted_log import batch_at
from tests.support.log.log_building import (
    DIRECTORY,
    EPOCH,
    NOW_MS,
    ORDERS,
    SMALL_SEGMENTS,
    append,
    newest,
    offset_at,
    open_log,
    read_all,
    read_records,
    sync,
)

# --- truncation -----------------------------------------------------------------------------------------------


def test_truncation_reaches_across_segments_and_takes_epochs_with_it() -> None:
    disk = MemoryDisk()
    log = open_log(disk, SMALL_SEGMENTS)
    for number in range(12):
        append(log, f"value {number}", epoch=number // 4)
    assert log.truncate_to(Offset(5)) == 5
    assert read_all(log) == [f"value {number}" for number in range(5)]
    assert log.epoch_cache.entries == ((0, 0), (1, 4))
    append(log, "new", epoch=9)
    assert read_all(log)[-2:] == ["value 4", "new"]
    assert log.end_offset_for_epoch(LeaderEpoch(1)) == (1, 5)
    disk.crash()
    assert read_all(open_log(disk, SMALL_SEGMENTS)) == [f"value {number}" for number in range(5)]


def test_truncating_inside_a_batch_drops_all_of_it() -> None:
    log = open_log(MemoryDisk())
    append(log, "a")
    append(log, "b", "c")
    assert log.truncate_to(Offset(2)) == 1
    assert read_all(log) == ["a"]


def test_truncating_at_or_above_the_end_changes_nothing() -> None:
    log = open_log(MemoryDisk())
    append(log, "a")
    assert log.truncate_to(Offset(1)) == 1
    assert log.truncate_to(Offset(99)) == 1


def test_truncating_below_the_start_restarts_the_log_there() -> None:
    log = open_log(MemoryDisk())
    log.truncate_fully_and_start_at(Offset(50))
    append(log, "a", epoch=3)
    assert log.truncate_to(Offset(20)) == 20
    assert (log.log_start_offset, log.log_end_offset, log.latest_epoch) == (20, 20, -1)


def test_truncation_removes_truncated_batches_from_the_producer_state() -> None:
    log = open_log(MemoryDisk(), SMALL_SEGMENTS)
    batches = [
        build_batch([Record(0, 0, None, b"v")], producer_id=9, producer_epoch=0, base_sequence=sequence)
        for sequence in range(8)
    ]
    for batch in batches:
        log.append_as_leader(batch, EPOCH, NOW_MS, run_now)
    log.truncate_to(Offset(6))
    assert log.append_as_leader(batches[5], EPOCH, NOW_MS, run_now).duplicate
    assert log.append_as_leader(batches[1], EPOCH, NOW_MS, run_now).duplicate
    assert not log.append_as_leader(batches[6], EPOCH, NOW_MS, run_now).duplicate


def test_after_truncation_other_batches_are_found_where_others_stood() -> None:
    log = open_log(MemoryDisk(), TopicConfig(index_interval_bytes=100))
    for number in range(20):
        append(log, f"{number}")
    log.truncate_to(Offset(4))
    for number in range(4, 20):
        append(log, f"{number}" + "x" * 45)
    for offset in range(20):
        header, batch = split(log.read(Offset(offset), 1, Offset(20)))[0]
        assert header.base_offset == offset
        validate(batch)


# --- retention ------------------------------------------------------------------------------------------------


def test_old_segments_go_and_the_start_of_the_log_with_them() -> None:
    disk = MemoryDisk()
    log = open_log(disk, TopicConfig(segment_bytes=100, retention_ms=1_000))
    for number in range(5):
        append(log, f"value {number}", timestamp_ms=1_000 * number)
    files = run_now(log.applying_retention(now_ms=3_500, high_watermark=Offset(5)))
    assert log.log_start_offset == 3
    assert read_all(log) == ["value 3", "value 4"]
    assert len(files) == 9
    for path in files:
        disk.remove(path)
    assert run_now(log.applying_retention(now_ms=3_500, high_watermark=Offset(5))) == []
    with pytest.raises(Refusal, match="outside"):
        log.read(Offset(2), 100, Offset(5))
    sync(log)
    disk.crash()
    again = open_log(disk, log.config)
    assert (again.log_start_offset, read_all(again)) == (3, ["value 3", "value 4"])


def test_a_log_whose_records_are_all_old_is_emptied_and_goes_on_behind_them() -> None:
    log = open_log(MemoryDisk(), TopicConfig(retention_ms=1_000))
    append(log, "a", "b", timestamp_ms=1_000)
    assert run_now(log.applying_retention(now_ms=99_000, high_watermark=Offset(1))) == [], "not all of it is committed"
    run_now(log.applying_retention(now_ms=99_000, high_watermark=Offset(2)))
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (2, 2, 0)
    assert append(log, "c").base_offset == 2


def test_another_retention_takes_effect_while_the_log_is_open() -> None:
    log = open_log(MemoryDisk(), TopicConfig(segment_bytes=100, retention_bytes=200))
    for number in range(6):
        append(log, f"value {number}")
    log.reconfigure(TopicConfig(segment_bytes=100, retention_ms=UNLIMITED))
    assert run_now(log.applying_retention(NOW_MS, Offset(6))) == []
    log.reconfigure(TopicConfig(segment_bytes=100, retention_ms=UNLIMITED, retention_bytes=150))
    run_now(log.applying_retention(NOW_MS, Offset(6)))
    assert log.size_bytes <= 225


def test_records_below_the_log_start_are_gone_at_once_and_for_good() -> None:
    disk = MemoryDisk()
    log = open_log(disk, TopicConfig(segment_bytes=100))
    for number in range(5):
        append(log, f"value {number}", epoch=number)
    run_now(log.advancing_log_start(Offset(3)))
    assert log.log_start_offset == 3
    assert log.epoch_cache.entries[0] == EpochStart(LeaderEpoch(2), Offset(2)), "that of the last deleted record"
    run_now(log.advancing_log_start(Offset(1)))
    assert log.log_start_offset == 3, "it never goes back"
    disk.crash()
    again = open_log(disk, log.config)
    assert (again.log_start_offset, read_all(again)) == (3, ["value 3"]), "the last one was not synced"


def test_segments_below_the_log_start_are_deleted_and_it_stays_inside_the_first_one_left() -> None:
    disk, config = MemoryDisk(), replace(SMALL_SEGMENTS, retention_ms=UNLIMITED)
    log = open_log(disk, config)
    for number in range(12):
        append(log, f"value {number}")
    inside = Offset(log.segments()[2].base_offset + 1)
    run_now(log.advancing_log_start(inside))
    run_now(log.applying_retention(NOW_MS, Offset(12)))
    assert log.segments()[0].base_offset == inside - 1
    assert log.log_start_offset == inside, "deleted records are not back"
    sync(log)
    disk.crash()
    assert open_log(disk, config).log_start_offset == inside


def test_a_log_that_lost_records_below_its_start_goes_on_from_there() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "a", "b", "c")
    run_now(log.advancing_log_start(Offset(3)))
    disk.crash()
    again = open_log(disk)
    assert (again.log_start_offset, again.log_end_offset) == (3, 3)
    assert append(again, "d").base_offset == 3


def test_the_log_start_never_passes_the_end() -> None:
    log = open_log(MemoryDisk())
    append(log, "a")
    with pytest.raises(Refusal) as refusal:
        run_now(log.advancing_log_start(Offset(2)))
    assert refusal.value.error_code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_look_up_by_time_does_not_find_what_was_deleted() -> None:
    log = open_log(MemoryDisk())
    append(log, "a", "b", "c", timestamp_ms=1_000)
    run_now(log.advancing_log_start(Offset(2)))
    assert offset_at(log, 0) == (2, 1_002)
    assert newest(log) == (2, 1_002)


# --- compaction -----------------------------------------------------------------------------------------------


COMPACT = TopicConfig(segment_bytes=300, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0)


def keyed(log: PartitionLog, key: str, value: str | None) -> None:
    record = Record(0, 1_000, key.encode(), None if value is None else value.encode())
    log.append_as_leader(build_batch([record]), EPOCH, NOW_MS, run_now)


def cleaned(disk: MemoryDisk, log: PartitionLog) -> tuple[CleaningResult, list[Segment]]:
    plan = plan_cleaning(log.segments(), log.config, log.cleaned_end_offset, log.log_end_offset, NOW_MS)
    assert plan is not None
    producers = {producer_id: state.last_offset for producer_id, state in log.producers.items()}
    result = clean(disk, DIRECTORY, plan, log.config, NOW_MS, 1 << 20, producers, lambda _: None, ())
    return result, open_cleaned(disk, DIRECTORY, result, log.config.index_interval_bytes)


def cleaned_log(disk: MemoryDisk) -> PartitionLog:
    """Return a compacted log of three keys with offsets 0 to 29."""
    log = open_log(disk, COMPACT)
    for number in range(30):
        keyed(log, f"k{number % 3}", f"{number}")
    for path in run_now(log.installing_cleaned(*cleaned(disk, log))):
        disk.remove(path)
    return log


def test_a_cleaned_log_reads_as_the_newest_of_each_key_at_its_own_offset_also_after_a_crash() -> None:
    disk = MemoryDisk()
    log = cleaned_log(disk)
    active = log.segments()[-1]
    kept = read_records(log)
    below = {record.key: record.offset for record in kept if record.offset < active.base_offset}
    assert len(below) == 3, "one of each key below the segment that grows"
    assert all(record.value == str(record.offset).encode() for record in kept)
    assert log.cleaned_end_offset == active.base_offset
    assert (log.log_start_offset, log.log_end_offset) == (0, 30)
    keyed(log, "k0", "30")
    sync(log)
    disk.crash()
    again = open_log(disk, COMPACT)
    assert [record.offset for record in read_records(again)] == [*(record.offset for record in kept), 30]
    assert again.cleaned_end_offset == log.cleaned_end_offset


def test_a_truncation_below_the_cleaned_end_lowers_it() -> None:
    disk = MemoryDisk()
    log = cleaned_log(disk)
    below = Offset(log.cleaned_end_offset - 1)
    log.truncate_to(below)
    assert log.cleaned_end_offset <= below
    assert read_checkpoint(disk, DIRECTORY).cleaned_end_offset <= below


def test_a_cleaning_of_a_log_that_changed_meanwhile_is_discarded() -> None:
    disk = MemoryDisk()
    log = open_log(disk, COMPACT)
    for number in range(30):
        keyed(log, "k", f"{number}")
    result = cleaned(disk, log)
    log.truncate_to(Offset(8))
    before = [record.value for record in read_records(log)]
    assert run_now(log.installing_cleaned(*result)) == []
    assert [record.value for record in read_records(log)] == before
    assert not [name for name in disk.list(DIRECTORY) if name.endswith(".cleaned")]
    assert log.cleaned_end_offset == 0


def test_a_segment_replaced_during_a_sync_is_closed_when_the_sync_is_complete() -> None:
    disk = MemoryDisk()
    log = open_log(disk, COMPACT)
    for number in range(3):
        keyed(log, "k", f"{number}")
    ticket = log.prepare_sync()
    run_now(log.rolling())
    keyed(log, "k", "3")
    run_now(log.installing_cleaned(*cleaned(disk, log)))
    assert log.cleaned_end_offset == 3, "the segment that is synced was replaced"
    ticket.run()
    assert ticket.error is None
    log.complete_sync(ticket, run_now)
    assert log.synced_end_offset == 3
    with pytest.raises(OSError, match="closed"):
        ticket.file.sync()


# --- what stands beside the segments --------------------------------------------------------------------------


def header_of(offset: int, epoch: int) -> BatchHeader:
    return read_header(batch_at(offset, ("k", "v"), leader_epoch=epoch))


def files_of_new_log(disk: MemoryDisk) -> LogFiles:
    disk.make_dir(DIRECTORY)
    recovered = recover(disk, DIRECTORY, index_interval_bytes=100, clean_shutdown=False)
    return LogFiles(disk, DIRECTORY, recovered, TopicConfig(), LogHealth(DIRECTORY, ORDERS))


def test_an_unchanged_log_start_is_not_written() -> None:
    disk = MemoryDisk()
    files = files_of_new_log(disk)
    run_now(files.set_start(Offset(3)))
    names = [name for name in disk.list(DIRECTORY) if name.startswith("log-checkpoint")]
    for name in names:
        disk.remove(f"{DIRECTORY}/{name}")
    assert len(names) == 2, "the previous file has it, too"
    run_now(files.set_start(Offset(3)))
    assert not [name for name in disk.list(DIRECTORY) if name.startswith("log-checkpoint")]


def test_after_a_truncation_no_file_claims_more_than_the_log() -> None:
    disk = MemoryDisk()
    log = open_log(disk, SMALL_SEGMENTS)
    for number in range(12):
        append(log, f"value {number}")
    sync(log)
    log.settle()
    assert read_checkpoint(disk, DIRECTORY).recovery_point == 12
    log.truncate_to(Offset(5))
    kept = read_checkpoint(disk, DIRECTORY)
    assert kept == log._files.checkpoint
    assert kept.recovery_point == log.segments()[-1].base_offset < 5
    assert max(snapshots_in(disk)) <= 5


def test_a_snapshot_is_kept_for_each_segment_and_the_latest() -> None:
    disk = MemoryDisk()
    log = open_log(disk, SMALL_SEGMENTS)
    for number in range(12):
        append(log, f"value {number}")
    log.settle()
    bases = [int(segment.base_offset) for segment in log.segments()]
    assert snapshots_in(disk) == [*bases[1:], 12]
    run_now(log.advancing_log_start(Offset(8)))
    run_now(log.applying_retention(NOW_MS, Offset(12)))
    bases = [int(segment.base_offset) for segment in log.segments()]
    assert set(snapshots_in(disk)) == {*bases, 12}


def snapshots_in(disk: MemoryDisk) -> list[int]:
    suffix = ".snapshot"
    return [int(name.removesuffix(suffix)) for name in disk.list(DIRECTORY) if name.endswith(suffix)]


def test_an_epoch_is_on_the_disk_before_its_first_batch() -> None:
    disk = MemoryDisk()
    files = files_of_new_log(disk)
    batches = [header_of(5, 3), header_of(6, 3), header_of(7, 4)]
    assert files.epochs.begins(batches)
    run_now(files.epochs.begin(batches, files.log_end))
    assert not files.epochs.begins(batches)
    disk.crash()
    assert disk.read_file(f"{DIRECTORY}/leader-epoch-checkpoint") == files.epochs.cache.encode()
    assert files.epochs.cache.entries == ((3, 5), (4, 7))
    assert files.epochs.cache.latest_epoch == LeaderEpoch(4)


def test_an_epoch_whose_first_batch_finds_no_room_is_removed_from_the_log_and_then_from_the_file() -> None:
    disk = MemoryDisk()
    files = files_of_new_log(disk)
    written, refused = [batch_at(offset, ("k", "v"), leader_epoch=epoch) for offset, epoch in ((0, 3), (1, 4))]
    run_now(files.epochs.begin([read_header(written)], files.log_end))
    files.append([written], [read_header(written)])
    run_now(files.epochs.begin([read_header(refused)], files.log_end))
    full = OSError(ENOSPC, "No space left on device")
    with patch.object(disk, "check_write", side_effect=full), pytest.raises(OSError, match="No space"):
        files.append([refused], [read_header(refused)])
    assert files.epochs.cache.entries == ((3, 0),), "no follower is sent an epoch beyond the end of the log"
    another = [header_of(1, 3)]
    assert files.epochs.begins(another), "the file still has the later epoch"
    run_now(files.epochs.begin(another, files.log_end))
    assert disk.read_file(f"{DIRECTORY}/leader-epoch-checkpoint") == files.epochs.cache.encode()
    assert not files.epochs.begins(another)


# --- the end of a log -----------------------------------------------------------------------------------------


def test_the_segment_begun_by_a_cancelled_roll_is_closed() -> None:
    log = open_log(MemoryDisk())
    append(log, "a")
    roll = ChangeUnderWay(log.rolling())
    while True:
        assert roll.step is not None, "a roll begins a segment"
        roll.step.run()
        if isinstance(begun := roll.step.result, Segment):
            break
        roll.resume()
    roll.cancel()
    log.release()
    assert isinstance(begun.file, MemoryFile)
    assert begun.file.is_closed
