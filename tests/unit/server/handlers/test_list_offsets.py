from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from concurrent.futures import Executor, Future
from errno import EIO, EMFILE
from pathlib import Path
from typing import Any

import pytest

from kraft.log.cleaning.cleaned_segments import open_cleaned
from kraft.log.cleaning.cleaning_plan import plan_cleaning
from kraft.log.cleaning.compaction import clean
from kraft.log.format.compression import PIECE_BYTES, Codec
from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.log.partition_log import PartitionLog
from kraft.model.errors import ErrorCode
from kraft.model.ids import Offset
from kraft.model.list_offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)
from kraft.replication.effects import TruncateTo
from kraft.server.handlers import list_offsets
from kraft.server.handlers.list_offsets import PARTITIONS_AT_ONCE, ListOffsetsHandler
from kraft.server.loop.slow_reads import SlowReads
from kraft.server.replica.partition import Partition
from kraft.wire.schema.list_offsets import ListOffsetsPartitionResponse
from tests.support.server.offset_lookups import answers
from tests.support.server.replicas import (
    WALL_MS,
    Broker,
    InlineExecutor,
    append_to,
    batch,
    fetched,
    follow,
    lead,
    leaders_batch,
    made,
    remove_directory,
)

pytestmark = pytest.mark.real_time


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


