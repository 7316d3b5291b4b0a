from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kraft.coordinator.transactions.transaction import ProducerIdAndEpoch
from kraft.log.append_work import AppendOrigin
from kraft.log.format.control_record import MarkerType
from kraft.log.format.record_batch import read_header
from kraft.metadata.topic_names import OFFSETS_TOPIC
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import ProducerEpoch, ProducerId, TopicPartition
from kraft.model.produce import ProducePartition, ProduceRequest
from kraft.model.transactions import AbortTransactionRequest
from kraft.server.broker.transactions import CALL_S_MAX
from kraft.server.handlers import txn_markers
from kraft.server.handlers.txn_markers import WAITING_MAX, WRITTEN_S_MAX, TxnMarkersHandler
from kraft.server.replica.partition import Partition
from kraft.server.replica.waiting_appends import WaitingAppend, WaitingAppends
from kraft.wire.schema.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.support.log.transactional_log import VERIFIED, end, read_committed, send, transactional
from tests.support.server.produce_handlers import produce_handler
from tests.support.server.replicas import (
    DEFAULTS,
    ORDERS_0,
    Broker,
    append_to,
    fetched,
    follow,
    lead,
    settle,
    values_in,
)
from tests.support.turn_counter import TurnCounter
from tests.unit.server.handlers.held_appends import COMPACT, COUNT, HeldExecutor, large

PRODUCER = 7
ORDERS_1 = TopicPartition("orders", 1)


class GroupMarkers:
    """The coordinators of groups, as the handler gives them markers."""

    def __init__(self) -> None:
        self.appended: list[tuple[int, int, AppendOrigin]] = []
        self.refusal: Refusal | None = None
        self.takes_s = 0.0
        self.waiting = self.waiting_most = 0

    async def append(self, partition: int, batch: bytes, origin: AppendOrigin) -> None:
        self.appended.append((partition, read_header(batch).producer_id, origin))
        self.waiting += 1
        self.waiting_most = max(self.waiting_most, self.waiting)
        try:
            await asyncio.sleep(self.takes_s)
        finally:
            self.waiting -= 1
        if self.refusal is not None:
            raise self.refusal


class Marking:
    """Broker 1 leads two partitions of `orders`, alone or, on request, with a follower."""

    def __init__(self, directory: Path, bytes_max: int = 1 << 20) -> None:
        self.broker = Broker(directory, sync_before_ack=False)
        self.thread = HeldExecutor()
        self.appends = WaitingAppends(self.thread, bytes_max)
        self.groups = GroupMarkers()
        self.checked: list[tuple[ProducerIdAndEpoch, TopicPartition]] = []
        self.objection: Refusal | None = None
        self.while_checking: Callable[[], object] = lambda: None
        self.handler = TxnMarkersHandler(
            self.broker.partitions, self.appends, lambda: 1_000, self.groups.append, self.check_hanging
        )
        self.first, self.second = (self.broker.open(each) for each in (ORDERS_0, ORDERS_1))
        for partition in (self.first, self.second):
            lead(partition, epoch=1, replicas=(1,))

    async def check_hanging(self, producer: ProducerIdAndEpoch, partition: TopicPartition) -> None:
        self.checked.append((producer, partition))
        self.while_checking()
        if self.objection is not None:
            raise self.objection

    async def write(self, *markers: WritableTxnMarker) -> list[list[int]]:
        response = await self.handler.write(WriteTxnMarkersRequest(markers=markers))
        return [
            [each.error_code for topic in result.topics for each in topic.partitions] for result in response.markers
        ]


def add(partition: Partition, producer_id: int, sequence: int, *values: str, epoch: int = 0) -> None:
    """Append records of a transaction that the coordinator knows."""
    append_to(partition, transactional(producer_id, sequence, *values, epoch=epoch), 1, VERIFIED)


@pytest.fixture
def marking(tmp_path: Path) -> Marking:
    return Marking(tmp_path)


def marker(
    *partitions: int | str,
    commit: bool = True,
    epoch: int = 0,
    coordinator_epoch: int = 5,
    transaction_version: int = 0,
    producer_id: int = PRODUCER,
) -> WritableTxnMarker:
    """Return a marker for partitions of `orders`, or for the first one of another topic."""
    names = [("orders", each) if isinstance(each, int) else (each, 0) for each in partitions]
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=commit,
        topics=tuple(WritableTxnMarkerTopic(name=topic, partition_indexes=(number,)) for topic, number in names),
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
    )


