"""Asks all coordinators whether one of them has a transaction, before an operator aborts it in one partition.

Nothing in a partition says which transactional id a producer has, so every broker that may coordinate it is asked. A
broker that lists nothing proves nothing: it may not know of its lead yet, or have given it up. So each has to say what
it looked at, and together that has to be every partition of `__transaction_state`, in the leader epoch that this broker
knows of.

Why that is enough: a partition's leader appends the first records of a transaction only after the coordinator, found
with its metadata, has committed that the partition is part of it, and metadata never goes back. So a coordinator in the
epoch of this broker's metadata, or of later metadata, has it until its marker is in the partition. Where partitions are
not verified, this broker's metadata may be as old as that of a deposed coordinator that still answers.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable
from typing import Protocol, TypeVar

from kraft.coordinator.transactions.transaction import ProducerIdAndEpoch
from kraft.metadata.image import CurrentImage
from kraft.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId, LeaderEpoch, TopicPartition
from kraft.model.producer_transactions import (
    ProducerTransaction,
    ProducerTransactionsRequest,
    ProducerTransactionsResponse,
)
from kraft.rpc.call import Call
from kraft.rpc.cluster_calls import LIST_PRODUCER_TRANSACTIONS
from kraft.rpc.peers import Unreachable

Request = TypeVar("Request")
Response = TypeVar("Response")


_Led = dict[int, LeaderEpoch]
"""Partitions of `__transaction_state` that one broker leads, with their leader epochs."""


class Ask(Protocol):
    """Calls a broker, or this one. Raises Unreachable, or its Refusal."""

    def __call__(
        self, broker_id: BrokerId, call: Call[Request, Response], request: Request, /
    ) -> Awaitable[Response]: ...


class HangingTransactions:
    def __init__(self, image: CurrentImage, ask: Ask) -> None:
        self._image = image
        self._ask = ask

    async def check(self, producer: ProducerIdAndEpoch, partition: TopicPartition) -> None:
        """Raise Refusal unless no coordinator has the partition in a transaction of the producer.

        The producer may begin a transaction with the partition at any time after it, so the caller has to see that its
        log did not change meanwhile. Of offsets that cannot be seen, because their coordinator may have decided on more
        than its log has: there, a producer that still has its epoch is refused too.

        COORDINATOR_NOT_AVAILABLE: one of them did not answer, or not for every partition it leads, so nothing is known
        of its transactions.
        """
        coordinators = self._coordinators()
        try:
            await asyncio.gather(
                *(self._check_at(each, led, producer, partition) for each, led in coordinators.items())
            )
        except Unreachable as error:
            raise _unknown(str(error)) from None
        if self._coordinators() != coordinators:
            raise _unknown("coordinators moved meanwhile")

    def _coordinators(self) -> dict[BrokerId, _Led]:
        """Return the leaders of the partitions of `__transaction_state`, with the leader epoch of each."""
        topic = self._image().topic(TRANSACTIONS_TOPIC)
        partitions = {} if topic is None else topic.partitions
        led: defaultdict[BrokerId, _Led] = defaultdict(dict)
        for number, state in partitions.items():
            if not state.has_leader:
                raise _unknown(f"a partition of {TRANSACTIONS_TOPIC} has no leader")
            led[state.leader][number] = state.leader_epoch
        return dict(led)

    async def _check_at(
        self, broker_id: BrokerId, led: _Led, producer: ProducerIdAndEpoch, partition: TopicPartition
    ) -> None:
        request = ProducerTransactionsRequest(producer_id=producer.producer_id)
        listed = await self._ask(broker_id, LIST_PRODUCER_TRANSACTIONS, request)
        _check_all_looked_at(broker_id, led, listed)
        for each in listed.transactions:
            if (reason := _objection(each, producer, partition)) is not None:
                raise Refusal(
                    ErrorCode.INVALID_TXN_STATE,
                    f"the transaction does not hang: its coordinator, broker {broker_id}, {reason}",
                )


def _check_all_looked_at(broker_id: BrokerId, led: _Led, listed: ProducerTransactionsResponse) -> None:
    """Raise Refusal unless a broker has listed the transactions of all partitions it leads, in these leader epochs."""
    looked_at = {each.partition: each.leader_epoch for each in listed.coordinated}
    for number, epoch in led.items():
        if looked_at.get(number) != epoch:
            raise _unknown(
                f"broker {broker_id} has not loaded partition {number} of {TRANSACTIONS_TOPIC} in leader epoch {epoch}"
            )


def _objection(each: ProducerTransaction, producer: ProducerIdAndEpoch, partition: TopicPartition) -> str | None:
    """Return why what a coordinator has of the producer may end the open transaction in the partition, or add to it."""
    if partition in each.partitions:
        return (
            f"has it as {each.state} of transactional id {each.transactional_id!r}: its producer or its timeout ends it"
        )
    if partition.topic == OFFSETS_TOPIC and each.producer_epoch == producer.epoch:
        return (
            f"has its producer, which with transactional id {each.transactional_id!r} may still commit offsets in this "
            "epoch: start the producer anew, so that its epoch is another one"
        )
    return None


def _unknown(reason: str) -> Refusal:
    return Refusal(
        ErrorCode.COORDINATOR_NOT_AVAILABLE, f"whether the transaction hangs is not known, because {reason}: try again"
    )
