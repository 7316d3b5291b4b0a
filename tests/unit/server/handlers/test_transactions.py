from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from uuid import UUID

import pytest

from kraft.coordinator.transactions.added_partitions import topics_of
from kraft.coordinator.transactions.transaction import ProducerIdAndEpoch, TransactionState
from kraft.metadata.topic_names import OFFSETS_TOPIC
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import ProducerEpoch, ProducerId, TopicId, TopicPartition
from kraft.model.producer_transactions import CoordinatedPartition, ProducerTransactionsRequest
from kraft.model.request_context import RequestContext
from kraft.server.coordinator.completions import COMPLETION_S_MAX
from kraft.server.handlers import transactions
from kraft.server.handlers.transactions import TransactionsHandler
from kraft.wire.schema.add_offsets_to_txn import AddOffsetsToTxnRequest
from kraft.wire.schema.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from kraft.wire.schema.describe_transactions import DescribeTransactionsRequest, TopicData
from kraft.wire.schema.end_txn import EndTxnRequest, EndTxnResponse
from kraft.wire.schema.list_transactions import ListTransactionsRequest
from kraft.wire.schema.list_transactions import TransactionState as Listed
from tests.support.cluster_images import with_topic
from tests.support.server.replicas import InlineExecutor, follow, settle
from tests.support.turn_counter import TurnCounter
from tests.support.virtual_time import LoopClock
from tests.unit.server.coordinator.transacting import FIRST_PRODUCER_ID, ID, Transacting, orders


class Handling(Transacting):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.creations = 0
        self.handler = TransactionsHandler(
            self.coordinators, lambda: self.image, self._create, LoopClock().wall_ms, InlineExecutor()
        )

    def _create(self) -> None:
        self.creations += 1


def asked(
    producer: ProducerIdAndEpoch, *partitions: TopicPartition, transactional_id: str = ID, adds: bool = False
) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        verify_only=not adds,
        topics=topics_of(partitions or orders(0)),
    )


def codes(results: Iterable[AddPartitionsToTxnTopicResult]) -> list[int]:
    """Return the codes of all partitions, in order."""
    return [each.partition_error_code for topic in results for each in topic.results_by_partition]


async def answers(broker: Handling, request: AddPartitionsToTxnRequest) -> list[list[int]]:
    """Return the codes of the partitions of each transaction."""
    results = (await broker.handler.add_partitions_of_brokers(request)).results_by_transaction
    assert [each.transactional_id for each in results] == [each.transactional_id for each in request.transactions]
    return [codes(each.topic_results) for each in results]


def other(producer: ProducerIdAndEpoch) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(ProducerId(producer.producer_id), ProducerEpoch(producer.epoch + 1))


OF_PRODUCERS = RequestContext(version=3)
ORDERS_0, ORDERS_1 = sorted(orders(0, 1))
NOWHERE, BEYOND = TopicPartition("nowhere", 0), TopicPartition("orders", 9)


# --- producers -------------------------------------------------------------------------------------------------------


async def test_partitions_are_added_all_or_none(tmp_path: Path) -> None:
    async with Handling(tmp_path) as broker:
        producer = await broker.init()
        response = await broker.handler.add_partitions(adding(producer, ORDERS_0, BEYOND, NOWHERE), OF_PRODUCERS)
        assert codes(response.results_by_topic_v3_and_below) == [
            ErrorCode.OPERATION_NOT_ATTEMPTED,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert broker.transaction().state is TransactionState.EMPTY


def adding_offsets(producer: ProducerIdAndEpoch) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(
        transactional_id=ID, producer_id=producer.producer_id, producer_epoch=producer.epoch, group_id="billing"
    )


async def test_offsets_are_added_once_their_topic_exists(tmp_path: Path) -> None:
    async with Handling(tmp_path) as broker:
        producer = await broker.init()
        command = adding_offsets(producer)
        with pytest.raises(Refusal, match="COORDINATOR_NOT_AVAILABLE"):
            await broker.handler.add_offsets(command)
        assert broker.creations == 1
        broker.image = with_topic(broker.image, [1], topic=OFFSETS_TOPIC, topic_id=TopicId(UUID(int=50)))
        assert (await broker.handler.add_offsets(command)).error_code == ErrorCode.NONE
        assert broker.transaction().partitions == {TopicPartition(OFFSETS_TOPIC, 0)}
        with pytest.raises(Refusal, match="PRODUCER_FENCED"):
            await broker.handler.add_offsets(adding_offsets(other(producer)))
        await broker.coordinators.drain()
        with pytest.raises(Refusal, match="COORDINATOR_NOT_AVAILABLE"):
            await broker.handler.add_offsets(command)
        assert broker.creations == 1


def adding(producer: ProducerIdAndEpoch, *partitions: TopicPartition) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=topics_of(partitions),
    )


