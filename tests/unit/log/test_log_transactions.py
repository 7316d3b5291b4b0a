"""A log with transactions: what consumers of committed records see, after appends, restarts, crashes and damage."""

from __future__ import annotations

from errno import EMFILE
from random import Random
from typing import Any

import pytest

from kraft.log.append_work import AppendOrigin
from kraft.log.change import run_now
from kraft.log.format.record_batch import split
from kraft.log.partition_log import PartitionLog
from kraft.log.recovery.log_checkpoint import CHECKPOINT_NAME, EARLIER_SUFFIX
from kraft.log.topic_config import TopicConfig
from kraft.log.transactions.aborted import AbortedTxn, decode_entries
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import LeaderEpoch, Offset
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.disks.sim_content import CrashMode
from tests.support.disks.sim_disk import SimDisk
from tests.support.log.log_building import DIRECTORY, NOW_MS, ORDERS, SMALL_SEGMENTS, append, open_log, refused, sync
from tests.support.log.transactional_log import ABORT, COMMIT, COORDINATOR, end, read_committed, send, transactional


def index_files(disk: MemoryDisk) -> list[str]:
    return [name for name in disk.list(DIRECTORY) if name.endswith(".txnindex")]


def log_with_aborts(disk: MemoryDisk, config: TopicConfig = SMALL_SEGMENTS) -> PartitionLog:
    """Return a log of several segments in which transactions of two producers alternate and overlap."""
    log = open_log(disk, config)
    for number in range(8):
        send(log, 7, number, f"kept {number}")
        send(log, 8, 2 * number, f"gone {number}")
        append(log, f"plain {number}")
        end(log, 7, COMMIT)
        send(log, 8, 2 * number + 1, f"gone too {number}")
        end(log, 8, ABORT)
    return log


EXPECTED = [f"{kind} {number}" for number in range(8) for kind in ("kept", "plain")]


