"""Asks all coordinators whether one of them has a transaction, before an operator aborts it in one partition.

Nothing in a partition says which transactional id a producer has, so every broker that may coordinate it is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from kraft.metadata.image import MetadataImage
from kraft.metadata.topic_names import TRANSACTIONS_TOPIC
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId, TopicPartition
from kraft.model.partitions import PartitionName
from kraft.model.transactions import DescribeTransactionsRequest, ListTransactionsRequest
from kraft.rpc.call import Call
from kraft.rpc.peers import Unreachable
from kraft.rpc.transaction_calls import DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS

Request = TypeVar("Request")
Response = TypeVar("Response")


class Ask(Protocol):
    """Calls a broker, or this one. Raises Unreachable, or its Refusal."""

    def __call__(
        self, broker_id: BrokerId, call: Call[Request, Response], request: Request, /
    ) -> Awaitable[Response]: ...


class HangingTransactions:
    def __init__(self, image: Callable[[], MetadataImage], ask: Ask) -> None:
        self._image = image
        self._ask = ask

    async def check(self, producer_id: int, partition: TopicPartition) -> None:
        """Raise Refusal unless no coordinator has the partition in a transaction of the producer.

        COORDINATOR_NOT_AVAILABLE: one of them did not answer, so nothing is known of its transactions.
        """
        coordinators = self._coordinators()
        try:
            await asyncio.gather(*(self._check_at(each, producer_id, partition) for each in coordinators))
        except Unreachable as error:
            raise _unknown(str(error)) from None
        if self._coordinators() != coordinators:
            raise _unknown("coordinators moved meanwhile")

    def _coordinators(self) -> set[BrokerId]:
        """Return the leaders of the partitions of `__transaction_state`."""
        topic = self._image().topic(TRANSACTIONS_TOPIC)
        partitions = () if topic is None else tuple(topic.partitions.values())
        if not all(each.has_leader for each in partitions):
            raise _unknown(f"a partition of {TRANSACTIONS_TOPIC} has no leader")
        return {each.leader for each in partitions}

    async def _check_at(self, broker_id: BrokerId, producer_id: int, partition: TopicPartition) -> None:
        listed = await self._ask(broker_id, LIST_TRANSACTIONS, ListTransactionsRequest(producer_ids=(producer_id,)))
        ids = tuple(each.transactional_id for each in listed.transactions)
        if not ids:
            return
        described = await self._ask(
            broker_id, DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest(transactional_ids=ids)
        )
        name = PartitionName(topic=partition.topic, partition=partition.partition)
        for each in described.transactions:
            if each.error_code not in (ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND):
                raise Refusal(each.error_code, each.error_message)
            if name in each.partitions:
                raise Refusal(
                    ErrorCode.INVALID_TXN_STATE,
                    f"the transaction does not hang: its coordinator, broker {broker_id}, has it as {each.state} of "
                    f"transactional id {each.transactional_id!r}: its producer or its timeout ends it",
                )


def _unknown(reason: str) -> Refusal:
    return Refusal(
        ErrorCode.COORDINATOR_NOT_AVAILABLE, f"whether the transaction hangs is not known, because {reason}: try again"
    )
