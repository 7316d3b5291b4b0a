"""How long the changes of a log compute on the event loop, which runs their own code, and in each of their steps."""

from __future__ import annotations

import time
from errno import EMFILE
from typing import NamedTuple

import pytest

from kraft.log.change import Change, ChangeUnderWay, run_now
from kraft.log.format.control_record import EndTransactionMarker, MarkerType, build_marker
from kraft.log.format.record_batch import build_batch, with_assigned_offsets
from kraft.log.format.record_codec import Record
from kraft.log.partition_log import PartitionLog
from kraft.log.topic_config import TopicConfig
from kraft.model.ids import Offset
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.log.log_building import EPOCH, append, open_log
from tests.support.log.transactional_log import transactional

LOOP_S_MAX = 0.040
"""A collection of garbage in a process of many tests takes half of it."""

STEP_S_MAX = 0.200
"""A step shares its thread with the syncs of other logs only."""

BATCHES = 100_000
ABORTED = 20_000


class Longest(NamedTuple):
    """Computing time of the longest part of a change on the loop, and of its longest step."""

    on_loop_s: float
    step_s: float


def longest_of(change: Change[Offset]) -> Longest:
    on_loop_s = step_s = 0.0
    before_s = time.thread_time()
    under_way = ChangeUnderWay(change)
    on_loop_s = max(on_loop_s, time.thread_time() - before_s)
    while under_way.step is not None:
        before_s = time.thread_time()
        under_way.step.run()
        after_s = time.thread_time()
        under_way.resume()
        on_loop_s, step_s = max(on_loop_s, time.thread_time() - after_s), max(step_s, after_s - before_s)
    return Longest(on_loop_s, step_s)


def batches_of(producer_id: int, begin: int, count: int) -> bytes:
    """Return batches of one record each, as their leader has them in its log."""
    record = [Record(0, 1000, None, b"v")]
    found: list[bytes | bytearray | memoryview] = []
    for number in range(begin, begin + count):
        batch = build_batch(record, producer_id=producer_id, producer_epoch=0, base_sequence=number)
        found.extend(with_assigned_offsets(memoryview(batch), Offset(number), EPOCH, None))
    return b"".join(found)


def aborted_transaction(producer_id: int, begin: int) -> bytes:
    """Return a batch and the marker that aborts it, as their leader has them in its log."""
    marker = EndTransactionMarker(type=MarkerType.ABORT, coordinator_epoch=0)
    batches = transactional(producer_id, 0, "v"), build_marker(marker, producer_id, 0, 1000)
    return b"".join(
        piece
        for offset, batch in enumerate(batches, begin)
        for piece in with_assigned_offsets(memoryview(batch), Offset(offset), EPOCH, None)
    )


def log_of_small_batches(config: TopicConfig) -> PartitionLog:
    log = open_log(MemoryDisk(), config)
    for begin in range(0, BATCHES, 1_000):
        log.append_as_follower(batches_of(7, begin, 1_000))
    return log


def test_a_truncation_reads_the_batches_for_the_state_of_producers_in_steps() -> None:
    log = log_of_small_batches(TopicConfig())
    longest = longest_of(log.truncating_to(Offset(BATCHES - 10)))
    assert log.log_end_offset == BATCHES - 10
    assert [batch.last_offset for batch in log.producers[7].batches] == list(range(BATCHES - 15, BATCHES - 10))
    assert longest.on_loop_s < LOOP_S_MAX
    assert longest.step_s < STEP_S_MAX


def test_a_truncation_into_a_closed_segment_decodes_its_indexes_in_a_step() -> None:
    log = log_of_small_batches(TopicConfig(index_interval_bytes=0))
    run_now(log.rolling())
    append(log, "cut off")
    longest = longest_of(log.truncating_to(Offset(BATCHES - 10)))
    assert log.log_end_offset == BATCHES - 10
    assert longest.on_loop_s < LOOP_S_MAX


@pytest.mark.slow
def test_a_truncation_finds_the_aborted_transactions_that_it_cuts_off_without_decoding_all() -> None:
    log = open_log(MemoryDisk())
    for producer_id in range(ABORTED):
        log.append_as_follower(aborted_transaction(producer_id, log.log_end_offset))
    longest = longest_of(log.truncating_to(Offset(2 * ABORTED - 1)))
    assert len(log.transactions.aborted(Offset(0), Offset(2 * ABORTED))) == ABORTED - 1
    assert longest.on_loop_s < LOOP_S_MAX


def test_a_truncation_into_a_closed_segment_opens_files_only_in_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()
    log = open_log(disk, TopicConfig(segment_bytes=1000, index_interval_bytes=100))
    for number in range(60):
        append(log, str(number))
    read_file, in_step = disk.read_file, False

    def read(path: str) -> bytes:
        if not in_step:
            raise OSError(EMFILE, "Too many open files")
        return read_file(path)

    monkeypatch.setattr(disk, "read_file", read)
    change = ChangeUnderWay(log.truncating_to(Offset(10)))
    while change.step is not None:
        in_step = True
        change.step.run()
        in_step = False
        change.resume()
    assert (change.result, log.failure) == (10, None)