def next_of(producer: ProducerIdAndEpoch, *numbers: int) -> AddPartitionsToTxnRequest:
    return adding(other(producer), *orders(*numbers))


@pytest.mark.parametrize("version", [4, 5])
async def test_versions_of_brokers_are_refused_to_producers(tmp_path: Path, version: int) -> None:
    async with Handling(tmp_path) as broker:
        producer = await broker.init()
        for request in (adding(producer, ORDERS_0), AddPartitionsToTxnRequest(transactions=(asked(producer),))):
            with pytest.raises(Refusal, match="CLUSTER_AUTHORIZATION_FAILED"):
                await broker.handler.add_partitions(request, RequestContext(version=version))
        assert broker.transaction().state is TransactionState.EMPTY


async def test_a_producer_s_next_transaction_begins_as_soon_as_the_last_one_is_complete(tmp_path: Path) -> None:
    async with Handling(tmp_path) as broker:
        broker.leaders.holds = asyncio.Event()
        producer = await broker.begin(orders(0, 1))
        await broker.end(producer)
        began_s = asyncio.get_running_loop().time()
        adding = asyncio.create_task(broker.handler.add_partitions(next_of(producer, 1), OF_PRODUCERS))
        await asyncio.sleep(COMPLETION_S_MAX / 2)
        assert not adding.done()
        broker.leaders.holds.set()
        assert codes((await adding).results_by_topic_v3_and_below) == [ErrorCode.NONE]
        assert asyncio.get_running_loop().time() - began_s == pytest.approx(COMPLETION_S_MAX / 2)
        assert broker.transaction().partitions == orders(1)


async def test_a_producer_waits_for_all_markers_of_its_last_transaction_and_only_for_a_short_time(
    tmp_path: Path,
) -> None:
    async with Handling(tmp_path) as broker:
        broker.leaders.takes_s[2] = 2.5 * COMPLETION_S_MAX
        producer = await broker.begin(orders(0, 1))
        await broker.end(producer)
        for _ in range(2):
            began_s = asyncio.get_running_loop().time()
            with pytest.raises(Refusal, match="CONCURRENT_TRANSACTIONS"):
                await broker.handler.add_partitions(next_of(producer, 1), OF_PRODUCERS)
            assert asyncio.get_running_loop().time() - began_s == pytest.approx(COMPLETION_S_MAX)
        await broker.handler.add_partitions(next_of(producer, 1), OF_PRODUCERS)
        assert broker.transaction().partitions == orders(1)


async def test_offsets_wait_for_the_last_transaction_too(tmp_path: Path) -> None:
    async with Handling(tmp_path) as broker:
        broker.image = with_topic(broker.image, [1], topic=OFFSETS_TOPIC, topic_id=TopicId(UUID(int=50)))
        broker.leaders.takes_s[1] = COMPLETION_S_MAX / 2
        producer = await broker.begin(orders(0))
        after = await broker.end(producer)
        await broker.handler.add_offsets(adding_offsets(after))
        assert broker.transaction().partitions == {TopicPartition(OFFSETS_TOPIC, 0)}


async def test_a_producer_that_waits_learns_that_the_coordinator_has_moved(tmp_path: Path) -> None:
    async with Handling(tmp_path) as broker:
        broker.leaders.holds = asyncio.Event()
        producer = await broker.begin(orders(0))
        await broker.end(producer)
        adding = asyncio.create_task(broker.handler.add_partitions(next_of(producer, 1), OF_PRODUCERS))
        await settle()
        follow(broker.partition, epoch=2)
        with pytest.raises(Refusal, match="CONCURRENT_TRANSACTIONS"):
            await adding
        with pytest.raises(Refusal, match="NOT_COORDINATOR"):
            await broker.handler.add_partitions(next_of(producer, 1), OF_PRODUCERS)


async def test_a_producer_that_disconnects_while_it_waits_adds_nothing(tmp_path: Path) -> None:
    async with Handling(tmp_path) as broker:
        broker.leaders.holds = asyncio.Event()
        producer = await broker.begin(orders(0))
        await broker.end(producer)
        adding = [
            asyncio.create_task(broker.handler.add_partitions(next_of(producer, number), OF_PRODUCERS))
            for number in (0, 1)
        ]
        await settle()
        adding[0].cancel()
        broker.leaders.holds.set()
        await adding[1]
        assert broker.transaction().partitions == orders(1)