class Meanwhile(InlineExecutor):
    """A thread that calls one function on the loop before its first step, and another one after it."""

    def __init__(
        self, before: Callable[[], object] = lambda: None, behind: Callable[[], object] = lambda: None
    ) -> None:
        self.tasks = 0
        self._before = before
        self._behind = behind

    def submit(self, work: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        self.tasks += 1
        if self.tasks == 1:
            self._before()
        done = super().submit(work, *arguments, **named)
        if self.tasks == 1:
            self._behind()
        return done


def handler(broker: Broker, thread: Executor | None = None) -> ListOffsetsHandler:
    return ListOffsetsHandler(broker.partitions, SlowReads(thread or InlineExecutor()))


def ask(
    broker: Broker, timestamp_ms: int, *, epoch: int = -1, thread: Executor | None = None
) -> ListOffsetsPartitionResponse:
    (result,) = asyncio.run(answers(handler(broker, thread), timestamp_ms, epoch=epoch))
    return result


def with_three_of_four_committed(broker: Broker) -> None:
    """Records at 1000, 1001, 1000 and 1001 ms; the last one is not committed."""
    partition = broker.open()
    lead(partition, epoch=2)
    append_to(partition, batch("a", "b"), 1)
    append_to(partition, batch("c", "d"), 1)
    broker.sync()
    fetched(partition, 3)
    assert partition.high_watermark == 3


@pytest.mark.parametrize(
    ("timestamp_ms", "offset", "at_ms"),
    [
        (EARLIEST_TIMESTAMP, 0, -1),
        (LATEST_TIMESTAMP, 3, -1),
        (MAX_TIMESTAMP, 1, 1_001),
        (0, 0, 1_000),
        (1_001, 1, 1_001),
        (1_002, -1, -1),
    ],
)
def test_offsets_are_those_that_consumers_may_see(broker: Broker, timestamp_ms: int, offset: int, at_ms: int) -> None:
    with_three_of_four_committed(broker)
    result = ask(broker, timestamp_ms)
    assert (result.error_code, result.offset, result.timestamp, result.leader_epoch) == (
        ErrorCode.NONE,
        offset,
        at_ms,
        2 if offset >= 0 else -1,
    )


@pytest.mark.parametrize(
    ("timestamp_ms", "epoch"),
    [(EARLIEST_TIMESTAMP, 2), (1_001, 2), (MAX_TIMESTAMP, 2), (LATEST_TIMESTAMP, 5), (9_000, -1)],
)
def test_the_epoch_is_that_of_the_record_and_at_the_end_the_leaders(
    broker: Broker, timestamp_ms: int, epoch: int
) -> None:
    partition = broker.open()
    lead(partition, replicas=(1,), epoch=2)
    append_to(partition, batch("a", "b"), 1)
    broker.sync()
    follow(partition, epoch=4)
    lead(partition, replicas=(1,), epoch=5)
    assert ask(broker, timestamp_ms).leader_epoch == epoch


def test_the_epoch_of_a_log_without_records_is_the_leaders(broker: Broker) -> None:
    partition = broker.open()
    lead(partition, replicas=(1,), epoch=2)
    append_to(partition, batch("a"), 1)
    broker.sync()
    made(partition, partition.delete_records(1)[1])
    lead(partition, replicas=(1,), epoch=5)
    result = ask(broker, EARLIEST_TIMESTAMP)
    assert (result.offset, result.leader_epoch) == (1, 5)


def test_a_record_that_is_not_committed_is_not_found(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    append_to(partition, batch("a"), 1)
    assert (ask(broker, 0).offset, ask(broker, MAX_TIMESTAMP).offset) == (-1, -1)


def test_an_empty_log_begins_and_ends_at_its_start(broker: Broker) -> None:
    lead(broker.open(), replicas=(1,))
    assert [ask(broker, special).offset for special in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP, 5)] == [
        0,
        0,
        -1,
        -1,
    ]


def test_a_new_leader_that_does_not_know_yet_what_was_committed_does_not_guess(broker: Broker) -> None:
    partition = broker.open()
    follow(partition)
    made(partition, partition.append_as_follower(leaders_batch("a", "b", at=0)))
    broker.sync()
    lead(partition, epoch=1)
    assert ask(broker, LATEST_TIMESTAMP).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert ask(broker, EARLIEST_TIMESTAMP).error_code == ErrorCode.NONE
    fetched(partition, 2)
    assert ask(broker, LATEST_TIMESTAMP).offset == 2


def test_other_negative_timestamps_stand_for_nothing_here(broker: Broker) -> None:
    lead(broker.open(), replicas=(1,))
    assert ask(broker, -7).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_the_local_log_begins_where_the_log_does_and_nothing_is_tiered(broker: Broker) -> None:
    partition = broker.open()
    lead(partition, replicas=(1,))
    assert (ask(broker, EARLIEST_LOCAL_TIMESTAMP).error_code, ask(broker, EARLIEST_LOCAL_TIMESTAMP).offset) == (0, 0)
    for timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
        assert (ask(broker, timestamp).error_code, ask(broker, timestamp).offset) == (0, -1)


def test_only_the_leader_in_the_epoch_that_the_client_knows_answers(broker: Broker) -> None:
    assert ask(broker, LATEST_TIMESTAMP).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    partition = broker.open()
    follow(partition)
    assert ask(broker, LATEST_TIMESTAMP).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    lead(partition, epoch=2)
    assert ask(broker, LATEST_TIMESTAMP, epoch=1).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert ask(broker, LATEST_TIMESTAMP, epoch=3).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


async def test_others_have_their_turn_while_very_many_partitions_are_looked_up(broker: Broker) -> None:
    asked = answers(handler(broker), *[LATEST_TIMESTAMP] * 2_000)
    looking = asyncio.ensure_future(asked)
    turns = 0
    while not looking.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 2_000 // PARTITIONS_AT_ONCE


# --- by time, while the partition changes --------------------------------------------------------------------


def with_a_record_a_second(broker: Broker, count: int = 6, **configs: Any) -> Partition:
    """Committed records at 1,000 ms, 2,000 ms and so on, each in a segment of its own."""
    partition = broker.open(segment_bytes=100, index_interval_bytes=0, retention_ms=-1, **configs)
    lead(partition, replicas=(1,), epoch=2)
    for number in range(count):
        append_to(partition, build_batch([Record(0, 1_000 * (number + 1), b"k", b"v" * 30)]), 1)
        broker.sync()
    return partition


def test_only_what_needs_a_record_looked_up_asks_for_the_thread(broker: Broker) -> None:
    with_a_record_a_second(broker)
    thread = Meanwhile()
    for special in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP, LATEST_TIERED_TIMESTAMP, -9):
        ask(broker, special, thread=thread)
    assert thread.tasks == 0
    assert ask(broker, 1_500, thread=thread).offset == 1
    assert ask(broker, MAX_TIMESTAMP, thread=thread).offset == 5
    assert thread.tasks >= 2


