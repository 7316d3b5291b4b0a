from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from kraft.log.format.compression import PIECE_BYTES, Codec
from kraft.log.format.record_batch import _assemble, build_batch, read_header, rebuild_batch
from kraft.log.format.record_codec import Record, RecordColumns
from kraft.model.errors import ErrorCode
from kraft.model.ids import Offset
from kraft.model.plain_records import (
    FetchRecordsRequest,
    FetchRecordsResponse,
    PlainHeader,
    PlainRecord,
    ProduceRecordsRequest,
)
from kraft.model.produce import ProducePartitionResult
from kraft.server.handlers import plain_records
from kraft.server.handlers.plain_records import FETCHED_BYTES_MAX, FETCHED_RECORDS_MAX, PlainRecordsHandler
from kraft.server.loop.slow_reads import SlowReads
from tests.support.server.fetch_handlers import fetch_handler
from tests.support.server.produce_handlers import produce_handler
from tests.support.server.replicas import (
    WALL_MS,
    Broker,
    InlineExecutor,
    append_to,
    batch,
    follow,
    lead,
    leaders_batch,
    made,
    settle,
)

pytestmark = pytest.mark.real_time


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path, sync_before_ack=False)


def produce(broker: Broker, *records: PlainRecord, acks: int = 1) -> ProducePartitionResult:
    request = ProduceRecordsRequest(topic="orders", partition=0, acks=acks, timeout_ms=1_000, records=list(records))
    return asyncio.run(_handler(broker).produce(request))


def fetch(broker: Broker, offset: int = 0, max_bytes: int = 1 << 20) -> FetchRecordsResponse:
    request = FetchRecordsRequest(topic="orders", partition=0, fetch_offset=offset, max_wait_ms=0, max_bytes=max_bytes)
    return asyncio.run(_handler(broker).fetch(request))


def _handler(broker: Broker) -> PlainRecordsHandler:
    produce, fetch = produce_handler(broker.partitions), fetch_handler(broker.partitions)
    return PlainRecordsHandler(produce, fetch, SlowReads(InlineExecutor()), lambda: WALL_MS)


def test_plain_records_come_back_as_they_went_with_their_offsets(broker: Broker) -> None:
    lead(broker.open(), replicas=(1,))
    header = PlainHeader(key="trace", value=None)
    assert (
        produce(broker, PlainRecord(key=b"k", value=b"v", headers=[header], timestamp_ms=WALL_MS - 5)).base_offset == 0
    )
    assert produce(broker, PlainRecord(value=b"")).base_offset == 1
    assert fetch(broker).records == [
        PlainRecord(key=b"k", value=b"v", headers=[header], timestamp_ms=WALL_MS - 5, offset=0),
        PlainRecord(key=None, value=b"", timestamp_ms=WALL_MS, offset=1),
    ]
    assert fetch(broker).high_watermark == 2


def test_records_before_the_one_asked_for_are_left_out_although_their_batch_is_read(broker: Broker) -> None:
    lead(broker.open(), replicas=(1,))
    produce(broker, *(PlainRecord(value=value) for value in (b"a", b"b", b"c")))
    assert [record.value for record in fetch(broker, offset=2).records] == [b"c"]


def test_compressed_batches_of_other_producers_are_read_as_plain_records(broker: Broker) -> None:
    partition = broker.open()
    lead(partition, replicas=(1,))
    append_to(partition, build_batch([Record(0, 1, None, b"a")], codec=Codec.ZSTD), 1)
    assert [record.value for record in fetch(broker).records] == [b"a"]


def test_no_records_are_refused(broker: Broker) -> None:
    assert produce(broker).error_code is ErrorCode.INVALID_REQUEST


def test_a_timestamp_before_1970_is_refused(broker: Broker) -> None:
    lead(broker.open(), replicas=(1,))
    result = produce(broker, PlainRecord(value=b"a", timestamp_ms=-(2**63)), PlainRecord(timestamp_ms=2**63 - 1))
    assert result.error_code is ErrorCode.INVALID_TIMESTAMP
    assert produce(broker, PlainRecord(timestamp_ms=0), PlainRecord(timestamp_ms=WALL_MS)).base_offset == 0


def test_acks_0_is_answered_without_an_offset(broker: Broker) -> None:
    lead(broker.open(), replicas=(1,))
    result = produce(broker, PlainRecord(value=b"a"), acks=0)
    assert (result.error_code, result.base_offset) == (ErrorCode.NONE, -1)


