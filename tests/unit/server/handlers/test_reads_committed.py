"""Fetch and ListOffsets of consumers that read committed records."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from kraft.log.append_work import AppendOrigin
from kraft.log.change import run_now
from kraft.log.format.control_record import EndTransactionMarker, MarkerType, build_marker
from kraft.log.format.record_batch import split
from kraft.log.segment import aborted_index
from kraft.log.segment.aborted_index import ENTRIES_PER_BLOCK
from kraft.model.errors import ErrorCode
from kraft.model.fetch import AbortedTransaction, FetchRequest, FetchResponse
from kraft.model.ids import Offset
from kraft.model.list_offsets import LATEST_TIMESTAMP, MAX_TIMESTAMP
from kraft.server.handlers import fetch
from kraft.server.handlers.list_offsets import ListOffsetsHandler
from kraft.server.loop.slow_reads import SlowReads
from kraft.server.replica.partition import Partition
from tests.support.log.transactional_log import ABORT, COMMIT, COORDINATOR, VERIFIED, transactional
from tests.support.server.fetch_handlers import fetch_handler
from tests.support.server.offset_lookups import answers
from tests.support.server.replicas import (
    Broker,
    InlineExecutor,
    append_to,
    batch,
    fetched,
    follow,
    lead,
    made,
    settle,
    values_of,
)
from tests.unit.server.handlers.fetches import asking, request
from tests.unit.server.handlers.held_appends import HeldExecutor


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


def alone(broker: Broker) -> Partition:
    partition = broker.open()
    lead(partition, replicas=(1,))
    return partition


def write(broker: Broker, partition: Partition, records: bytes, origin: AppendOrigin = VERIFIED) -> None:
    append_to(partition, records, 1, origin)
    broker.sync()


def marker(kind: MarkerType, producer_id: int = 7) -> bytes:
    return build_marker(EndTransactionMarker(type=kind, coordinator_epoch=0), producer_id, 0, 1_000)


def committed_only(wanted: FetchRequest) -> FetchRequest:
    return replace(wanted, reads_committed=True)


async def test_a_fetch_of_committed_records_ends_at_the_last_stable_offset(broker: Broker) -> None:
    partition = alone(broker)
    write(broker, partition, batch("a"))
    write(broker, partition, transactional(7, 0, "b"))
    write(broker, partition, batch("c"))
    handler = fetch_handler(broker.partitions)
    (result,) = (await handler.handle(committed_only(request(asking())))).partitions
    assert (values_of(result.records), result.last_stable_offset, result.high_watermark) == (["a"], 1, 3)
    (result,) = (await handler.handle(request(asking()))).partitions
    assert (values_of(result.records), result.last_stable_offset) == (["a", "b", "c"], 1)


async def test_a_consumer_of_committed_records_is_woken_by_the_replicated_marker(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    write(broker, partition, transactional(7, 0, "a"))
    fetched(partition, 1)
    wanted = committed_only(request(asking(), max_wait_ms=60_000))
    waiting = asyncio.ensure_future(fetch_handler(broker.partitions).handle(wanted))
    await settle()
    write(broker, partition, marker(COMMIT), COORDINATOR)
    await settle()
    assert not waiting.done()
    fetched(partition, 2)
    (result,) = (await waiting).partitions
    assert (values_of(result.records), result.last_stable_offset) == (["a"], 2)


async def test_the_aborted_transactions_among_the_records_are_named(broker: Broker) -> None:
    partition = alone(broker)
    for number, kind in enumerate((COMMIT, ABORT, ABORT)):
        write(broker, partition, transactional(7, number, str(number)))
        write(broker, partition, marker(kind), COORDINATOR)
    handler = fetch_handler(broker.partitions)
    (result,) = (await handler.handle(committed_only(request(asking())))).partitions
    assert [each.first_offset for each in result.aborted] == [2, 4]
    (result,) = (await handler.handle(committed_only(request(asking(bytes_max=1))))).partitions
    assert (len(split(result.records)), result.aborted) == (1, [])
    (result,) = (await handler.handle(committed_only(request(asking(2, bytes_max=1))))).partitions
    assert result.aborted == [AbortedTransaction(producer_id=7, first_offset=2)]
    (result,) = (await handler.handle(request(asking()))).partitions
    assert result.aborted == []


async def test_a_lost_index_is_an_error_of_the_partition_not_a_committed_record(broker: Broker) -> None:
    partition = alone(broker)
    write(broker, partition, transactional(7, 0, "a"))
    write(broker, partition, marker(ABORT), COORDINATOR)
    run_now(partition.log.rolling())
    directory = partition.log.directory
    (index,) = [name for name in broker.disk.list(directory) if name.endswith(".txnindex")]
    broker.disk.remove(f"{directory}/{index}")
    (result,) = (await fetch_handler(broker.partitions).handle(committed_only(request(asking())))).partitions
    assert (result.error_code, result.records) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")
    assert len(broker.failures) == 1


async def test_a_new_leader_knows_what_it_has_copied_but_not_what_is_not_replicated(broker: Broker) -> None:
    leading, partition = Broker(Path(f"{broker.directory}/other")), broker.open()
    source = alone(leading)
    write(leading, source, transactional(7, 0, "a"))
    write(leading, source, marker(ABORT), COORDINATOR)
    write(leading, source, transactional(8, 0, "b"))
    follow(partition)
    made(
        partition,
        partition.append_as_follower(source.log.read(source.log.log_start_offset, 1 << 20, source.log.log_end_offset)),
    )
    broker.sync()
    lead(partition, epoch=1)
    assert partition.last_stable_offset == 0
    fetched(partition, 3)
    assert (partition.high_watermark, partition.last_stable_offset) == (3, 2)
    (result,) = (await fetch_handler(broker.partitions).handle(committed_only(request(asking())))).partitions
    assert result.aborted == [AbortedTransaction(producer_id=7, first_offset=0)]


@pytest.mark.real_time
async def test_the_latest_offset_of_committed_records_is_the_last_stable_one_and_no_later_record_is_found(
    broker: Broker,
) -> None:
    partition = alone(broker)
    write(broker, partition, batch("a"))
    write(broker, partition, transactional(7, 0, "b", "c"))
    handler = ListOffsetsHandler(broker.partitions, SlowReads(InlineExecutor()))
    found = []
    for level in (0, 1):
        results = await answers(handler, LATEST_TIMESTAMP, 1_001, MAX_TIMESTAMP, isolation_level=level)
        found.append([result.offset for result in results])
    assert found == [[3, 2, 2], [1, -1, -1]]


# --- a long look-up --------------------------------------------------------------------------------------------------

BESIDE = 3 * ENTRIES_PER_BLOCK
"""Transactions that begin before the one that is read, and are aborted after it."""


@pytest.fixture(name="partition")
def many_aborted(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Partition:
    """A partition whose first batches are of transactions that all end far behind them; a step reads one block."""
    monkeypatch.setattr(aborted_index, "BLOCKS_AT_ONCE", 1)
    partition = alone(broker)
    producers = range(100, 100 + BESIDE)
    for producer_id in producers:
        append_to(partition, transactional(producer_id, 0, str(producer_id)), 1, VERIFIED)
    for producer_id in producers:
        append_to(partition, marker(ABORT, producer_id), 1, COORDINATOR)
    broker.sync()
    return partition


def reading_last() -> FetchRequest:
    """Return a request for one batch: that of the transaction which began last."""
    return committed_only(request(asking(BESIDE - 1, bytes_max=1)))


async def looking_up(broker: Broker, thread: HeldExecutor) -> asyncio.Future[FetchResponse]:
    """Begin a fetch whose look-up waits for the thread."""
    handler = fetch_handler(broker.partitions, slow_reads=SlowReads(thread))
    answer = asyncio.ensure_future(handler.handle(reading_last()))
    await settle()
    return answer


LAST = [AbortedTransaction(producer_id=99 + BESIDE, first_offset=BESIDE - 1)]


@pytest.mark.usefixtures("partition")
async def test_a_long_look_up_is_done_in_a_thread_and_names_only_the_producers_of_the_records(broker: Broker) -> None:
    thread = HeldExecutor()
    answer = await looking_up(broker, thread)
    assert not answer.done()
    await run_all(thread, answer)
    (result,) = (await answer).partitions
    assert (len(split(result.records)), result.aborted) == (1, LAST)


async def test_a_look_up_that_another_role_interrupts_is_begun_again(broker: Broker, partition: Partition) -> None:
    thread = HeldExecutor()
    answer = await looking_up(broker, thread)
    follow(partition, epoch=7)
    await run_all(thread, answer)
    (result,) = (await answer).partitions
    assert (result.error_code, result.records) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, b"")


async def test_a_look_up_in_segments_that_are_gone_is_begun_again(
    broker: Broker, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it finds in their files until then is neither an answer nor a failure of the log."""
    thread = HeldExecutor()
    run_now(partition.log.rolling())
    answer = await looking_up(broker, thread)
    entries = next(iter(partition.log.transactions.aborted_entries(Offset(0))))
    file = broker.disk.open(entries.path, create=False)
    content = file.read_at(0, file.size)
    partition.log._files._being_replaced = partition.log._files.segments[:1]
    file.truncate(34)

    async def replaced(*_: object) -> None:
        file.truncate(0)
        file.append([content])
        partition.log._files._being_replaced = ()

    monkeypatch.setattr(fetch, "wait_for_file_change", replaced)
    await run_all(thread, answer)
    (result,) = (await answer).partitions
    assert (result.error_code, result.aborted, broker.failures) == (ErrorCode.NONE, LAST, [])


