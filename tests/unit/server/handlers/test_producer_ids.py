from __future__ import annotations

import asyncio
from itertools import count

import pytest

from kraft.coordinator.transactions.commands import InitProducerId
from kraft.coordinator.transactions.transaction import ProducerIdAndEpoch
from kraft.model.allocate_producer_ids import AllocateProducerIdsRequest, ProducerIdBlock
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerEpoch, BrokerId, ProducerEpoch, ProducerId
from kraft.model.init_producer_id import InitProducerIdRequest
from kraft.server.cluster.controller_client import NoController
from kraft.server.cluster.own_registration import OwnRegistration
from kraft.server.cluster.producer_ids import WAIT_MAX_S, ProducerIds
from kraft.server.handlers.producer_ids import ProducerIdHandler
from kraft.server.handlers.transactions import TransactionsHandler
from tests.support.server.fake_controllers import FakeControllers

ASK = InitProducerIdRequest()


class FakeTransactions(TransactionsHandler):
    """A coordinator that answers every producer with an identity, or refuses."""

    def __init__(self) -> None:
        self.asked: list[InitProducerId] = []
        self.refusal: Refusal | None = None

    async def init_producer_id(self, command: InitProducerId) -> ProducerIdAndEpoch:
        self.asked.append(command)
        if self.refusal is not None:
            raise self.refusal
        return ProducerIdAndEpoch(ProducerId(900), ProducerEpoch(3))


def handler(controllers: FakeControllers, transactions: FakeTransactions | None = None) -> ProducerIdHandler:
    registration = OwnRegistration(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(4))
    return ProducerIdHandler(ProducerIds(registration, controllers.as_client()), transactions or FakeTransactions())


def blocks_of(size: int) -> FakeControllers:
    first = count(0, size)
    return FakeControllers(allocate_producer_ids=lambda _: ProducerIdBlock(first=ProducerId(next(first)), count=size))


async def test_every_producer_gets_another_id_and_a_block_serves_many() -> None:
    controllers = blocks_of(10)
    ids = handler(controllers)
    answers = await asyncio.gather(*(ids.handle(ASK) for _ in range(25)))
    assert [answer.producer_id for answer in answers] == list(range(25))
    assert {(answer.error_code, answer.producer_epoch) for answer in answers} == {(ErrorCode.NONE, 0)}
    requests = controllers.requests("allocate_producer_ids")
    assert requests == [AllocateProducerIdsRequest(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(4))] * 3


async def test_a_refusal_of_the_controller_is_answered_and_the_next_producer_retries() -> None:
    controllers = blocks_of(10)
    allocate = controllers.answers["allocate_producer_ids"]
    controllers.answers["allocate_producer_ids"] = ProducerIdBlock(
        error_code=ErrorCode.STALE_BROKER_EPOCH, error_message="epoch 4 is over"
    )
    ids = handler(controllers)
    refused = await ids.handle(ASK)
    assert (refused.error_code, refused.error_message, refused.producer_id) == (
        ErrorCode.STALE_BROKER_EPOCH,
        "epoch 4 is over",
        -1,
    )
    controllers.answers["allocate_producer_ids"] = allocate
    assert (await ids.handle(ASK)).producer_id == 0


async def test_without_a_controller_a_producer_gets_a_retriable_error() -> None:
    answer = await handler(FakeControllers(allocate_producer_ids=NoController("no controller is active"))).handle(
        InitProducerIdRequest()
    )
    assert (answer.error_code, answer.error_message) == (ErrorCode.REQUEST_TIMED_OUT, "no controller is active")


async def test_no_producer_waits_longer_than_the_deadline() -> None:
    controllers = blocks_of(10)
    controllers.takes_s = 3_600
    ids = handler(controllers)
    began = asyncio.get_running_loop().time()
    answers = await asyncio.gather(*(ids.handle(ASK) for _ in range(5)))
    assert {answer.error_code for answer in answers} == {ErrorCode.REQUEST_TIMED_OUT}
    assert asyncio.get_running_loop().time() - began == pytest.approx(WAIT_MAX_S)
    controllers.takes_s = 0
    assert (await ids.handle(ASK)).producer_id == 0


async def test_a_producer_that_disconnects_while_a_block_is_fetched_delays_no_other() -> None:
    controllers = blocks_of(10)
    controllers.takes_s = 1
    ids = handler(controllers)
    gone, stays = (
        asyncio.ensure_future(ids.handle(ASK)),
        asyncio.ensure_future(ids.handle(ASK)),
    )
    await asyncio.sleep(0.5)
    gone.cancel()
    assert (await stays).error_code is ErrorCode.NONE


async def test_the_identity_of_a_transactional_producer_comes_from_its_coordinator() -> None:
    transactions = FakeTransactions()
    ids = handler(blocks_of(10), transactions)
    answer = await ids.handle(InitProducerIdRequest(transactional_id="payments", transaction_timeout_ms=9_000))
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (ErrorCode.NONE, 900, 3)
    again = InitProducerIdRequest(
        transactional_id="payments", transaction_timeout_ms=9_000, producer_id=900, producer_epoch=3
    )
    await ids.handle(again)
    first, second = transactions.asked
    assert (first.transactional_id, first.timeout_ms, first.expected) == ("payments", 9_000, None)
    assert second.expected == ProducerIdAndEpoch(ProducerId(900), ProducerEpoch(3))


async def test_a_refusal_of_the_coordinator_is_answered() -> None:
    transactions = FakeTransactions()
    transactions.refusal = Refusal(ErrorCode.CONCURRENT_TRANSACTIONS, "being completed")
    answer = await handler(blocks_of(10), transactions).handle(InitProducerIdRequest(transactional_id="payments"))
    assert (answer.error_code, answer.error_message) == (ErrorCode.CONCURRENT_TRANSACTIONS, "being completed")


@pytest.mark.parametrize(("producer_id", "epoch"), [(5, None), (None, 5)])
async def test_half_of_an_identity_is_refused(producer_id: int | None, epoch: int | None) -> None:
    request = InitProducerIdRequest(transactional_id="payments", producer_id=producer_id, producer_epoch=epoch)
    assert (await handler(blocks_of(10)).handle(request)).error_code is ErrorCode.INVALID_REQUEST