def test_a_look_up_without_a_free_file_is_repeated_later(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()
    log = log_with_aborts(disk)

    def refuse(path: str, create: bool) -> Any:
        raise OSError(EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(disk, "open", refuse)
        with pytest.raises(Refusal, match="no files to open"):
            log.transactions.aborted(Offset(0), log.log_end_offset)
    assert log.failure is None
    assert read_committed(log) == EXPECTED


# --- the last stable offset ----------------------------------------------------------------------------------


def test_committed_records_are_read_up_to_the_oldest_open_transaction() -> None:
    log = open_log(MemoryDisk())
    append(log, "a")
    send(log, 7, 0, "b")
    append(log, "c")
    assert log.transactions.last_stable_offset(log.log_end_offset) == 1
    assert read_committed(log) == ["a"]
    end(log, 7, COMMIT)
    assert read_committed(log) == ["a", "b", "c"]


def test_a_decided_transaction_is_stable_once_its_marker_is_below_the_high_watermark() -> None:
    log = open_log(MemoryDisk())
    send(log, 7, 0, "a")
    marker = end(log, 7, COMMIT)
    log.transactions.high_watermark_advanced(marker)
    assert log.transactions.last_stable_offset(marker) == 0
    log.transactions.high_watermark_advanced(log.log_end_offset)
    assert log.transactions.last_stable_offset(log.log_end_offset) == log.log_end_offset


def test_the_last_stable_offset_is_within_the_log_start_and_the_high_watermark() -> None:
    log = open_log(MemoryDisk())
    append(log, "a", "b")
    send(log, 7, 0, "c", "d")
    assert log.transactions.last_stable_offset(Offset(1)) == 1
    run_now(log.advancing_log_start(Offset(3)))
    assert log.transactions.last_stable_offset(Offset(4)) == 3


def test_a_truncation_reopens_the_transaction_and_closes_one_that_it_cuts_off() -> None:
    log = open_log(MemoryDisk())
    send(log, 7, 0, "a")
    marker = end(log, 7, ABORT)
    send(log, 8, 0, "b")
    log.truncate_to(marker)
    assert log.transactions.last_stable_offset(log.log_end_offset) == 0
    assert log.transactions.aborted(Offset(0), Offset(9)) == []
    end(log, 7, COMMIT)
    assert read_committed(log) == ["a"]


def test_a_truncation_within_a_segment_drops_only_the_aborts_that_it_cuts_off() -> None:
    log = open_log(MemoryDisk())
    end(log, 6, COMMIT)
    send(log, 7, 0, "a")
    end(log, 7, ABORT)
    send(log, 8, 0, "b")
    second = end(log, 8, ABORT)
    assert len(log.segments()) == 1
    log.truncate_to(second)
    assert [each.producer_id for each in log.transactions.aborted(Offset(0), second)] == [7]
    end(log, 8, COMMIT)
    assert read_committed(log) == ["b"]


def test_a_truncation_into_a_segment_before_all_aborts_leaves_room_for_the_next_abort() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "a", timestamp_ms=NOW_MS)
    append(log, "b", timestamp_ms=NOW_MS)
    run_now(log.rolling())
    send(log, 7, 0, "gone")
    end(log, 7, ABORT)
    log.truncate_to(Offset(1))
    send(log, 8, 0, "gone too")
    end(log, 8, ABORT)
    assert len(log.segments()) == 1
    assert read_committed(log) == ["a"]
    log.close()
    assert read_committed(open_log(disk, clean_shutdown=True)) == ["a"]


def test_a_truncation_leaves_unreplicated_what_was_decided_below_it() -> None:
    log = open_log(MemoryDisk())
    send(log, 7, 0, "a")
    marker = end(log, 7, COMMIT)
    send(log, 8, 0, "b")
    log.truncate_to(Offset(marker + 1))
    log.transactions.high_watermark_advanced(marker)
    assert log.transactions.last_stable_offset(marker) == 0
    log.transactions.high_watermark_advanced(log.log_end_offset)
    assert log.transactions.last_stable_offset(log.log_end_offset) == log.log_end_offset


# --- appends -------------------------------------------------------------------------------------------------


def test_a_client_writes_neither_markers_nor_unverified_transactions() -> None:
    log = open_log(MemoryDisk())
    assert refused(log, transactional(7, 0, "a")).error_code is ErrorCode.INVALID_TXN_STATE
    send(log, 7, 0, "a")
    end(log, 7, COMMIT)
    [(_, marker)] = split(log.read(Offset(1), 1 << 20, log.log_end_offset))
    assert refused(log, bytes(8) + bytes(marker[8:])).error_code is ErrorCode.INVALID_RECORD


def test_a_verified_batch_is_written_with_its_guard_only_while_no_marker_has_come() -> None:
    log = open_log(MemoryDisk())
    guard = log.transactions.begin_verification(7, 0, 0, begins_at_zero=False)
    end(log, 7, ABORT)
    with pytest.raises(Refusal) as refusal:
        log.append_as_leader(transactional(7, 0, "a"), LeaderEpoch(0), NOW_MS, run_now, AppendOrigin(guard=guard))
    assert refusal.value.error_code is ErrorCode.INVALID_TXN_STATE
    guard = log.transactions.begin_verification(7, 0, 0, begins_at_zero=False)
    log.append_as_leader(transactional(7, 0, "a"), LeaderEpoch(0), NOW_MS, run_now, AppendOrigin(guard=guard))
    assert log.transactions.begin_verification(7, 0, 1, begins_at_zero=False) is None, "it is known here"


def test_a_batch_that_its_producer_sends_again_stays_the_first_of_its_transaction() -> None:
    log = open_log(MemoryDisk())
    guard = log.transactions.begin_verification(7, 0, 0, begins_at_zero=False)
    assert guard is not None
    log.transactions.verification_refused(7, guard, Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, "retry"))
    later = log.transactions.begin_verification(7, 0, 1, begins_at_zero=False)
    with pytest.raises(Refusal) as refusal:
        log.append_as_leader(transactional(7, 1, "b"), LeaderEpoch(0), NOW_MS, run_now, AppendOrigin(guard=later))
    assert refusal.value.error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    for sequence, value in enumerate("ab"):
        batch = transactional(7, sequence, value)
        log.append_as_leader(batch, LeaderEpoch(0), NOW_MS, run_now, AppendOrigin(guard=guard))
    end(log, 7, COMMIT)
    assert read_committed(log) == ["a", "b"]


def test_an_old_coordinator_changes_nothing() -> None:
    log = open_log(MemoryDisk())
    send(log, 7, 0, "a")
    end(log, 7, COMMIT, coordinator_epoch=5)
    log.transactions.high_watermark_advanced(log.log_end_offset)
    send(log, 7, 1, "b")
    log_end = log.log_end_offset
    with pytest.raises(Refusal) as refusal:
        end(log, 7, ABORT, coordinator_epoch=4)
    assert refusal.value.error_code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert log.log_end_offset == log_end
    assert log.transactions.last_stable_offset(log_end) == log_end - 1