@pytest.mark.parametrize(("commit", "seen"), [(True, ["a"]), (False, [])])
async def test_a_marker_ends_the_transaction_in_each_partition(
    marking: Marking, commit: bool, seen: Sequence[str]
) -> None:
    for partition in (marking.first, marking.second):
        add(partition, PRODUCER, 0, "a")
        assert read_committed(partition.log) == []
    assert await marking.write(marker(0, 1, commit=commit)) == [[ErrorCode.NONE, ErrorCode.NONE]]
    for partition in (marking.first, marking.second):
        assert read_committed(partition.log) == seen
        assert partition.log.transactions.last_stable_offset(partition.log.log_end_offset) == 2


async def test_a_marker_is_written_however_far_the_limits_of_its_topic_were_lowered(marking: Marking) -> None:
    add(marking.first, PRODUCER, 0, "a")
    config = replace(DEFAULTS, max_message_bytes=0, segment_bytes=61)
    marking.first.reconfigure(config)
    assert await marking.write(marker(0)) == [[ErrorCode.NONE]]
    assert read_committed(marking.first.log) == values_in(marking.first) == ["a"]


async def test_a_marker_that_comes_twice_ends_nothing_more(marking: Marking) -> None:
    add(marking.first, PRODUCER, 0, "a")
    ended = marker(0, epoch=1, transaction_version=2)
    assert await marking.write(ended) == [[ErrorCode.NONE]]
    assert await marking.write(ended) == [[ErrorCode.NONE]]
    add(marking.first, PRODUCER, 0, "b", epoch=1)
    assert await marking.write(ended) == [[ErrorCode.INVALID_PRODUCER_EPOCH]]
    assert read_committed(marking.first.log) == ["a"]


async def test_each_partition_of_each_marker_has_its_own_outcome(marking: Marking) -> None:
    add(marking.first, PRODUCER, 0, "a", epoch=3)
    follow(marking.second, epoch=2)
    assert await marking.write(
        marker(0, 1, 9, epoch=2),
        marker(),
        marker(1, 0, epoch=3),
        marker(0, epoch=3, coordinator_epoch=4),
    ) == [
        [
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ],
        [],
        [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE],
        [ErrorCode.TRANSACTION_COORDINATOR_FENCED],
    ]
    assert read_committed(marking.first.log) == ["a"]


async def test_the_answer_waits_for_the_replicas(marking: Marking) -> None:
    lead(marking.first, epoch=2, replicas=(1, 2))
    add(marking.first, PRODUCER, 0, "a")
    writing = asyncio.create_task(marking.write(marker(0, 1)))
    await settle()
    assert not writing.done()
    fetched(marking.first, marking.first.log.log_end_offset)
    assert await writing == [[ErrorCode.NONE, ErrorCode.NONE]]


async def test_replicas_that_take_too_long_are_named_and_the_others_answered(marking: Marking) -> None:
    lead(marking.first, epoch=2, replicas=(1, 2))
    began = asyncio.get_running_loop().time()
    assert await marking.write(marker(0, 1)) == [[ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]]
    assert asyncio.get_running_loop().time() - began == pytest.approx(WRITTEN_S_MAX)
    fetched(marking.first, marking.first.log.log_end_offset)
    assert await marking.write(marker(0)) == [[ErrorCode.REQUEST_TIMED_OUT]]


async def test_a_lead_that_ends_while_replicas_are_waited_for_is_answered(marking: Marking) -> None:
    lead(marking.first, epoch=2, replicas=(1, 2))
    writing = asyncio.create_task(marking.write(marker(0)))
    await settle()
    follow(marking.first, epoch=3)
    assert await writing == [[ErrorCode.NOT_LEADER_OR_FOLLOWER]]


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (PRODUCER, -1), (PRODUCER, 1 << 15)])
async def test_a_marker_of_no_producer_is_refused_and_the_others_are_written(
    marking: Marking, producer_id: int, epoch: int
) -> None:
    codes = await marking.write(marker(0, OFFSETS_TOPIC, producer_id=producer_id, epoch=epoch), marker(1))
    assert codes == [[ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST], [ErrorCode.NONE]]
    assert (marking.first.log.log_end_offset, marking.groups.appended) == (0, [])


async def test_a_full_disk_refuses_markers(marking: Marking) -> None:
    marking.broker.is_full = True
    assert await marking.write(marker(0)) == [[ErrorCode.KAFKA_STORAGE_ERROR]]
    assert marking.first.log.log_end_offset == 0


# --- offsets ---------------------------------------------------------------------------------------------------------


