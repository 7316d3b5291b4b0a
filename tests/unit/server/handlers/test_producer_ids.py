from __future__ import annotations

import asyncio
from itertools import count

import pytest
from msgspec.structs import replace

from kraft.coordinator.transactions.commands import InitProducerId, TransactionCommand
from kraft.coordinator.transactions.transaction import ProducerIdAndEpoch
from kraft.model.allocate_producer_ids import AllocateProducerIdsRequest, ProducerIdBlock
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerEpoch, BrokerId, ProducerEpoch, ProducerId
from kraft.server.cluster.controller_client import NoController
from kraft.server.cluster.own_registration import OwnRegistration
from kraft.server.cluster.producer_ids import WAIT_MAX_S, ProducerIds
from kraft.server.coordinator.transaction_coordinators import TransactionCoordinators
from kraft.server.handlers.producer_ids import ProducerIdHandler
from kraft.wire.schema.init_producer_id import InitProducerIdRequest
from tests.support.server.fake_controllers import FakeControllers

ASK = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)


class FakeCoordinators(TransactionCoordinators):
    """A coordinator that answers every producer with an identity."""

    def __init__(self) -> None:
        self.asked: list[TransactionCommand] = []

    async def decide(self, command: TransactionCommand) -> ProducerIdAndEpoch:
        self.asked.append(command)
        return ProducerIdAndEpoch(ProducerId(900), ProducerEpoch(3))


def handler(controllers: FakeControllers, coordinators: FakeCoordinators | None = None) -> ProducerIdHandler:
    registration = OwnRegistration(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(4))
    return ProducerIdHandler(ProducerIds(registration, controllers.as_client()), coordinators or FakeCoordinators())


def transactional(producer_id: int = -1, epoch: int = -1) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id="payments", transaction_timeout_ms=9_000, producer_id=producer_id, producer_epoch=epoch
    )


def blocks_of(size: int) -> FakeControllers:
    first = count(0, size)
    return FakeControllers(allocate_producer_ids=lambda _: ProducerIdBlock(first=ProducerId(next(first)), count=size))


async def test_every_producer_gets_another_id_and_a_block_serves_many() -> None:
    controllers = blocks_of(10)
    ids = handler(controllers)
    answers = await asyncio.gather(*(ids.init(ASK) for _ in range(25)))
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
    # aiokafka and older Java clients stop on any other code.
    with pytest.raises(Refusal, match="COORDINATOR_LOAD_IN_PROGRESS: STALE_BROKER_EPOCH: epoch 4 is over"):
        await ids.init(ASK)
    controllers.answers["allocate_producer_ids"] = allocate
    assert (await ids.init(ASK)).producer_id == 0


async def test_without_a_controller_a_producer_gets_a_retriable_error() -> None:
    ids = handler(FakeControllers(allocate_producer_ids=NoController("no controller is active")))
    with pytest.raises(Refusal, match="COORDINATOR_LOAD_IN_PROGRESS: no controller is active"):
        await ids.init(ASK)


async def test_no_producer_waits_longer_than_the_deadline() -> None:
    controllers = blocks_of(10)
    controllers.takes_s = 3_600
    ids = handler(controllers)
    began = asyncio.get_running_loop().time()
    refusals = await asyncio.gather(*(ids.init(ASK) for _ in range(5)), return_exceptions=True)
    assert {str(each)[:28] for each in refusals} == {"COORDINATOR_LOAD_IN_PROGRESS"}
    assert asyncio.get_running_loop().time() - began == pytest.approx(WAIT_MAX_S)
    controllers.takes_s = 0
    assert (await ids.init(ASK)).producer_id == 0


async def test_a_producer_that_disconnects_while_a_block_is_fetched_delays_no_other() -> None:
    controllers = blocks_of(10)
    controllers.takes_s = 1
    ids = handler(controllers)
    gone, stays = (
        asyncio.ensure_future(ids.init(ASK)),
        asyncio.ensure_future(ids.init(ASK)),
    )
    await asyncio.sleep(0.5)
    gone.cancel()
    assert (await stays).error_code == ErrorCode.NONE


async def test_the_identity_of_a_transactional_producer_comes_from_its_coordinator() -> None:
    coordinators = FakeCoordinators()
    ids = handler(blocks_of(10), coordinators)
    answer = await ids.init(transactional())
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (ErrorCode.NONE, 900, 3)
    await ids.init(transactional(900, 3))
    await ids.init_temporary(transactional())
    first = InitProducerId(transactional_id="payments", timeout_ms=9_000)
    again = replace(first, expected=ProducerIdAndEpoch(ProducerId(900), ProducerEpoch(3)))
    assert coordinators.asked == [first, again, replace(first, is_temporary=True)]


@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (-1, 5)])
@pytest.mark.parametrize("transactional_id", [None, "payments"])
async def test_half_of_an_identity_is_refused(transactional_id: str | None, producer_id: int, epoch: int) -> None:
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=1, producer_id=producer_id, producer_epoch=epoch
    )
    with pytest.raises(Refusal, match="INVALID_REQUEST"):
        await handler(blocks_of(10)).init(request)