# --- brokers ---------------------------------------------------------------------------------------------------------


async def test_brokers_verify_and_add_many_transactions_each_with_its_answer(tmp_path: Path) -> None:
    async with Handling(tmp_path) as broker:
        producer = await broker.begin(orders(0))
        adding = await broker.begin(orders(0), "refunds")
        request = AddPartitionsToTxnRequest(
            transactions=(
                asked(producer, ORDERS_0, ORDERS_1),
                asked(adding, ORDERS_1, transactional_id="refunds", adds=True),
                asked(adding, ORDERS_1, NOWHERE, transactional_id="refunds", adds=True),
                asked(other(producer)),
                asked(producer, transactional_id="unknown"),
                asked(producer, transactional_id=""),
            )
        )
        assert await answers(broker, request) == [
            [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE],
            [ErrorCode.NONE],
            [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
            [ErrorCode.PRODUCER_FENCED],
            [ErrorCode.INVALID_PRODUCER_ID_MAPPING],
            [ErrorCode.INVALID_REQUEST],
        ]
        assert broker.transaction("refunds").partitions == orders(0, 1)


async def test_the_partitions_of_many_transactions_are_committed_together(tmp_path: Path) -> None:
    """Their producers wait, and the broker that asks has a deadline for the whole request."""
    async with Handling(tmp_path) as broker:
        ids = [f"id {number}" for number in range(20)]
        producers = {each: await broker.init(each) for each in ids}
        await broker.lead(epoch=2, replicas=(1, 2))
        broker.catch_up()
        await settle()
        request = AddPartitionsToTxnRequest(
            transactions=tuple(asked(producers[each], transactional_id=each, adds=True) for each in ids)
        )
        answering = asyncio.create_task(answers(broker, request))
        await settle()
        broker.catch_up()
        async with asyncio.timeout(60):
            assert await answering == [[ErrorCode.NONE]] * 20


async def test_the_answers_of_a_large_request_come_in_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "VERIFIED_AT_ONCE", 3)
    async with Handling(tmp_path) as broker:
        producer = await broker.begin(orders(0))
        ids = [ID if number % 3 else "unknown" for number in range(10)]
        request = AddPartitionsToTxnRequest(transactions=tuple(asked(producer, transactional_id=each) for each in ids))
        assert [each == [ErrorCode.NONE] for each in await answers(broker, request)] == [each == ID for each in ids]


# --- queries ---------------------------------------------------------------------------------------------------------


async def listed(broker: Handling, **filters: object) -> list[str]:
    wanted: dict[str, object] = {"state_filters": (), "producer_id_filters": (), **filters}
    response = await broker.handler.list_transactions(ListTransactionsRequest(**wanted))  # type: ignore[arg-type]  # Any filters.
    return sorted(each.transactional_id for each in response.transaction_states)


async def test_transactions_are_listed_by_every_filter(tmp_path: Path) -> None:
    async with Handling(tmp_path) as broker:
        await broker.begin(orders(0))
        await asyncio.sleep(30)
        await broker.begin(orders(0), "refunds")
        await broker.init("idle")
        assert await listed(broker) == ["idle", ID, "refunds"]
        assert await listed(broker, state_filters=("Ongoing",)) == [ID, "refunds"]
        assert await listed(broker, producer_id_filters=(FIRST_PRODUCER_ID + 2,)) == ["idle"]
        assert await listed(broker, state_filters=("Ongoing",), duration_filter=20_000) == [ID]
        assert await listed(broker, transactional_id_pattern="re.*|idle") == ["idle", "refunds"]
        assert await listed(broker, transactional_id_pattern="re") == []
        request = ListTransactionsRequest(state_filters=("Empty", "Asleep"), producer_id_filters=())
        response = await broker.handler.list_transactions(request)
        assert (response.error_code, response.unknown_state_filters) == (ErrorCode.NONE, ("Asleep",))
        assert response.transaction_states == (
            Listed(transactional_id="idle", producer_id=FIRST_PRODUCER_ID + 2, transaction_state="Empty"),
        )
        with pytest.raises(Refusal, match="INVALID_REGULAR_EXPRESSION"):
            await listed(broker, transactional_id_pattern="(")


async def test_a_pattern_that_takes_long_gives_others_their_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "PATTERN_PIECE_S", 0.0)
    async with Handling(tmp_path) as broker:
        for number in range(20):
            await broker.init(f"id-{number}")
        async with TurnCounter() as others:
            assert len(await listed(broker, transactional_id_pattern="id-1.*")) == 11
        assert others.turns >= 20


