"""Produce requests of transactions, from the question to the coordinator to the append."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from kraft.log.format.control_record import EndTransactionMarker, build_marker
from kraft.log.format.record_batch import assign_offsets
from kraft.metadata.topic_names import OFFSETS_TOPIC
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import LeaderEpoch, Offset, TopicPartition
from kraft.model.produce import ProducePartition, ProduceRequest
from kraft.server.handlers.produce_verification import TransactionSupport
from kraft.server.replica.partition import Partition
from kraft.server.replica.waiting_appends import WaitingClient
from tests.support.log.transactional_log import ABORT, COMMIT, end
from tests.support.server.replicas import ORDERS_0, batch, fetched, follow, lead, lead_begun, made, settle, values_in
from tests.unit.server.handlers.producing import (
    ADDS,
    ID,
    LATER,
    ORDERS_1,
    PRODUCER,
    VERIFIES,
    Asked,
    Producing,
    codes_of,
    sent,
)


@pytest.fixture
def producing(tmp_path: Path) -> Producing:
    return Producing(tmp_path)


def verifications(partition: Partition) -> int:
    return len(partition.log._producers.verifications)


# --- who is asked, and when ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("support", list(TransactionSupport))
async def test_only_the_first_batch_of_a_transaction_in_a_partition_is_verified(
    producing: Producing, support: TransactionSupport
) -> None:
    assert await producing.codes(sent(0, "a"), support=support) == [ErrorCode.NONE]
    assert await producing.codes(sent(1, "b"), support=support) == [ErrorCode.NONE]
    assert producing.coordinator.asked == [Asked(ID, PRODUCER, 0, (ORDERS_0,), support is ADDS)]
    assert await producing.codes(sent(0, "c"), support=support, number=1) == [ErrorCode.NONE]
    assert len(producing.coordinator.asked) == 2
    end(producing.first.log, PRODUCER, COMMIT)
    assert await producing.codes(sent(2, "d"), support=support) == [ErrorCode.NONE]
    assert len(producing.coordinator.asked) == 3
    assert values_in(producing.first)[:2] == ["a", "b"]


@pytest.mark.parametrize("support", list(TransactionSupport))
async def test_a_transaction_with_its_own_epoch_begins_at_sequence_0(
    producing: Producing, support: TransactionSupport
) -> None:
    """Batches may arrive out of order. A producer of an earlier version continues its last transaction's sequence."""
    begun = await producing.codes(sent(1, "b"), support=support)
    assert begun == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if support is ADDS else ErrorCode.NONE]


async def test_records_outside_of_transactions_are_appended_at_once(producing: Producing) -> None:
    answer = producing.begin(batch("a"))
    assert answer.done()
    assert await codes_of(answer) == [ErrorCode.NONE]
    assert producing.coordinator.asked == []


async def test_what_will_be_refused_anyway_is_not_verified(producing: Producing) -> None:
    follow(producing.first, epoch=2)
    assert await producing.codes(sent(0, "a")) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert await producing.codes(sent(0, "a"), number=9) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert await producing.codes(b"no batch", number=1) == [ErrorCode.CORRUPT_MESSAGE]
    assert producing.coordinator.asked == []


async def test_a_transactional_batch_without_a_transactional_id_is_not_written(producing: Producing) -> None:
    answer = producing.begin(sent(0, "a"), transactional_id="")
    assert await codes_of(answer) == [ErrorCode.INVALID_TXN_STATE]
    assert producing.coordinator.asked == []
    assert values_in(producing.first) == []


async def test_all_partitions_of_a_request_are_asked_for_together_and_answered_in_order(producing: Producing) -> None:
    producing.coordinator.codes[ORDERS_1] = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    request = ProduceRequest(
        request_id=7,
        acks=1,
        timeout_ms=30_000,
        partitions=[
            ProducePartition(topic="orders", partition=1, records=sent(0, "a")),
            ProducePartition(topic="orders", partition=0, records=sent(0, "b")),
            ProducePartition(topic="orders", partition=9, records=sent(0, "c")),
        ],
        transactional_id=ID,
    )
    assert await codes_of(producing.send(request)) == [
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ]
    assert [each.partitions for each in producing.coordinator.asked] == [(ORDERS_1, ORDERS_0)]
    assert (values_in(producing.first), values_in(producing.second)) == (["b"], [])


