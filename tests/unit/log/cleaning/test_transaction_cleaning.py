"""Compaction of a log with transactions: aborted records go, markers follow them after a delete horizon."""

from __future__ import annotations

from random import Random

import pytest

from kraft.log.change import run_now
from kraft.log.cleaning.cleaned_segments import open_cleaned
from kraft.log.cleaning.cleaning_plan import plan_cleaning
from kraft.log.cleaning.compaction import clean
from kraft.log.format.record_batch import BatchHeader, build_batch, split
from kraft.log.format.record_codec import Record
from kraft.log.integrity.directory import verify_partition
from kraft.log.partition_log import PartitionLog
from kraft.log.topic_config import TopicConfig
from kraft.model.ids import LeaderEpoch, Offset
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.log.log_building import NOW_MS, open_log
from tests.support.log.log_expectations import read_bytes
from tests.support.log.transactional_log import ABORT, COMMIT, VERIFIED, committed_records, end

RETENTION_MS = 1_000
COMPACT = TopicConfig(
    cleanup_policy=("compact", "delete"),
    min_cleanable_dirty_ratio=0,
    delete_retention_ms=RETENTION_MS,
    index_interval_bytes=100,
)


def new_log(disk: MemoryDisk | None = None) -> PartitionLog:
    return open_log(disk or MemoryDisk(), COMPACT)


def write(
    log: PartitionLog, key: str, value: str | None, producer_id: int = -1, sequence: int = -1, epoch: int = 0
) -> Offset:
    """Append one record; with a producer id, in its transaction."""
    is_transactional = producer_id >= 0
    batch = build_batch(
        [Record(0, NOW_MS, key.encode(), None if value is None else value.encode())],
        producer_id=producer_id,
        producer_epoch=epoch if is_transactional else -1,
        base_sequence=sequence,
        transactional=is_transactional,
    )
    return log.append_as_leader(batch, LeaderEpoch(0), NOW_MS, run_now, origin=VERIFIED).base_offset


def compact(log: PartitionLog, now_ms: int = NOW_MS, map_bytes: int = 1 << 20, cleaned_to: int = 0) -> None:
    """Compact all closed segments as a broker does, all of them committed."""
    run_now(log.rolling())
    log.transactions.high_watermark_advanced(log.log_end_offset)
    upper = log.transactions.last_stable_offset(log.log_end_offset)
    # By default from the start, so that a clean log is cleaned again.
    plan = plan_cleaning(log.segments(), COMPACT, Offset(cleaned_to), upper, now_ms)
    if plan is None:
        return
    result = clean(
        log._disk,
        log.directory,
        plan,
        COMPACT,
        now_ms,
        map_bytes,
        log.transactions.kept_batches(),
        lambda _: None,
        log.transactions.aborted_entries(plan.segments[0].base_offset),
    )
    for path in run_now(log.installing_cleaned(result, open_cleaned(log._disk, log.directory, result, 100))):
        log._disk.remove(path)


def headers(log: PartitionLog) -> list[BatchHeader]:
    return [header for header, _ in split(read_bytes(log))]


def markers(log: PartitionLog) -> list[int]:
    """Return the offsets of the markers that are left with their records."""
    return [header.base_offset for header in headers(log) if header.is_control and header.record_count]


def committed(log: PartitionLog) -> dict[str, str | None]:
    """Return the latest value of each key that a consumer of committed records sees."""
    log.transactions.high_watermark_advanced(log.log_end_offset)
    upper = log.transactions.last_stable_offset(log.log_end_offset)
    batches = [(header, batch) for header, batch in split(read_bytes(log)) if header.last_offset < upper]
    records = committed_records(batches, log.transactions.aborted(log.log_start_offset, upper))
    found = {(record.key or b"").decode(): record.value for record in records}
    return {key: None if value is None else value.decode() for key, value in found.items()}


def test_aborted_records_go_and_replace_nothing_while_committed_ones_do() -> None:
    log = new_log()
    write(log, "a", "1")
    write(log, "b", "1")
    write(log, "a", "aborted", 7, 0)
    end(log, 7, ABORT)
    write(log, "b", "2", 7, 1)
    end(log, 7, COMMIT)
    write(log, "c", "1")
    compact(log)
    assert committed(log) == {"a": "1", "b": "2", "c": "1"}
    assert [header.base_offset for header in headers(log) if header.record_count] == [0, 3, 4, 5, 6]


def test_an_abort_before_the_part_to_be_cleaned_says_nothing_of_its_producers_next_transaction() -> None:
    log = new_log()
    write(log, "a", "aborted", 7, 0)
    end(log, 7, ABORT)
    first = write(log, "b", "1")
    write(log, "b", "2", 7, 1)
    end(log, 7, COMMIT)
    write(log, "c", "1")
    compact(log, cleaned_to=first)
    assert committed(log) == {"b": "2", "c": "1"}
    assert first not in [header.base_offset for header in headers(log)]


def test_a_segment_keeps_its_index_of_aborted_transactions_when_none_is_left() -> None:
    """A recovery would take it for lost, and read the segment to build it again."""
    disk = MemoryDisk()
    log = new_log(disk)
    write(log, "a", "aborted", 7, 0)
    end(log, 7, ABORT)
    write(log, "b", "1", 7, 1)
    end(log, 7, COMMIT)
    for _ in range(2):
        compact(log)
    assert log.transactions.aborted(Offset(0), Offset(99)) == []
    first = log.segments()[0]
    log.close()
    assert first.path.replace(".log", ".txnindex") in [f"{log.directory}/{name}" for name in disk.list(log.directory)]