async def test_markers_of_offsets_take_their_turn_in_the_group_coordinator(marking: Marking) -> None:
    assert await marking.write(marker(OFFSETS_TOPIC, 0, transaction_version=2)) == [[ErrorCode.NONE, ErrorCode.NONE]]
    assert marking.groups.appended == [(0, PRODUCER, AppendOrigin(is_coordinator=True, transaction_version=2))]


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.INVALID_PRODUCER_EPOCH])
async def test_a_refusal_of_the_group_coordinator_is_answered(marking: Marking, code: ErrorCode) -> None:
    marking.groups.refusal = Refusal(code, "no")
    assert await marking.write(marker(OFFSETS_TOPIC, 0)) == [[code, ErrorCode.NONE]]


async def test_a_group_coordinator_that_takes_too_long_is_not_waited_for(marking: Marking) -> None:
    marking.groups.takes_s = 3_600
    assert await marking.write(marker(OFFSETS_TOPIC, 0)) == [[ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]]
    await settle()


# --- turns -----------------------------------------------------------------------------------------------------------


async def behind_records_that_wait(marking: Marking) -> tuple[Partition, Awaitable[object]]:
    """Return a third partition in which records wait for the thread, and the answer to them."""
    partition = marking.broker.open(TopicPartition("orders", 2), cleanup_policy=COMPACT)
    lead(partition, epoch=1, replicas=(1,))
    produce = produce_handler(marking.broker.partitions, marking.appends)
    partitions = [ProducePartition(topic="orders", partition=2, records=large("a"))]
    produced = asyncio.ensure_future(
        produce.handle(ProduceRequest(request_id=7, acks=1, timeout_ms=30_000, partitions=partitions))
    )
    await settle()
    return partition, produced


async def test_a_marker_takes_its_turn_behind_records_that_wait(tmp_path: Path) -> None:
    marking = Marking(tmp_path)
    partition, produced = await behind_records_that_wait(marking)
    writing = asyncio.create_task(marking.write(marker(2, 0)))
    await settle()
    assert partition.log.log_end_offset == 0
    assert marking.first.log.log_end_offset == 1
    await marking.thread.run_next()
    await produced
    assert await writing == [[ErrorCode.NONE, ErrorCode.NONE]]
    assert partition.log.log_end_offset > 1


async def test_a_marker_whose_turn_comes_after_the_answer_is_not_written(tmp_path: Path) -> None:
    """Its coordinator has sent it again by then, perhaps to another leader."""
    marking = Marking(tmp_path)
    partition, produced = await behind_records_that_wait(marking)
    assert await marking.write(marker(2, 0)) == [[ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]]
    await asyncio.sleep(1)
    await marking.thread.run_next()
    await produced
    await settle()
    assert partition.log.log_end_offset == COUNT, "the records, and no marker behind them"
    assert (len(partition.waiting_appends.waiting), marking.appends.waiting_bytes) == (0, 0)


def test_the_answer_comes_before_the_deadline_of_the_coordinator_that_waits_for_it() -> None:
    """A coordinator without an answer knows of no marker, and asks for all of them again."""
    assert WRITTEN_S_MAX < CALL_S_MAX


