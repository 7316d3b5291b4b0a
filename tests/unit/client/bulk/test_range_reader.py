"""Bulk reads over sockets, and what they leave to the ordinary path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from kraft.client.bulk import fetch_socket
from kraft.client.bulk.range_reader import DirectLeader, RangeReader
from kraft.client.bulk.sockets import RETRY_FIRST_MS, FetchSockets
from kraft.client.sans_io.partition_state import FetchedChunk
from kraft.client.sans_io.read_epochs import ReadEpochs
from kraft.log.format.record_batch import build_batch, read_header
from kraft.log.format.record_codec import Record
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.fetch import AbortedTransaction
from kraft.model.ids import TopicPartition
from kraft.wire.frame import encode_response
from kraft.wire.schema import fetch
from kraft.wire.schema.fetch import FetchRequest, FetchResponse, PartitionData
from tests.support.client.fetch_listener import (
    Answer,
    FetchListener,
    from_batches,
    offsets_asked,
    oversized,
    response,
)

ORDERS = TopicPartition("orders", 0)
BATCHES = [
    build_batch([Record(0, 0, None, b"v")] * 10, base_offset=base_offset, leader_epoch=base_offset // 20)
    for base_offset in range(0, 50, 10)
]


@dataclass
class Clock:
    now_ms: int = 0

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms


@dataclass
class OrdinaryPath:
    """The path over gRPC: yields a batch at a time, and notes where it began with which epochs."""

    address: str | None
    leader_epoch: int = 7
    began: list[tuple[int, list[tuple[int, int]]]] = field(default_factory=list)
    refusal: Refusal | None = None

    def direct_leader(self, partition: TopicPartition) -> DirectLeader | None:
        return None if self.address is None else DirectLeader(self.address, self.leader_epoch)

    def read_chunks(
        self, partition: TopicPartition, start: int, end: int, epochs: ReadEpochs
    ) -> Iterator[FetchedChunk]:
        self.began.append((start, list(epochs.entries)))
        if self.refusal is not None:
            raise self.refusal
        for batch in BATCHES:
            header = read_header(batch)
            if header.next_offset > start and header.base_offset < end:
                yield FetchedChunk(batch, header.next_offset)


@dataclass
class Reads:
    listener: FetchListener
    path: OrdinaryPath
    sockets: FetchSockets
    clock: Clock

    def reader(self, **limits: int) -> RangeReader:
        return RangeReader(self.path, self.sockets, ORDERS, max_wait_ms=5, reads_committed=True, **limits)

    def read(self, start: int = 0, end: int = 50) -> list[int]:
        """Return the next offsets of the responses with records."""
        return [fetched.next_offset for fetched in self.reader().read(start, end) if fetched.batches]


@pytest.fixture
def reads() -> Iterator[Reads]:
    clock = Clock()
    sockets = FetchSockets("tests", clock)
    with FetchListener(from_batches(BATCHES)) as listener:
        yield Reads(listener, OrdinaryPath(listener.address), sockets, clock)
        sockets.close()


def failing_at(offset: int, answer: FetchResponse | bytes | None) -> Answer:
    """Answer from the batches, except for that offset."""

    def chosen(request: FetchRequest) -> FetchResponse | bytes | None:
        asked = request.topics[0].partitions[0].fetch_offset
        return answer if asked == offset else from_batches(BATCHES)(request)

    return chosen


def test_a_range_is_read_from_the_leaders_listener_alone(reads: Reads) -> None:
    assert reads.read(3, 45) == [10, 20, 30, 40, 50]
    assert offsets_asked(reads.listener) == [3, 10, 20, 30, 40]
    assert reads.path.began == []
    request = reads.listener.requests[0]
    assert (request.isolation_level, request.max_wait_ms, request.session_epoch) == (1, 5, -1)
    assert request.topics[0].partitions[0].current_leader_epoch == 7
    assert request.max_bytes == fetch_socket.RESPONSE_BYTES_MAX


def test_a_smaller_limit_of_the_consumer_counts(reads: Reads) -> None:
    list(reads.reader(bytes_max=70_000).read(0, 10))
    request = reads.listener.requests[0]
    assert (request.max_bytes, request.topics[0].partitions[0].partition_max_bytes) == (70_000, 70_000)


def test_the_next_response_is_requested_before_the_caller_has_the_last_one(reads: Reads) -> None:
    reading = reads.reader().read(0, 50)
    first = next(reading)
    assert (first.next_offset, first.data[first.batches[0][1] :]) == (10, BATCHES[0])
    next(reading)
    assert offsets_asked(reads.listener)[:2] == [0, 10]


def test_where_the_next_response_may_take_long_it_is_said(reads: Reads) -> None:
    reads.listener.answer = failing_at(20, response())
    found = [(each.next_offset, len(each.batches), each.more_follow) for each in reads.reader().read(0, 50)]
    assert found == [(10, 1, True), (20, 1, True), (20, 0, False), (30, 1, False), (40, 1, False), (50, 1, False)]
    reads.clock.now_ms += RETRY_FIRST_MS
    reads.listener.answer = from_batches(BATCHES)
    assert [each.more_follow for each in reads.reader().read(30, 50)] == [True, False]


def test_the_connection_is_kept_for_the_next_range(reads: Reads) -> None:
    assert reads.read(0, 10) == [10]
    assert reads.read(10, 20) == [20]
    assert reads.listener.connections == 1


def test_a_kept_connection_that_was_closed_since_is_replaced(reads: Reads) -> None:
    assert reads.read(0, 10) == [10]
    reads.listener.close_connections()
    assert reads.read(10, 20) == [20]
    assert reads.listener.connections == 2
    assert reads.path.began == []


def test_a_range_that_is_left_early_closes_its_connection(reads: Reads) -> None:
    reading = reads.reader().read(0, 50)
    next(reading)
    reading.close()
    assert reads.read(0, 10) == [10]
    assert reads.listener.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        response(code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        response(code=ErrorCode.FENCED_LEADER_EPOCH),
        response(code=ErrorCode.OFFSET_OUT_OF_RANGE),
        FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, responses=()),
        FetchResponse(responses=()),
        response(),
        response(BATCHES[0]),
        response(BATCHES[2][:-1]),
        response(b"no batch at all" * 9),
        bytes(4),
        oversized(),
        b"\x00\x00\x00\x04\x00\x00\x00\x63",
        b"\x00\x00\x00\x07\x00\x00\x00\x03abc",
        b"".join(encode_response(response(BATCHES[2]), fetch_socket.FETCH_VERSION, 99)),
        None,
    ],
)
def test_whatever_is_no_response_with_records_is_left_to_the_ordinary_path(
    reads: Reads, answer: FetchResponse | bytes | None
) -> None:
    reads.listener.answer = failing_at(20, answer)
    assert reads.read() == [10, 20, 30, 40, 50]
    assert reads.path.began == [(20, [(0, 0)])], "it continues at that offset, and knows the leader epochs before it"


def test_the_ordinary_path_leads_back_after_a_while(reads: Reads) -> None:
    reads.listener.answer = failing_at(20, None)
    reading = reads.reader().read(0, 50)
    assert [next(reading).next_offset for _ in range(4)] == [10, 20, 20, 30]
    reads.clock.now_ms += RETRY_FIRST_MS
    assert [fetched.next_offset for fetched in reading] == [40, 50]
    assert reads.path.began == [(20, [(0, 0)])]
    assert offsets_asked(reads.listener) == [0, 10, 20, 30, 40]


def test_a_leader_that_failed_is_left_longer_each_time(reads: Reads) -> None:
    reads.listener.answer = lambda _: None
    for delay_ms in (RETRY_FIRST_MS, 2 * RETRY_FIRST_MS):
        assert reads.read(0, 10) == [10]
        asked = len(reads.listener.requests)
        reads.clock.now_ms += delay_ms - 1
        assert reads.read(0, 10) == [10]
        assert len(reads.listener.requests) == asked
        reads.clock.now_ms += 1
    reads.listener.answer = from_batches(BATCHES)
    assert reads.read(0, 10) == [10]
    assert len(reads.path.began) == 4


def test_a_leader_that_has_answered_since_is_left_for_a_short_time_again(reads: Reads) -> None:
    for _ in range(3):
        reads.listener.answer = failing_at(20, None)
        assert reads.read(0, 30) == [10, 20, 30]
        reads.clock.now_ms += RETRY_FIRST_MS
    assert [start for start, _ in reads.path.began] == [20, 20, 20]
    assert offsets_asked(reads.listener) == [0, 10, 20] * 3


def test_aborted_transactions_come_with_their_batches(reads: Reads) -> None:
    data = PartitionData(
        partition_index=0,
        error_code=ErrorCode.NONE,
        high_watermark=-1,
        aborted_transactions=(fetch.AbortedTransaction(producer_id=8, first_offset=2),),
        records=BATCHES[0],
    )
    reads.listener.answer = lambda _: FetchResponse(
        responses=(fetch.FetchableTopicResponse(topic="orders", partitions=(data,)),)
    )
    [found] = reads.reader().read(0, 10)
    assert found.aborted == (AbortedTransaction(producer_id=8, first_offset=2),)


def test_without_a_listener_everything_is_read_by_the_ordinary_path(reads: Reads) -> None:
    reads.path.address = None
    assert reads.read() == [10, 20, 30, 40, 50]
    reads.path.address = "127.0.0.1:1"
    assert reads.read() == [10, 20, 30, 40, 50]
    assert reads.listener.requests == []


def test_a_silent_leader_is_given_up(reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_socket, "_QUIET_S_MAX", 0.3)
    reads.listener.answer = failing_at(20, b"\x00\x00\x00\x09\x00")
    assert reads.read() == [10, 20, 30, 40, 50]
    assert reads.path.began[0][0] == 20


def test_the_error_of_the_ordinary_path_is_raised(reads: Reads) -> None:
    reads.path.refusal = Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, "orders-0 does not hold offset 20")
    reads.listener.answer = failing_at(20, response(code=ErrorCode.OFFSET_OUT_OF_RANGE))
    reading = reads.reader().read(0, 50)
    assert [next(reading).next_offset for _ in range(3)] == [10, 20, 20]
    with pytest.raises(Refusal, match="does not hold offset 20"):
        next(reading)


def test_closed_sockets_serve_no_further_range(reads: Reads) -> None:
    assert reads.read(0, 10) == [10]
    reads.sockets.close()
    assert reads.read(0, 10) == [10]
    assert reads.path.began == [(0, [])]