async def test_two_producers_in_one_request_are_verified_each(producing: Producing) -> None:
    request = ProduceRequest(
        request_id=7,
        acks=1,
        timeout_ms=30_000,
        partitions=[
            ProducePartition(topic="orders", partition=0, records=sent(0, "a")),
            ProducePartition(topic="orders", partition=1, records=sent(0, "b", producer_id=8, epoch=3)),
        ],
        transactional_id=ID,
    )
    assert await codes_of(producing.send(request)) == [ErrorCode.NONE, ErrorCode.NONE]
    assert [(each.producer_id, each.epoch, each.partitions) for each in producing.coordinator.asked] == [
        (7, 0, (ORDERS_0,)),
        (8, 3, (ORDERS_1,)),
    ]


async def test_plain_batches_of_the_same_request_wait_with_it(producing: Producing) -> None:
    producing.coordinator.holds = True
    request = ProduceRequest(
        request_id=7,
        acks=1,
        timeout_ms=30_000,
        partitions=[
            ProducePartition(topic="orders", partition=0, records=batch("plain")),
            ProducePartition(topic="orders", partition=1, records=sent(0, "a")),
        ],
        transactional_id=ID,
    )
    answer = producing.send(request)
    await settle()
    assert values_in(producing.first) == []
    await producing.coordinator.release()
    assert await codes_of(answer) == [ErrorCode.NONE, ErrorCode.NONE]
    assert (values_in(producing.first), values_in(producing.second)) == (["plain"], ["a"])
    assert producing.coordinator.asked[0].partitions == (ORDERS_1,)


@pytest.mark.parametrize("support", list(TransactionSupport))
async def test_if_it_is_not_enabled_partitions_are_only_added(tmp_path: Path, support: TransactionSupport) -> None:
    producing = Producing(tmp_path, is_enabled=False)
    assert await producing.codes(sent(0, "a"), support=support) == [ErrorCode.NONE]
    assert len(producing.coordinator.asked) == (support is ADDS)
    assert verifications(producing.first) == 0


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "verifies", "abortable", "adds"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, LATER, LATER, LATER),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, LATER, LATER, LATER),
        (ErrorCode.NOT_COORDINATOR, LATER, LATER, LATER),
        (ErrorCode.CONCURRENT_TRANSACTIONS, LATER, LATER, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.PRODUCER_FENCED, *[ErrorCode.INVALID_PRODUCER_EPOCH] * 3),
        (ErrorCode.INVALID_PRODUCER_EPOCH, *[ErrorCode.INVALID_PRODUCER_EPOCH] * 3),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, *[ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 3),
        (
            ErrorCode.TRANSACTION_ABORTABLE,
            ErrorCode.INVALID_TXN_STATE,
            ErrorCode.TRANSACTION_ABORTABLE,
            ErrorCode.TRANSACTION_ABORTABLE,
        ),
    ],
)
async def test_a_refusal_has_the_code_that_a_producer_of_the_version_expects(
    producing: Producing, code: ErrorCode, verifies: ErrorCode, abortable: ErrorCode, adds: ErrorCode
) -> None:
    producing.coordinator.codes[ORDERS_0] = code
    for support, expected in zip(TransactionSupport, (verifies, abortable, adds), strict=True):
        assert await producing.codes(sent(0, "a"), support=support) == [expected]
    assert values_in(producing.first) == []


async def test_acks_0_has_no_answer_and_a_refusal_ends_the_stream(producing: Producing) -> None:
    assert await producing.begin(sent(0, "a"), acks=0) is None
    producing.coordinator.codes[ORDERS_1] = ErrorCode.PRODUCER_FENCED
    with pytest.raises(Refusal, match="INVALID_PRODUCER_EPOCH"):
        await producing.begin(sent(0, "b"), acks=0, number=1)
    assert values_in(producing.first) == ["a"]


async def test_what_is_sent_behind_a_refused_batch_is_not_written_before_it(producing: Producing) -> None:
    producing.coordinator.codes[ORDERS_0] = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await producing.codes(sent(0, "a")) == [LATER]
    producing.coordinator.codes.clear()
    assert await producing.codes(sent(1, "b")) == [LATER]
    assert await producing.codes(sent(0, "a")) == [ErrorCode.NONE]
    assert await producing.codes(sent(1, "b")) == [ErrorCode.NONE]
    assert values_in(producing.first) == ["a", "b"]


@pytest.mark.parametrize("support", list(TransactionSupport))
async def test_producers_that_are_refused_for_good_leave_nothing_behind(
    producing: Producing, support: TransactionSupport
) -> None:
    producing.coordinator.codes[ORDERS_0] = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    for producer_id in range(100):
        await producing.codes(sent(0, "a", producer_id=producer_id), support=support)
    assert verifications(producing.first) == 0