async def test_a_large_request_gives_other_tasks_their_turns(marking: Marking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(txn_markers, "MARKERS_AT_ONCE", 2)
    async with TurnCounter() as others:
        assert await marking.write(*[marker(9)] * 20) == [[ErrorCode.NOT_LEADER_OR_FOLLOWER]] * 20
    assert others.turns >= 9


async def test_a_large_response_gives_others_their_turns(marking: Marking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(txn_markers, "RESULTS_AT_ONCE", 4)
    async with TurnCounter() as others:
        assert await marking.write(*[marker(9, 10)] * 20) == [[ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2] * 20
    assert others.turns >= 10


async def test_the_markers_of_a_large_request_wait_for_replicas_a_few_at_a_time(marking: Marking) -> None:
    marking.groups.takes_s = WRITTEN_S_MAX / 2.5
    markers = [marker(OFFSETS_TOPIC, producer_id=number) for number in range(5 * WAITING_MAX)]
    codes = [code for (code,) in await marking.write(*markers)]
    # The third part was not there in time, and the others were not sent.
    assert codes == [ErrorCode.NONE] * 2 * WAITING_MAX + [ErrorCode.REQUEST_TIMED_OUT] * 3 * WAITING_MAX
    assert marking.groups.waiting_most == WAITING_MAX
    assert len(marking.groups.appended) == 3 * WAITING_MAX
    await settle()


# --- an operator's abort ---------------------------------------------------------------------------------------------


def abort(partition: int = 0, **fields: int) -> AbortTransactionRequest:
    values = {"producer_id": PRODUCER, "producer_epoch": 0, "coordinator_epoch": 0, **fields}
    return AbortTransactionRequest(topic="orders", partition=partition, **values)


async def test_an_operator_aborts_a_transaction_that_hangs(marking: Marking) -> None:
    add(marking.first, PRODUCER, 0, "a")
    await marking.handler.abort(abort())
    assert read_committed(marking.first.log) == []
    assert marking.first.log.transactions.last_stable_offset(marking.first.log.log_end_offset) == 2


async def test_an_abort_of_a_transaction_that_a_coordinator_has_is_refused(marking: Marking) -> None:
    add(marking.first, PRODUCER, 0, "a")
    marking.objection = Refusal(ErrorCode.INVALID_TXN_STATE, "the transaction does not hang")
    with pytest.raises(Refusal, match="does not hang"):
        await marking.handler.abort(abort())
    assert marking.checked == [(ProducerIdAndEpoch(ProducerId(PRODUCER), ProducerEpoch(0)), ORDERS_0)]
    assert marking.first.log.log_end_offset == 1


async def test_an_abort_without_an_open_transaction_writes_nothing(marking: Marking) -> None:
    await marking.handler.abort(abort(producer_epoch=9))
    assert (marking.checked, marking.first.log.log_end_offset) == ([], 0)


async def test_an_abort_of_what_has_ended_meanwhile_writes_nothing(marking: Marking) -> None:
    log = marking.first.log
    send(log, PRODUCER, 0, "a")
    marking.while_checking = lambda: (end(log, PRODUCER, MarkerType.COMMIT), send(log, PRODUCER, 1, "next"))
    await marking.handler.abort(abort())
    assert log.log_end_offset == 3
    assert read_committed(log) == ["a"]


async def test_an_abort_takes_no_records_that_came_after_the_coordinators_were_asked(marking: Marking) -> None:
    """The producer has begun a transaction with the partition meanwhile: these records are to be committed."""
    log = marking.first.log
    send(log, PRODUCER, 0, "hangs")
    marking.while_checking = lambda: send(log, PRODUCER, 1, "begun since")
    with pytest.raises(Refusal, match=r"COORDINATOR_NOT_AVAILABLE.*its producer has written meanwhile: try again"):
        await marking.handler.abort(abort())
    assert log.log_end_offset == 2


async def test_an_abort_does_not_queue_behind_records(marking: Marking) -> None:
    """Among them may be those of a transaction that the producer has begun since the coordinators were asked."""
    log = marking.first.log
    send(log, PRODUCER, 0, "hangs")
    queue = marking.first.waiting_appends.waiting

    def wait_for_turn() -> None:
        queue.append(
            WaitingAppend(
                records=b"", work=None, deadline_s=1e9, append=lambda records: None, refuse=lambda refusal: None
            )
        )

    marking.while_checking = wait_for_turn
    with pytest.raises(Refusal, match=r"COORDINATOR_NOT_AVAILABLE.*wait for their turn: try again"):
        await marking.handler.abort(abort())
    queue.clear()
    assert log.log_end_offset == 1


async def test_an_abort_that_writes_nothing_says_why(marking: Marking) -> None:
    add(marking.first, PRODUCER, 0, "a", epoch=4)
    with pytest.raises(Refusal, match=r"INVALID_PRODUCER_EPOCH.*describe the producers of the partition again"):
        await marking.handler.abort(abort(producer_epoch=3))
    with pytest.raises(Refusal, match="NOT_LEADER_OR_FOLLOWER"):
        await marking.handler.abort(abort(partition=9))


async def test_an_abort_whose_marker_the_replicas_do_not_have_in_time_is_refused(marking: Marking) -> None:
    lead(marking.first, epoch=2, replicas=(1, 2))
    add(marking.first, PRODUCER, 0, "a")
    with pytest.raises(Refusal, match=r"REQUEST_TIMED_OUT.*the abort marker was not written into orders-0"):
        await marking.handler.abort(abort())


@pytest.mark.parametrize(
    "fields",
    [
        {"producer_epoch": 1 << 15},
        {"producer_epoch": -1},
        {"producer_id": -1},
    ],
)
async def test_an_abort_with_numbers_that_no_producer_has_is_refused(marking: Marking, fields: dict[str, int]) -> None:
    with pytest.raises(Refusal, match="INVALID_REQUEST"):
        await marking.handler.abort(abort(**fields))
    assert marking.first.log.log_end_offset == 0
