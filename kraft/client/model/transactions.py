"""Transactions as the admin client returns them."""

from __future__ import annotations

from msgspec import Struct

from kraft.model.ids import TopicPartition
from kraft.wire.schema.describe_transactions import TransactionState
from kraft.wire.schema.find_coordinator import Coordinator


class TransactionListing(Struct, frozen=True, kw_only=True):
    """A transactional id, and the broker that coordinates it."""

    transactional_id: str
    coordinator_id: int
    producer_id: int
    state: str
    """Kafka's name, such as `Ongoing`."""


class TransactionDescription(Struct, frozen=True, kw_only=True):
    """A transactional id with its current or last transaction."""

    transactional_id: str
    coordinator: Coordinator
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    """Wall time at which the transaction began; None before the first one."""

    partitions: tuple[TopicPartition, ...]
    """Partitions of a transaction that is open, or whose markers are being written."""

    def duration_ms(self, now_ms: int) -> int | None:
        """Return the time since the transaction began; None before the first one."""
        return None if self.start_ms is None else max(0, now_ms - self.start_ms)


def described(transaction: TransactionState, coordinator: Coordinator) -> TransactionDescription:
    """Return the description that a coordinator sent."""
    return TransactionDescription(
        transactional_id=transaction.transactional_id,
        coordinator=coordinator,
        state=transaction.transaction_state,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        timeout_ms=transaction.transaction_timeout_ms,
        start_ms=None if transaction.transaction_start_time_ms < 0 else transaction.transaction_start_time_ms,
        partitions=tuple(
            TopicPartition(topic.topic, number) for topic in transaction.topics for number in topic.partitions
        ),
    )