@pytest.mark.parametrize("when", ["before", "behind"])
def test_what_was_read_while_another_leader_came_is_not_given_out(broker: Broker, when: str) -> None:
    partition = with_a_record_a_second(broker)
    thread = Meanwhile(**{when: lambda: follow(partition, epoch=3)})
    assert ask(broker, 1_500, thread=thread).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("when", ["before", "behind"])
def test_a_leader_that_comes_back_with_another_log_looks_into_that_one(broker: Broker, when: str) -> None:
    partition = with_a_record_a_second(broker)

    def lose_the_tail() -> None:
        follow(partition, epoch=3)
        made(partition, partition.truncate(TruncateTo(offset=Offset(2))))
        made(
            partition,
            partition.append_as_follower(build_batch([Record(2, 7_000, b"k", b"new")], base_offset=2, leader_epoch=3)),
        )
        broker.sync()
        lead(partition, replicas=(1,), epoch=4)

    result = ask(broker, 2_500, thread=Meanwhile(**{when: lose_the_tail}))
    assert (result.offset, result.timestamp, result.leader_epoch) == (2, 7_000, 3)
    fenced = Meanwhile(**{when: lambda: lead(partition, replicas=(1,), epoch=5)})
    assert ask(broker, 2_500, epoch=4, thread=fenced).error_code == ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize("when", ["before", "behind"])
def test_what_was_deleted_meanwhile_is_not_found(broker: Broker, when: str) -> None:
    partition = with_a_record_a_second(broker)

    def delete() -> None:
        made(partition, partition.delete_records(3)[1])
        for path in made(partition, partition.apply_retention()):
            broker.disk.remove(path)

    result = ask(broker, 500, thread=Meanwhile(**{when: delete}))
    assert (result.error_code, result.offset) == (ErrorCode.NONE, 3)
    result = ask(broker, 500, thread=Meanwhile(**{when: lambda: partition.delete_records(4)}))
    assert result.offset == 4, "no file is gone, the record is"


@pytest.mark.parametrize("when", ["before", "behind"])
def test_what_is_deleted_or_fails_meanwhile_is_answered_as_such(broker: Broker, when: str) -> None:
    partition = with_a_record_a_second(broker)

    def drop() -> None:
        broker.partitions.remove(partition)
        partition.retire()
        remove_directory(partition)

    result = ask(broker, 500, thread=Meanwhile(**{when: drop}))
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (broker.failures, broker.corrupt) == ([], [])


@pytest.mark.parametrize("when", ["before", "behind"])
def test_segments_that_were_cleaned_meanwhile_are_looked_into_again(broker: Broker, when: str) -> None:
    partition = with_a_record_a_second(broker, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0)

    def clean_all() -> None:
        log = partition.log
        plan = plan_cleaning(log.segments(), log.config, log.cleaned_end_offset, partition.high_watermark, WALL_MS)
        assert plan is not None
        result = clean(broker.disk, log.directory, plan, log.config, WALL_MS, 1 << 20, {}, lambda _: None, ())
        segments = open_cleaned(broker.disk, log.directory, result, log.config.index_interval_bytes)
        for path in made(partition, partition.replica_log.install_cleaned(result, segments)):
            broker.disk.remove(path)

    result = ask(broker, 500, thread=Meanwhile(**{when: clean_all}))
    assert (result.error_code, result.offset, result.timestamp) == (ErrorCode.NONE, 4, 5_000)