async def test_a_stranger_with_the_producers_id_does_not_end_its_verification(producing: Producing) -> None:
    producing.coordinator.holds = True
    waiting = producing.begin(sent(0, "a"))
    await settle()
    producing.coordinator.holds = False
    producing.coordinator.codes[ORDERS_0] = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    stranger = producing.begin(sent(0, "b"), transactional_id="stranger")
    assert await codes_of(stranger) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    producing.coordinator.codes.clear()
    await producing.coordinator.release()
    assert await codes_of(waiting) == [ErrorCode.NONE]


# --- what happens meanwhile ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [COMMIT, ABORT])
async def test_a_marker_meanwhile_keeps_a_late_batch_out(producing: Producing, kind: object) -> None:
    producing.coordinator.holds = True
    answer = producing.begin(sent(0, "late"), support=VERIFIES)
    await settle()
    end(producing.first.log, PRODUCER, ABORT if kind is ABORT else COMMIT)
    await producing.coordinator.release()
    assert await codes_of(answer) == [LATER], "a producer that waits for it sends it again, and it is verified anew"
    assert producing.first.log.transactions.last_stable_offset(producing.first.log.log_end_offset) == 1
    producing.coordinator.codes[ORDERS_0] = ErrorCode.TRANSACTION_ABORTABLE
    assert await producing.codes(sent(0, "late"), support=VERIFIES) == [ErrorCode.INVALID_TXN_STATE]


async def test_the_lead_that_ends_meanwhile_refuses_the_batch(producing: Producing) -> None:
    producing.coordinator.holds = True
    answer = producing.begin(sent(0, "a"))
    await settle()
    follow(producing.first, epoch=2)
    await producing.coordinator.release()
    assert await codes_of(answer) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert values_in(producing.first) == []


async def test_a_marker_from_another_leader_meanwhile_keeps_a_late_batch_out(producing: Producing) -> None:
    """The records would begin a transaction that no marker ends, because its coordinator has ended it."""
    producing.coordinator.holds = True
    answer = producing.begin(sent(0, "late"), support=VERIFIES)
    await settle()
    follow(producing.first, epoch=2)
    marker = bytearray(build_marker(EndTransactionMarker(type=ABORT, coordinator_epoch=0), PRODUCER, 0, 1_000))
    assign_offsets(marker, 0, Offset(0), LeaderEpoch(2))
    made(producing.first, producing.first.append_as_follower(bytes(marker)))
    lead(producing.first, epoch=3, isr=(1,))
    await producing.coordinator.release()
    assert await codes_of(answer) == [LATER]
    assert producing.first.log.log_end_offset == 1, "only the marker"


@pytest.mark.parametrize("support", list(TransactionSupport))
async def test_batches_that_are_verified_at_the_same_time_are_appended_in_their_order(
    producing: Producing, support: TransactionSupport
) -> None:
    """As over gRPC, where the next request does not wait for the response to this one."""
    producing.coordinator.holds = True
    answers = [producing.begin(sent(number, f"{number}"), support=support) for number in range(5)]
    await settle()
    await producing.coordinator.release()
    assert [await codes_of(each) for each in answers] == [[ErrorCode.NONE]] * 5
    assert values_in(producing.first) == ["0", "1", "2", "3", "4"]


async def test_a_batch_over_grpc_that_needs_no_verification_waits_for_an_earlier_one_that_waits_for_it(
    producing: Producing,
) -> None:
    """The earlier request has records for a partition that is new to the transaction, too. See produce_order.py."""
    assert await codes_of(producing.handler.handle(to_both([sent(0, "0")]))) == [ErrorCode.NONE]
    producing.coordinator.holds = True
    both = asyncio.ensure_future(producing.handler.handle(to_both([sent(1, "1")], [sent(0, "new")])))
    given_up = asyncio.ensure_future(producing.handler.handle(to_both([sent(2, "2")])))
    last = asyncio.ensure_future(producing.handler.handle(to_both([sent(2, "2")])))
    given_up.cancel()
    await settle()
    assert values_in(producing.first) == ["0"]
    await producing.coordinator.release()
    assert await codes_of(both) == [ErrorCode.NONE] * 2
    assert await codes_of(last) == [ErrorCode.NONE]
    assert values_in(producing.first) == ["0", "1", "2"]
    assert not producing.handler._order, "nothing is kept of what is over"