def test_a_coordinator_writes_records_without_sequences_into_a_compacted_topic() -> None:
    log = open_log(MemoryDisk(), TopicConfig(cleanup_policy=("compact",)))
    batch = transactional(7, -1, "a", key="group")
    for _ in range(2):
        log.append_as_leader(batch, LeaderEpoch(0), NOW_MS, run_now, origin=COORDINATOR)
    assert log.transactions.last_stable_offset(log.log_end_offset) == 0
    end(log, 7, COMMIT)
    assert read_committed(log) == ["a", "a"]


# --- aborted transactions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bytes_max", [1, 300, 1 << 20])
def test_aborted_records_are_found_by_every_fetch_that_has_them(bytes_max: int) -> None:
    assert read_committed(log_with_aborts(MemoryDisk()), bytes_max=bytes_max) == EXPECTED


def test_a_look_up_finds_a_transaction_whose_marker_is_in_a_later_segment() -> None:
    log = open_log(MemoryDisk())
    send(log, 7, 0, "a")
    run_now(log.rolling())
    append(log, "b")
    run_now(log.rolling())
    marker = end(log, 7, ABORT)
    assert log.transactions.aborted(Offset(0), Offset(1)) == [AbortedTxn(7, 0, marker, marker + 1)]
    assert log.transactions.aborted(Offset(marker + 1), Offset(99)) == []


def test_a_log_without_aborts_has_no_index_files_and_one_with_aborts_has_them_from_there_on() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    send(log, 7, 0, "a")
    end(log, 7, COMMIT)
    run_now(log.rolling())
    assert index_files(disk) == []
    send(log, 7, 1, "b")
    marker = end(log, 7, ABORT)
    run_now(log.rolling())
    append(log, "c")
    run_now(log.rolling())
    (first, last) = index_files(disk)
    assert list(decode_entries(disk.read_file(f"{DIRECTORY}/{first}"))) == [AbortedTxn(7, 2, marker, marker + 1)]
    assert disk.read_file(f"{DIRECTORY}/{last}") == b""


def test_a_follower_has_the_same_index_as_its_leader() -> None:
    leader_disk, follower_disk = MemoryDisk(), MemoryDisk()
    leader = log_with_aborts(leader_disk)
    follower = open_log(follower_disk, SMALL_SEGMENTS)
    offset = Offset(0)
    while offset < leader.log_end_offset:
        offset = Offset(follower.append_as_follower(leader.read(offset, 200, leader.log_end_offset)) + 1)
    assert read_committed(follower) == EXPECTED
    assert follower.transactions.aborted(Offset(0), offset) == leader.transactions.aborted(Offset(0), offset)
    assert follower.producers == leader.producers


def test_a_copy_in_another_log_directory_knows_the_same() -> None:
    disk = MemoryDisk()
    log = log_with_aborts(disk)
    send(log, 9, 0, "open")
    copy = PartitionLog.open(disk, f"{DIRECTORY}-future", SMALL_SEGMENTS, ORDERS)
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        offset = Offset(copy.append_as_follower(log.read(offset, 200, log.log_end_offset)) + 1)
    copy.take_over(log)
    assert copy.transactions.aborted(Offset(0), offset) == log.transactions.aborted(Offset(0), offset)
    assert read_committed(copy) == EXPECTED
    assert copy.transactions.last_stable_offset(offset) == offset - 1


def test_the_index_goes_with_its_segment() -> None:
    disk = MemoryDisk()
    log = log_with_aborts(disk)
    files = index_files(disk)
    start = log.segments()[9].base_offset
    run_now(log.advancing_log_start(start))
    deleted = run_now(log.applying_retention(NOW_MS, log.log_end_offset))
    gone = [path.rpartition("/")[2] for path in deleted if ".txnindex" in path]
    assert gone == [f"{name}.deleted" for name in files[: len(gone)]] != []
    assert index_files(disk) == files[len(gone) :]
    assert read_committed(log) == read_committed(open_log(disk, SMALL_SEGMENTS))
    log.truncate_fully_and_start_at(Offset(500))
    assert index_files(disk) == []
    assert log.transactions.aborted(Offset(500), Offset(600)) == []


def test_a_truncation_into_a_closed_segment_cuts_its_index_and_new_aborts_follow() -> None:
    disk = MemoryDisk()
    log = log_with_aborts(disk)
    for offset in (log.segments()[3].base_offset + 1, 1):
        end_offset = log.truncate_to(Offset(offset))
        assert all(each.last_offset < end_offset for each in log.transactions.aborted(Offset(0), Offset(999)))
    send(log, 9, 0, "gone at last")
    end(log, 9, ABORT)
    run_now(log.rolling())
    end(log, 7, COMMIT)
    assert read_committed(log) == ["kept 0"]
    log.close()
    assert read_committed(open_log(disk, SMALL_SEGMENTS, clean_shutdown=True)) == ["kept 0"]


