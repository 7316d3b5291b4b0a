from __future__ import annotations

from typing import Any

import pytest

from kraft.metadata.image import MetadataImage
from kraft.metadata.topic_names import TRANSACTIONS_TOPIC
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import NO_BROKER, TopicPartition
from kraft.model.partitions import PartitionName
from kraft.model.transactions import (
    DescribedTransaction,
    DescribeTransactionsResponse,
    ListedTransaction,
    ListTransactionsResponse,
)
from kraft.rpc.peers import Unreachable
from kraft.rpc.transaction_calls import LIST_TRANSACTIONS
from kraft.server.coordinator.hanging_transactions import HangingTransactions
from tests.support.cluster_images import cluster, with_topic

ORDERS_0 = TopicPartition("orders", 0)


def image(*leaders: int) -> MetadataImage:
    return with_topic(cluster(1, 2, 3), *([leader] for leader in leaders), topic=TRANSACTIONS_TOPIC)


class Coordinators:
    """Broker 2 has the transactions, each a transactional id with its state and partitions."""

    def __init__(self) -> None:
        self.image = image(1, 2)
        self.transactions: dict[str, DescribedTransaction] = {}
        self.unreachable: set[int] = set()
        self.asked: set[int] = set()
        self.hanging = HangingTransactions(lambda: self.image, self.ask)

    async def ask(self, broker_id: int, call: Any, request: Any) -> Any:
        self.asked.add(broker_id)
        if broker_id in self.unreachable:
            raise Unreachable(f"broker {broker_id}", "it is down")
        here = self.transactions if broker_id == 2 else {}
        if call is LIST_TRANSACTIONS:
            assert request.producer_ids == (7,)
            listed = (ListedTransaction(transactional_id=each, producer_id=7, state="Ongoing") for each in here)
            return ListTransactionsResponse(transactions=tuple(listed))
        return DescribeTransactionsResponse(transactions=tuple(here[each] for each in request.transactional_ids))

    def have(self, topic: str, **fields: Any) -> None:
        self.transactions["payer"] = DescribedTransaction(
            transactional_id="payer",
            state="Ongoing",
            producer_id=7,
            partitions=(PartitionName(topic=topic, partition=0),),
            **fields,
        )


@pytest.fixture
def coordinators() -> Coordinators:
    return Coordinators()


async def test_a_transaction_that_no_coordinator_has_hangs(coordinators: Coordinators) -> None:
    await coordinators.hanging.check(7, ORDERS_0)
    assert coordinators.asked == {1, 2}
    coordinators.have("parcels")
    await coordinators.hanging.check(7, ORDERS_0)
    coordinators.have("orders", error_code=ErrorCode.NONE)
    with pytest.raises(Refusal, match=r"INVALID_TXN_STATE.*broker 2, has it as Ongoing of transactional id 'payer'"):
        await coordinators.hanging.check(7, ORDERS_0)


async def test_nothing_hangs_while_a_coordinator_is_not_known(coordinators: Coordinators) -> None:
    coordinators.unreachable = {1}
    with pytest.raises(Refusal, match=r"COORDINATOR_NOT_AVAILABLE.*it is down"):
        await coordinators.hanging.check(7, ORDERS_0)
    coordinators.unreachable = set()
    coordinators.image = image(1, NO_BROKER)
    with pytest.raises(Refusal, match=r"COORDINATOR_NOT_AVAILABLE.*has no leader"):
        await coordinators.hanging.check(7, ORDERS_0)
    coordinators.image = image(1, 2)
    coordinators.transactions["payer"] = DescribedTransaction(
        transactional_id="payer", error_code=ErrorCode.NOT_COORDINATOR, error_message="it moved"
    )
    with pytest.raises(Refusal, match="NOT_COORDINATOR"):
        await coordinators.hanging.check(7, ORDERS_0)


async def test_without_coordinators_every_open_transaction_hangs(coordinators: Coordinators) -> None:
    coordinators.image = cluster(1, 2)
    await coordinators.hanging.check(7, ORDERS_0)
    assert coordinators.asked == set()
