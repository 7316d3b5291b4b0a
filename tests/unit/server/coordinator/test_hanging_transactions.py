from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraft.coordinator.transactions.transaction import ProducerIdAndEpoch
from kraft.metadata.image import MetadataImage
from kraft.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import NO_BROKER, ProducerEpoch, ProducerId, TopicPartition
from kraft.model.producer_transactions import (
    CoordinatedPartition,
    ProducerTransaction,
    ProducerTransactionsRequest,
    ProducerTransactionsResponse,
)
from kraft.rpc.cluster_calls import LIST_PRODUCER_TRANSACTIONS
from kraft.rpc.peers import Unreachable
from kraft.server.coordinator.hanging_transactions import HangingTransactions
from tests.support.cluster_images import cluster, with_topic

ORDERS_0 = TopicPartition("orders", 0)


def image(*leaders: int) -> MetadataImage:
    return with_topic(cluster(1, 2, 3), *([leader] for leader in leaders), topic=TRANSACTIONS_TOPIC)


class Coordinators:
    """Broker 2 has the transactions, each a transactional id with its state and partitions.

    `coordinated` is what each broker has loaded: the number of a partition, with its leader epoch there. A broker that
    has not loaded the partition of a transaction lists none, as real ones do.
    """

    def __init__(self) -> None:
        self.image = image(1, 2)
        self.transactions: dict[str, ProducerTransaction] = {}
        self.unreachable: set[int] = set()
        self.coordinated = {1: {0: 0}, 2: {1: 0}}
        self.while_asked: Callable[[], object] = lambda: None
        self.asked: set[int] = set()
        self.hanging = HangingTransactions(lambda: self.image, self.ask)

    async def ask(self, broker_id: int, call: Any, request: Any) -> Any:
        self.asked.add(broker_id)
        if broker_id in self.unreachable:
            raise Unreachable(f"broker {broker_id}", "it is down")
        self.while_asked()
        coordinated = self.coordinated.get(broker_id, {})
        here = self.transactions if broker_id == 2 and 1 in coordinated else {}
        assert call is LIST_PRODUCER_TRANSACTIONS
        assert request == ProducerTransactionsRequest(producer_id=7)
        return ProducerTransactionsResponse(
            transactions=tuple(here.values()),
            coordinated=tuple(
                CoordinatedPartition(partition=number, leader_epoch=epoch) for number, epoch in coordinated.items()
            ),
        )

    async def check(self, partition: TopicPartition = ORDERS_0, epoch: int = 3) -> None:
        await self.hanging.check(ProducerIdAndEpoch(ProducerId(7), ProducerEpoch(epoch)), partition)

    def have(self, topic: str) -> None:
        self.transactions["payer"] = ProducerTransaction(
            transactional_id="payer", state="Ongoing", producer_epoch=3, partitions=(TopicPartition(topic, 0),)
        )


@pytest.fixture
def coordinators() -> Coordinators:
    return Coordinators()


async def test_a_transaction_that_no_coordinator_has_hangs(coordinators: Coordinators) -> None:
    await coordinators.check()
    assert coordinators.asked == {1, 2}
    coordinators.have("parcels")
    await coordinators.check()
    coordinators.have("orders")
    with pytest.raises(Refusal, match=r"INVALID_TXN_STATE.*broker 2, has it as Ongoing of transactional id 'payer'"):
        await coordinators.check()


async def test_nothing_hangs_while_a_coordinator_is_not_known(coordinators: Coordinators) -> None:
    coordinators.unreachable = {1}
    with pytest.raises(Refusal, match=r"COORDINATOR_NOT_AVAILABLE.*it is down"):
        await coordinators.check()
    coordinators.unreachable = set()
    coordinators.image = image(1, NO_BROKER)
    with pytest.raises(Refusal, match=r"COORDINATOR_NOT_AVAILABLE.*has no leader"):
        await coordinators.check()


@pytest.mark.parametrize(
    "coordinated",
    [
        {1: {0: 0}, 2: {}},
        {1: {0: 0}, 2: {1: 1}},
        {1: {0: 0, 1: 0}, 2: {}},
        {1: {}, 2: {1: 0}},
    ],
    ids=["not led yet, or drained", "led in another epoch", "answered by another broker", "of another partition"],
)
async def test_nothing_hangs_unless_the_answers_cover_all_coordinators(
    coordinators: Coordinators, coordinated: dict[int, dict[int, int]]
) -> None:
    """A leader may not know of its lead yet: then it lists nothing, though it has the transaction."""
    coordinators.have("orders")
    coordinators.coordinated = coordinated
    with pytest.raises(Refusal) as caught:
        await coordinators.check()
    if 1 not in coordinated[2]:
        assert caught.value.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert "broker 2 has not loaded partition 1 of __transaction_state in leader epoch 0" in caught.value.message
    coordinators.transactions.clear()
    with pytest.raises(Refusal, match=r"COORDINATOR_NOT_AVAILABLE.*has not loaded partition . .*try again"):
        await coordinators.check()


async def test_nothing_hangs_while_coordinators_move(coordinators: Coordinators) -> None:
    def move() -> None:
        coordinators.image = image(1, 3)

    coordinators.while_asked = move
    with pytest.raises(Refusal, match=r"COORDINATOR_NOT_AVAILABLE.*coordinators moved meanwhile"):
        await coordinators.check()


async def test_offsets_hang_only_if_their_producer_cannot_add_more(coordinators: Coordinators) -> None:
    """A group's coordinator may have decided on offsets of the same epoch that are not in the log yet."""
    offsets = TopicPartition(OFFSETS_TOPIC, 0)
    coordinators.have("orders")
    with pytest.raises(Refusal, match=r"INVALID_TXN_STATE.*transactional id 'payer' may still commit offsets"):
        await coordinators.check(offsets)
    await coordinators.check(offsets, epoch=2)


async def test_without_coordinators_every_open_transaction_hangs(coordinators: Coordinators) -> None:
    coordinators.image = cluster(1, 2)
    await coordinators.check()
    assert coordinators.asked == set()
