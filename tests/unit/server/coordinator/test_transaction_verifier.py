from __future__ import annotations

import asyncio
from itertools import chain

import pytest

from kraft.coordinator.transactions.added_partitions import partitions_of, results_of
from kraft.metadata.image import MetadataImage
from kraft.metadata.topic_names import TRANSACTIONS_TOPIC
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId, TopicId, TopicPartition
from kraft.rpc.peers import Unreachable
from kraft.server.coordinator.transaction_verifier import (
    LAST_TRANSACTION_S_MAX,
    TRANSACTIONS_PER_REQUEST,
    TransactionVerifier,
)
from kraft.wire.schema.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tests.support.cluster_images import cluster, with_topic
from tests.support.server.replicas import settle
from tests.unit.server.coordinator.transacting import ID, STATE, orders

IMAGE = with_topic(cluster(1, 2), [2], topic=TRANSACTIONS_TOPIC, topic_id=STATE)
ORDERS_0, ORDERS_1 = sorted(orders(0, 1))
Codes = dict[TopicPartition, ErrorCode]


class Coordinators:
    """The brokers that are asked. They accept everything, unless the test says otherwise."""

    def __init__(self, image: MetadataImage = IMAGE) -> None:
        self.image = image
        self.requests: list[tuple[int, AddPartitionsToTxnRequest]] = []
        self.refusals: dict[str, ErrorCode] = {}
        self.codes: Codes = {}
        self.failure: Unreachable | Refusal | None = None
        self.holds: asyncio.Event | None = None
        self.crashes: list[str] = []
        self.verifier = TransactionVerifier(lambda: self.image, self.ask, self.crashes.append)

    async def ask(self, broker_id: BrokerId, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        self.requests.append((broker_id, request))
        if self.holds is not None:
            await self.holds.wait()
        if self.failure is not None:
            raise self.failure
        return AddPartitionsToTxnResponse(results_by_transaction=tuple(map(self._answer, request.transactions)))

    def _answer(self, asked: AddPartitionsToTxnTransaction) -> AddPartitionsToTxnResult:
        code = self.refusals.get(asked.transactional_id, ErrorCode.NONE)
        codes = {each: self.codes.get(each, code) for each in partitions_of(asked.topics)}
        return AddPartitionsToTxnResult(
            transactional_id=asked.transactional_id, topic_results=results_of(asked.topics, codes)
        )

    async def verify(
        self, *partitions: TopicPartition, transactional_id: str = ID, epoch: int = 0, adds: bool = False
    ) -> Codes:
        refused = await self.verifier.verify(transactional_id, 7, epoch, partitions, adds=adds)
        return {partition: refusal.error_code for partition, refusal in refused.items()}


@pytest.mark.parametrize("adds", [False, True])
async def test_the_coordinator_of_the_id_is_asked_for_all_partitions_at_once(adds: bool) -> None:
    coordinators = Coordinators()
    assert await coordinators.verify(ORDERS_0, ORDERS_1, epoch=3, adds=adds) == {}
    asked = AddPartitionsToTxnTransaction(
        transactional_id=ID,
        producer_id=7,
        producer_epoch=3,
        verify_only=not adds,
        topics=(AddPartitionsToTxnTopic(name="orders", partitions=(0, 1)),),
    )
    assert coordinators.requests == [(2, AddPartitionsToTxnRequest(transactions=(asked,)))]


async def test_each_partition_has_its_own_answer() -> None:
    coordinators = Coordinators()
    coordinators.codes[ORDERS_1] = ErrorCode.TRANSACTION_ABORTABLE
    assert await coordinators.verify(ORDERS_0, ORDERS_1) == {ORDERS_1: ErrorCode.TRANSACTION_ABORTABLE}
    await coordinators.verifier.verify_one(ID, 7, 0, ORDERS_0, adds=False)
    with pytest.raises(Refusal, match="TRANSACTION_ABORTABLE: orders-1 is not part of the transaction"):
        await coordinators.verifier.verify_one(ID, 7, 0, ORDERS_1, adds=False)


async def test_a_refused_transaction_refuses_all_its_partitions_and_no_others() -> None:
    coordinators = Coordinators()
    coordinators.refusals["refunds"] = ErrorCode.PRODUCER_FENCED
    refused, accepted = await asyncio.gather(
        coordinators.verify(ORDERS_0, ORDERS_1, transactional_id="refunds"), coordinators.verify(ORDERS_0)
    )
    assert refused == dict.fromkeys((ORDERS_0, ORDERS_1), ErrorCode.PRODUCER_FENCED)
    assert accepted == {}


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (ErrorCode.PRODUCER_FENCED, "epoch 0 of producer id 7 is not the current one: another producer uses"),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, "producer id 7 does not belong to transactional id 'payments'"),
        (ErrorCode.CONCURRENT_TRANSACTIONS, "the last transaction of 'payments' is being completed"),
        (ErrorCode.NOT_COORDINATOR, "the coordinator of 'payments' has not accepted orders-0"),
    ],
)
async def test_a_refusal_says_why(code: ErrorCode, reason: str) -> None:
    coordinators = Coordinators()
    coordinators.refusals[ID] = code
    with pytest.raises(Refusal, match=f"{code.name}: {reason}"):
        await coordinators.verifier.verify_one(ID, 7, 0, ORDERS_0, adds=False)