async def test_a_pattern_that_takes_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "PATTERN_PIECE_S", 0.0)
    async with Handling(tmp_path) as broker:
        await broker.init("a")
        await broker.init("b")
        assert await listed(broker, transactional_id_pattern="[ab]*") == ["a", "b"]
        monkeypatch.setattr(transactions, "PATTERN_S_MAX", 0.0)
        with pytest.raises(Refusal, match="INVALID_REGULAR_EXPRESSION"):
            await listed(broker, transactional_id_pattern="[ab]*")


async def test_transactions_are_described_each_with_its_error(tmp_path: Path) -> None:
    async with Handling(tmp_path) as broker:
        await broker.begin(orders(0, 1))
        request = DescribeTransactionsRequest(transactional_ids=(ID, "unknown", "", ID))
        # Each once, so that a short request has no endless response.
        found, unknown, empty = (await broker.handler.describe(request)).transaction_states
        assert (found.transaction_state, found.producer_id, found.producer_epoch, found.transaction_timeout_ms) == (
            "Ongoing",
            FIRST_PRODUCER_ID,
            0,
            60_000,
        )
        assert found.transaction_start_time_ms == LoopClock().wall_ms()
        assert (found.error_code, found.topics) == (ErrorCode.NONE, (TopicData(topic="orders", partitions=(0, 1)),))
        assert (unknown.transactional_id, unknown.error_code) == ("unknown", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        # As in Kafka, with an error the numbers are 0.
        numbers = (unknown.transaction_timeout_ms, unknown.transaction_start_time_ms, unknown.producer_id)
        assert (unknown.transaction_state, *numbers, unknown.producer_epoch, unknown.topics) == ("", 0, 0, 0, 0, ())
        assert empty.error_code == ErrorCode.INVALID_REQUEST
        follow(broker.partition, epoch=2)
        await settle()
        (elsewhere,) = (
            await broker.handler.describe(DescribeTransactionsRequest(transactional_ids=(ID,)))
        ).transaction_states
        assert elsewhere.error_code == ErrorCode.NOT_COORDINATOR


async def test_the_transactions_of_a_producer_are_listed_with_where_they_were_looked_for(tmp_path: Path) -> None:
    async with Handling(tmp_path) as broker:
        producer = await broker.begin(orders(0, 1))
        await broker.begin(orders(0), "refunds")
        request = ProducerTransactionsRequest(producer_id=producer.producer_id)
        response = await broker.handler.of_producer(request)
        (found,) = response.transactions
        assert (found.transactional_id, found.state, found.producer_epoch) == (ID, "Ongoing", producer.epoch)
        assert set(found.partitions) == orders(0, 1)
        led = broker.partition
        here = CoordinatedPartition(partition=led.topic_partition.partition, leader_epoch=led.leader_epoch)
        assert response.coordinated == (here,)


@pytest.mark.parametrize("query", ["list", "describe"])
async def test_other_tasks_have_their_turn_during_a_large_query(
    tmp_path: Path, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "TRANSACTIONS_AT_ONCE", 2)
    async with Handling(tmp_path) as broker:
        for number in range(10):
            await broker.init(f"id {number}")
        async with TurnCounter() as others:
            if query == "list":
                await listed(broker)
            else:
                await broker.handler.describe(
                    DescribeTransactionsRequest(transactional_ids=tuple(f"id {number}" for number in range(10)))
                )
        assert others.turns >= 4


# --- ends ------------------------------------------------------------------------------------------------------------


def ending(producer: ProducerIdAndEpoch, *, committed: bool) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=ID, producer_id=producer.producer_id, producer_epoch=producer.epoch, committed=committed
    )


@pytest.mark.parametrize("version", [4, 5])
async def test_since_version_5_the_end_bumps_the_epoch(tmp_path: Path, version: int) -> None:
    async with Handling(tmp_path) as broker:
        producer, context = await broker.begin(orders(0)), RequestContext(version=version)
        response = await broker.handler.end(ending(producer, committed=True), context)
        after = 1 if version >= 5 else 0
        assert response == EndTxnResponse(error_code=0, producer_id=FIRST_PRODUCER_ID, producer_epoch=after)
        await broker.until_state(TransactionState.COMPLETE_COMMIT)
        assert await broker.handler.end(ending(producer, committed=True), context) == response
        with pytest.raises(Refusal, match="INVALID_TXN_STATE"):
            await broker.handler.end(ending(producer, committed=False), context)