# --- restarts, crashes and damage ----------------------------------------------------------------------------


@pytest.mark.parametrize("clean_shutdown", [True, False])
def test_everything_is_known_after_a_restart(clean_shutdown: bool) -> None:
    disk = MemoryDisk()
    log = log_with_aborts(disk)
    send(log, 7, 8, "open")
    before = log.transactions.aborted(Offset(0), log.log_end_offset)
    log.close()
    opened = open_log(disk, SMALL_SEGMENTS, clean_shutdown)
    assert opened.recovery_report.indexes_rebuilt == 0
    assert opened.transactions.aborted(Offset(0), log.log_end_offset) == before
    assert opened.producers == log.producers
    assert read_committed(opened) == EXPECTED
    assert opened.transactions.last_stable_offset(opened.log_end_offset) == opened.log_end_offset - 1


@pytest.mark.parametrize("damage", ["missing", "cut", "version", "order"])
def test_a_missing_or_damaged_index_is_rebuilt(damage: str) -> None:
    disk = MemoryDisk()
    log_with_aborts(disk).close()
    files = index_files(disk)
    for name in files:
        path = f"{DIRECTORY}/{name}"
        data = disk.read_file(path)
        match damage:
            case "missing":
                disk.remove(path)
            case "cut":
                disk.write_file(path, data[:-1] or b"\0")
            case "version":
                disk.write_file(path, b"\0\7" + (data[2:] or bytes(32)))
            case _:
                disk.write_file(path, data + data if data else bytes(34 * 2))
    log = open_log(disk, SMALL_SEGMENTS, clean_shutdown=True)
    assert read_committed(log) == EXPECTED
    assert log.recovery_report.indexes_rebuilt == len(files) - 1
    log.close()
    assert open_log(disk, SMALL_SEGMENTS, clean_shutdown=True).recovery_report.indexes_rebuilt == 0


def test_a_lost_checkpoint_hides_no_aborted_transaction() -> None:
    disk = MemoryDisk()
    log_with_aborts(disk).close()
    for name in index_files(disk):
        disk.remove(f"{DIRECTORY}/{name}")
    disk.write_file(f"{DIRECTORY}/{CHECKPOINT_NAME}", b"damaged")
    disk.write_file(f"{DIRECTORY}/{CHECKPOINT_NAME}{EARLIER_SUFFIX}", b"damaged")
    assert read_committed(open_log(disk, SMALL_SEGMENTS)) == EXPECTED


def test_an_index_that_vanishes_from_a_running_log_takes_it_offline_rather_than_showing_aborted_records() -> None:
    disk = MemoryDisk()
    log = log_with_aborts(disk)
    for name in index_files(disk):
        disk.remove(f"{DIRECTORY}/{name}")
    with pytest.raises(Refusal) as refusal:
        log.transactions.aborted(Offset(0), Offset(1))
    assert refusal.value.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.failure is not None


@pytest.mark.parametrize("mode", CrashMode)
@pytest.mark.parametrize("seed", range(12))
def test_a_crash_at_any_time_loses_no_abort_of_what_is_left(mode: CrashMode, seed: int) -> None:
    random = Random(seed)
    disk = SimDisk()
    disk.make_dir("data")
    disk.sync_dir("")
    log = open_log(disk, SMALL_SEGMENTS)
    expected: list[tuple[int, str]] = []
    sequences = {7: 0, 8: 0}
    pending: dict[int, list[tuple[int, str]]] = {7: [], 8: []}
    for number in range(random.randint(1, 40)):
        producer_id = random.choice((7, 8))
        if pending[producer_id] and random.random() < 0.4:
            kind = random.choice((COMMIT, ABORT))
            end(log, producer_id, kind)
            if kind is COMMIT:
                expected += pending[producer_id]
            pending[producer_id] = []
        else:
            value = f"{producer_id}:{number}"
            result = send(log, producer_id, sequences[producer_id], value)
            sequences[producer_id] += 1
            pending[producer_id].append((result.base_offset, value))
        if random.random() < 0.3:
            sync(log)
        if random.random() < 0.1:
            run_now(log.rolling())
    disk.crash(mode, random)
    opened = open_log(disk, SMALL_SEGMENTS)
    stable = opened.transactions.last_stable_offset(opened.log_end_offset)
    found = read_committed(opened)
    assert found == [value for offset, value in sorted(expected) if offset < stable]
    opened.close()
    again = open_log(disk, SMALL_SEGMENTS, clean_shutdown=True)
    assert read_committed(again) == found
    assert again.transactions.last_stable_offset(again.log_end_offset) == stable