@pytest.mark.usefixtures("partition")
async def test_a_long_look_up_for_which_there_is_no_room_or_time_returns_no_records(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = fetch_handler(broker.partitions, slow_reads=SlowReads(HeldExecutor()), waiting_bytes_max=10)
    monkeypatch.setattr(fetch, "LOOK_UP_S_MAX", 0.01)
    late = fetch_handler(broker.partitions, slow_reads=SlowReads(HeldExecutor()))
    for handler in (full, late):
        (result,) = (await handler.handle(reading_last())).partitions
        assert (result.error_code, result.records, result.aborted) == (ErrorCode.NONE, b"", [])


async def test_an_index_that_is_lost_during_a_long_look_up_fails_the_log(broker: Broker, partition: Partition) -> None:
    thread = HeldExecutor()
    run_now(partition.log.rolling())
    answer = await looking_up(broker, thread)
    entries = next(iter(partition.log.transactions.aborted_entries(Offset(0))))
    file = broker.disk.open(entries.path, create=False)
    file.truncate(34)
    await run_all(thread, answer)
    (result,) = (await answer).partitions
    assert (result.error_code, result.records) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")
    assert len(broker.failures) == 1


async def run_all(thread: HeldExecutor, answer: asyncio.Future[FetchResponse]) -> None:
    while not answer.done():
        await settle()
        if thread.submitted:
            await thread.run_next()