def to_both(first: Sequence[bytes], second: Sequence[bytes] = ()) -> ProduceRequest:
    partitions = [
        ProducePartition(topic="orders", partition=number, records=each)
        for number, batches in enumerate((first, second))
        for each in batches
    ]
    return ProduceRequest(request_id=7, acks=1, timeout_ms=30_000, partitions=partitions, transactional_id=ID)


async def test_a_client_of_the_kafka_listener_begins_nothing_more_until_the_batch_is_appended(
    producing: Producing,
) -> None:
    class Client(WaitingClient):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[list[str]] = []
            self.go_on = lambda: self.seen.append(values_in(producing.first))

    client = Client()
    producing.coordinator.holds = True
    answer = producing.begin(sent(0, "a"), client=client, acks=-1)
    await settle()
    assert client.has_to_wait
    assert client.seen == []
    await producing.coordinator.release()
    assert client.seen == [["a"]]
    producing.broker.sync()
    assert await codes_of(answer) == [ErrorCode.NONE]


async def test_a_client_that_disconnects_meanwhile_waits_no_longer_and_writes_nothing(producing: Producing) -> None:
    client = WaitingClient()
    producing.coordinator.holds = True
    answer = producing.begin(sent(0, "a"), client=client)
    await settle()
    answer.cancel()
    await producing.coordinator.release()
    assert not client.has_to_wait
    assert producing.appends.waiting_bytes == 0
    assert values_in(producing.first) == []


# --- memory ----------------------------------------------------------------------------------------------------------


async def test_nothing_holds_on_to_the_receive_buffer(producing: Producing) -> None:
    producing.coordinator.holds = True
    buffer = bytearray(sent(0, "a"))
    frame = memoryview(buffer)
    answer = producing.begin(frame)  # type: ignore[arg-type]  # As the Kafka listener hands it on.
    del frame
    await settle()
    # A memoryview that still exists would not let it change its size.
    buffer.clear()
    await producing.coordinator.release()
    assert await codes_of(answer) == [ErrorCode.NONE]
    assert values_in(producing.first) == ["a"]


async def test_records_that_wait_are_counted_and_too_many_are_refused(tmp_path: Path) -> None:
    producing = Producing(tmp_path, bytes_max=8_000)
    producing.coordinator.holds = True
    first = producing.begin(sent(0, "a" * 4_000))
    await settle()
    assert producing.appends.waiting_bytes > 4_000
    second = producing.begin(sent(0, "b" * 4_000), number=1)
    assert await codes_of(second) == [ErrorCode.REQUEST_TIMED_OUT]
    await producing.coordinator.release()
    assert await codes_of(first) == [ErrorCode.NONE]
    assert producing.appends.waiting_bytes == 0
    assert await producing.codes(sent(0, "b" * 4_000), number=1) == [ErrorCode.NONE]


async def test_the_records_are_not_held_while_replicas_are_waited_for(producing: Producing) -> None:
    lead_begun(producing.first, epoch=2)
    request = ProduceRequest(
        request_id=7,
        acks=-1,
        timeout_ms=30_000,
        partitions=[ProducePartition(topic="orders", partition=0, records=memoryview(sent(0, "a" * 1_000)))],
        transactional_id=ID,
    )
    append, seen = producing.first.append, list[bytes]()

    def watched(records: object, *arguments: object) -> object:
        assert isinstance(records, bytes)
        seen.append(records)
        return append(records, *arguments)  # type: ignore[arg-type]

    producing.first.append = watched  # type: ignore[method-assign,assignment]
    answer = producing.send(request)
    await settle()
    producing.broker.sync()
    await settle()
    assert not answer.done()
    references = sys.getrefcount(seen[0])
    assert references == 2, "more than this list and the argument of the call"
    fetched(producing.first, producing.first.log.log_end_offset)
    assert await codes_of(answer) == [ErrorCode.NONE]


async def test_internal_topics_take_no_records_of_transactions(producing: Producing) -> None:
    partition = producing.broker.open(TopicPartition(OFFSETS_TOPIC, 0))
    lead(partition, epoch=1, isr=(1,))
    request = ProduceRequest(
        request_id=7,
        acks=1,
        timeout_ms=30_000,
        partitions=[ProducePartition(topic=OFFSETS_TOPIC, partition=0, records=sent(0, "a"))],
        transactional_id=ID,
    )
    assert await codes_of(producing.send(request)) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert producing.coordinator.asked == []