def test_what_is_undecided_is_not_touched() -> None:
    log = new_log()
    write(log, "a", "1")
    run_now(log.rolling())
    write(log, "a", "open", 7, 0)
    run_now(log.rolling())
    write(log, "b", "1")
    compact(log)
    assert [header.base_offset for header in headers(log)] == [0, 1, 2]
    end(log, 7, ABORT)
    compact(log)
    assert committed(log) == {"a": "1", "b": "1"}


def test_a_marker_stays_until_a_cleaning_finds_nothing_of_its_transaction_and_the_horizon_has_passed() -> None:
    log = new_log()
    write(log, "a", "aborted", 7, 0)
    marker = end(log, 7, ABORT, epoch=1, transaction_version=2)
    write(log, "b", "1", 7, 0, epoch=1)
    later = end(log, 7, COMMIT, epoch=2, transaction_version=2)
    write(log, "z", "1")
    compact(log)
    assert markers(log) == [marker, later], "its records were there when the cleaning began"
    assert len(log.transactions.aborted(Offset(0), Offset(99))) == 1
    compact(log)
    horizon_ms = NOW_MS + RETENTION_MS
    assert [header.delete_horizon_ms for header in headers(log) if header.base_offset == marker] == [horizon_ms]
    assert log.transactions.aborted(Offset(0), Offset(99)) == [], "no consumer needs it"
    compact(log, horizon_ms - 1)
    assert markers(log) == [marker, later]
    compact(log, horizon_ms)
    assert markers(log) == [later], "the transaction of the later one still has a record"
    write(log, "b", "2")
    for now_ms in (horizon_ms, horizon_ms, horizon_ms + RETENTION_MS):
        compact(log, now_ms)
    assert markers(log) == []
    assert committed(log) == {"b": "2", "z": "1"}


def test_the_header_that_holds_the_producers_state_stays() -> None:
    disk = MemoryDisk()
    log = new_log(disk)
    write(log, "a", "aborted", 7, 0)
    write(log, "a", "aborted", 7, 1)
    end(log, 7, ABORT)
    write(log, "b", "aborted", 8, 0)
    end(log, 8, ABORT, epoch=1, transaction_version=2)
    write(log, "z", "1")
    for number in range(4):
        compact(log, NOW_MS + number * RETENTION_MS)
    left = [(header.producer_id, header.base_offset, header.record_count) for header in headers(log)]
    assert left[:2] == [(7, 1, 0), (7, 2, 1)], "with a marker, as long as a batch of the transaction is there"
    assert left[2:] == [(8, 4, 0), (-1, 5, 1)], "the epoch of the bump"
    log.close()
    for name in disk.list(log.directory):
        if name.endswith(".snapshot"):
            disk.remove(f"{log.directory}/{name}")
    opened = open_log(disk, COMPACT, clean_shutdown=True)
    assert opened.producers[7].last_sequence == 1
    assert opened.producers[8].epoch == 1


def test_a_transaction_across_segments_is_aborted_in_all_of_them() -> None:
    log = new_log()
    write(log, "a", "1")
    write(log, "a", "aborted", 7, 0)
    run_now(log.rolling())
    write(log, "b", "1")
    run_now(log.rolling())
    write(log, "b", "aborted", 7, 1)
    run_now(log.rolling())
    write(log, "c", "1")
    run_now(log.rolling())
    end(log, 7, ABORT)
    write(log, "d", "1")
    compact(log)
    assert committed(log) == {"a": "1", "b": "1", "c": "1", "d": "1"}


@pytest.mark.parametrize("seed", range(150))
def test_compaction_changes_nothing_that_consumers_of_committed_records_conclude(seed: int) -> None:
    random = Random(seed)
    disk = MemoryDisk()
    log = new_log(disk)
    now_ms = NOW_MS
    sequences, open_producers = {7: 0, 8: 0, 9: 0}, set()
    for number in range(random.randint(5, 60)):
        producer_id = random.choice((7, 8, 9, -1))
        if producer_id in open_producers and random.random() < 0.5:
            end(log, producer_id, random.choice((COMMIT, ABORT)))
            open_producers.discard(producer_id)
        else:
            value = None if random.random() < 0.1 else str(number)
            write(log, random.choice("abcdefghijklmnop"), value, producer_id, sequences.get(producer_id, -1))
            if producer_id >= 0:
                sequences[producer_id] += 1
                open_producers.add(producer_id)
        if random.random() < 0.2:
            run_now(log.rolling())
        if random.random() < 0.1:
            now_ms += random.choice((0, RETENTION_MS))
            before = values(committed(log))
            compact(log, now_ms, map_bytes=random.choice((1 << 20, 300)))
            assert values(committed(log)) == before
            assert verify_partition(disk, log.directory).findings == ()
        if random.random() < 0.05:
            clean_shutdown = random.random() < 0.5
            before = values(committed(log))
            log.close()
            assert verify_partition(disk, log.directory, was_closed=True).findings == ()
            for name in disk.list(log.directory):
                if name.endswith(".txnindex") and random.random() < 0.5:
                    disk.remove(f"{log.directory}/{name}")
            log = open_log(disk, COMPACT, clean_shutdown)
            assert values(committed(log)) == before


def values(found: dict[str, str | None]) -> dict[str, str]:
    """Without the tombstones, which a cleaning may drop."""
    return {key: value for key, value in found.items() if value is not None}