def test_errors_are_those_of_the_calls_beneath(broker: Broker) -> None:
    assert produce(broker, PlainRecord(value=b"a")).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetch(broker).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    lead(broker.open(), replicas=(1,))
    assert fetch(broker, offset=1).error_code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_batch_whose_inside_is_damaged_although_its_checksum_fits_is_an_error_of_that_answer(broker: Broker) -> None:
    partition = broker.open()
    lead(partition, replicas=(1,))
    append_to(partition, _with_garbage_inside(), 1)
    response = fetch(broker)
    assert (response.error_code, response.records) == (ErrorCode.CORRUPT_MESSAGE, [])
    assert partition.high_watermark == Offset(1)


def test_an_answer_holds_so_many_records_and_the_next_goes_on_inside_the_batch(broker: Broker) -> None:
    partition = broker.open()
    lead(partition, replicas=(1,))
    count = 2 * FETCHED_RECORDS_MAX + 5
    append_to(partition, build_batch([Record(0, 1, None, b"") for _ in range(count)], Codec.ZSTD), 1)
    offset, sizes = 0, list[int]()
    while offset < count:
        records = fetch(broker, offset).records
        assert [record.offset for record in records] == list(range(offset, offset + len(records)))
        sizes.append(len(records))
        offset += len(records)
    assert sizes == [FETCHED_RECORDS_MAX, FETCHED_RECORDS_MAX, 5]


def test_an_answer_holds_so_many_bytes_unless_its_first_record_is_larger(broker: Broker) -> None:
    partition = broker.open()
    lead(partition, replicas=(1,))
    large = [Record(0, 1, None, bytes(FETCHED_BYTES_MAX // 3)) for _ in range(5)]
    append_to(partition, build_batch(large, Codec.ZSTD), 1)
    append_to(partition, build_batch([Record(0, 1, None, bytes(2 * FETCHED_BYTES_MAX))], Codec.ZSTD), 1)
    lengths = [len(fetch(broker, offset, max_bytes=1 << 30).records) for offset in range(6)]
    assert lengths == [2, 2, 2, 2, 1, 1]
    assert [len(fetch(broker, 0, max_bytes=asked).records) for asked in (0, 1, FETCHED_BYTES_MAX // 2)] == [1, 1, 1]


def test_batches_without_a_record_for_consumers_are_passed_over(broker: Broker) -> None:
    partition = broker.open()
    follow(partition)
    emptied = rebuild_batch(read_header(leaders_batch("a", at=0)), RecordColumns([], [], [], [], []))
    made(partition, partition.append_as_follower(emptied))
    made(partition, partition.append_as_follower(leaders_batch("b", at=1)))
    lead(partition, replicas=(1,), epoch=1)
    assert [record.value for record in fetch(broker, max_bytes=1).records] == [b"b"]


async def test_a_wait_for_records_ends_when_there_are_some(broker: Broker) -> None:
    partition = broker.open()
    lead(partition, replicas=(1,))
    request = FetchRecordsRequest(topic="orders", partition=0, fetch_offset=0, max_wait_ms=60_000, max_bytes=1 << 20)
    waiting = asyncio.ensure_future(_handler(broker).fetch(request))
    await settle()
    assert not waiting.done()
    append_to(partition, batch("a"), 1)
    async with asyncio.timeout(10):
        assert [record.value for record in (await waiting).records] == [b"a"]
    assert (await _handler(broker).fetch(replace(request, fetch_offset=1, max_wait_ms=1))).records == []


async def test_others_have_their_turn_while_a_batch_is_unpacked(broker: Broker) -> None:
    partition = broker.open()
    lead(partition, replicas=(1,))
    count, pieces = 40 * PIECE_BYTES // 1_000, 40
    append_to(partition, build_batch([Record(0, 1, None, bytes(1_000)) for _ in range(count)], Codec.ZSTD), 1)
    request = FetchRecordsRequest(topic="orders", partition=0, fetch_offset=count - 1, max_wait_ms=0, max_bytes=1 << 20)
    fetching = asyncio.ensure_future(_handler(broker).fetch(request))
    turns = 0
    while not fetching.done():
        await asyncio.sleep(0)
        turns += 1
    assert [record.offset for record in fetching.result().records] == [count - 1]
    assert turns >= pieces


def test_unpacking_that_takes_too_long_times_out(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    lead(broker.open(), replicas=(1,))
    produce(broker, PlainRecord(value=b"a"))
    monkeypatch.setattr(plain_records, "UNPACK_S_MAX", 0.0)
    assert fetch(broker).error_code is ErrorCode.REQUEST_TIMED_OUT


def _with_garbage_inside() -> bytes:
    """A batch that is marked as gzip and is not. A broker does not look inside the batches that it receives."""
    return _assemble(
        payload=b"not gzip at all",
        attributes=int(Codec.GZIP),
        record_count=1,
        base_timestamp_ms=1,
        max_timestamp_ms=1,
        producer=(-1, -1, -1),
        base_offset=0,
        leader_epoch=-1,
    )