async def test_the_end_of_the_producers_last_transaction_is_waited_for_a_short_time() -> None:
    coordinators = Coordinators()
    coordinators.refusals[ID] = ErrorCode.CONCURRENT_TRANSACTIONS
    verifying = asyncio.create_task(coordinators.verify(ORDERS_0, adds=True))
    await asyncio.sleep(LAST_TRANSACTION_S_MAX / 2)
    assert not verifying.done()
    coordinators.refusals.clear()
    assert await verifying == {}


@pytest.mark.parametrize("failure", [Unreachable("broker 2", "gone"), Refusal(ErrorCode.UNSUPPORTED_VERSION, "old")])
async def test_a_coordinator_that_does_not_answer_is_not_available(failure: Unreachable | Refusal) -> None:
    coordinators = Coordinators()
    coordinators.failure = failure
    unavailable = {ORDERS_0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert await coordinators.verify(ORDERS_0) == unavailable
    coordinators.failure = None
    assert await coordinators.verify(ORDERS_0) == {}


async def test_without_a_leader_and_without_the_topic_nobody_is_asked() -> None:
    leaderless = with_topic(cluster(1), [-1], topic=TRANSACTIONS_TOPIC, topic_id=TopicId(STATE))
    for image in (cluster(1), leaderless):
        coordinators = Coordinators(image)
        assert await coordinators.verify(ORDERS_0) == {ORDERS_0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert coordinators.requests == []


@pytest.mark.parametrize("transactional_id", ["", "x" * 40_000])
async def test_an_id_that_no_transaction_can_have_is_refused_here(transactional_id: str) -> None:
    coordinators = Coordinators()
    refused = await coordinators.verify(ORDERS_0, transactional_id=transactional_id)
    assert refused == {ORDERS_0: ErrorCode.INVALID_REQUEST}
    assert coordinators.requests == []


async def test_what_waits_for_a_broker_goes_together_in_order_and_in_pieces() -> None:
    coordinators = Coordinators()
    coordinators.holds = asyncio.Event()
    asked = [
        asyncio.create_task(coordinators.verify(ORDERS_0, transactional_id=f"id {number}"))
        for number in range(TRANSACTIONS_PER_REQUEST + 2)
    ]
    await settle()
    assert len(coordinators.requests) == 1
    coordinators.holds.set()
    assert await asyncio.gather(*asked) == [{}] * len(asked)
    ids = [[each.transactional_id for each in request.transactions] for _, request in coordinators.requests]
    assert [len(each) for each in ids] == [TRANSACTIONS_PER_REQUEST, 2]
    assert list(chain(*ids)) == [f"id {number}" for number in range(TRANSACTIONS_PER_REQUEST + 2)]


async def test_answers_come_in_the_order_of_the_questions() -> None:
    """Batches of one producer are appended in this order."""
    coordinators = Coordinators()
    coordinators.holds = asyncio.Event()
    ended: list[int] = []

    async def ask(number: int) -> None:
        await coordinators.verify(ORDERS_0)
        ended.append(number)

    asked = []
    for number in range(20):
        asked.append(asyncio.create_task(ask(number)))
        if number % 3:
            await settle()
    coordinators.holds.set()
    await asyncio.gather(*asked)
    assert ended == list(range(20))


async def test_a_producer_that_disconnects_delays_no_other() -> None:
    coordinators = Coordinators()
    coordinators.holds = asyncio.Event()
    gone, stays = asyncio.create_task(coordinators.verify(ORDERS_0)), asyncio.create_task(coordinators.verify(ORDERS_1))
    await settle()
    gone.cancel()
    await settle()
    coordinators.holds.set()
    assert await stays == {}
    assert coordinators.crashes == []


async def test_a_broker_that_stops_at_once_answers_too() -> None:
    coordinators = Coordinators()
    asked = asyncio.create_task(coordinators.verify(ORDERS_0))
    await asyncio.sleep(0)
    await coordinators.verifier.close()
    async with asyncio.timeout(60):
        assert await asked == {ORDERS_0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert coordinators.requests == []


async def test_a_broker_that_stops_answers_everything_that_waits() -> None:
    coordinators = Coordinators()
    coordinators.holds = asyncio.Event()
    first = asyncio.create_task(coordinators.verify(ORDERS_0))
    await settle()
    second = asyncio.create_task(coordinators.verify(ORDERS_0))
    await settle()
    await coordinators.verifier.close()
    unavailable = {ORDERS_0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    async with asyncio.timeout(60):
        assert await first == await second == unavailable
        assert await coordinators.verify(ORDERS_0) == unavailable
    assert len(coordinators.requests) == 1
    assert coordinators.crashes == []