@pytest.mark.parametrize("when", ["before", "behind"])
def test_a_log_that_moved_meanwhile_is_looked_into_where_it_is_now(broker: Broker, when: str) -> None:
    partition = with_a_record_a_second(broker)

    def move() -> None:
        before = partition.log
        path = f"{broker.directory}/elsewhere/orders-0"
        moved = PartitionLog.open(broker.disk, path, before.config, before.topic_partition)
        while moved.log_end_offset < before.log_end_offset:
            moved.append_as_follower(before.read(moved.log_end_offset, 1 << 20, before.log_end_offset))
        moved.take_over(before)
        partition.log_moved(moved)
        partition.log_became_durable()
        shutil.rmtree(before.directory)

    result = ask(broker, 1_500, thread=Meanwhile(**{when: move}))
    assert (result.error_code, result.offset) == (ErrorCode.NONE, 1)
    assert (broker.failures, broker.corrupt) == ([], [])


def test_a_record_not_committed_when_the_look_up_ran_is_not_found(broker: Broker) -> None:
    with_three_of_four_committed(broker)
    partition = broker.partitions.by_name("orders", 0)
    thread = Meanwhile(behind=lambda: append_to(partition, batch("e"), 1))
    assert ask(broker, MAX_TIMESTAMP, thread=thread).offset == 1


def test_a_corrupt_replica_is_reported_and_goes_offline(broker: Broker) -> None:
    partition = with_a_record_a_second(broker)
    path = partition.log.segments()[1].path
    with open(path, "r+b") as file:
        file.seek(70)
        file.write(b"\xff")
    assert ask(broker, 1_500).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(broker.corrupt) == 1


@pytest.mark.parametrize(("number", "failures"), [(EIO, 1), (EMFILE, 0)])
def test_a_disk_that_cannot_be_read_is_out_of_use_but_not_for_want_of_descriptors(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, number: int, failures: int
) -> None:
    with_a_record_a_second(broker)

    def fail(path: str, create: bool) -> Any:
        raise OSError(number, "failed")

    monkeypatch.setattr(broker.disk, "open", fail)
    assert ask(broker, 1_500).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(broker.failures) == failures


def test_a_look_up_that_takes_too_long_times_out(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    with_a_record_a_second(broker)
    monkeypatch.setattr(list_offsets, "LOOK_UP_S_MAX", 0.0)
    assert ask(broker, 1_500).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert ask(broker, LATEST_TIMESTAMP).error_code == ErrorCode.NONE


def test_after_its_time_a_request_asks_for_no_further_look_up(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would cost a turn of the thread, and of the loop: 65,000 of them some ten seconds."""
    with_a_record_a_second(broker)
    monkeypatch.setattr(list_offsets, "LOOK_UP_S_MAX", 0.0)
    thread = Meanwhile()
    codes = [
        each.error_code for each in asyncio.run(answers(handler(broker, thread), *[1_500] * 100, LATEST_TIMESTAMP))
    ]
    assert codes == [ErrorCode.REQUEST_TIMED_OUT] * 100 + [ErrorCode.NONE]
    assert thread.tasks == 0


async def test_others_have_their_turn_while_a_batch_is_unpacked(broker: Broker) -> None:
    partition = broker.open()
    lead(partition, replicas=(1,))
    pieces = 40
    records = [Record(0, 1_000 + at, None, bytes(10_000)) for at in range(pieces * PIECE_BYTES // 10_000)]
    append_to(partition, build_batch(records, Codec.ZSTD), 1)
    broker.sync()
    looking = asyncio.ensure_future(answers(handler(broker), records[-1].timestamp_ms))
    turns = 0
    while not looking.done():
        await asyncio.sleep(0)
        turns += 1
    assert looking.result()[0].offset == len(records) - 1
    assert turns >= pieces
