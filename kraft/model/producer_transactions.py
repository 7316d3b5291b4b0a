"""ListProducerTransactions: asks a coordinator for the transactions of a producer id. Kafka has no such call.

ListTransactions does not say which partitions of `__transaction_state` the broker has looked at, without which an empty
list proves nothing.
"""

from __future__ import annotations

from msgspec import Struct

from kraft.model.ids import TopicPartition


class ProducerTransactionsRequest(Struct, frozen=True, kw_only=True):
    producer_id: int


class ProducerTransaction(Struct, frozen=True, kw_only=True):
    transactional_id: str
    state: str
    """Kafka's name."""

    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    """Partitions of a transaction that is open, or whose markers are being written."""


class CoordinatedPartition(Struct, frozen=True, kw_only=True):
    """A partition of `__transaction_state` that the broker leads and has loaded."""

    partition: int
    leader_epoch: int


class ProducerTransactionsResponse(Struct, frozen=True, kw_only=True):
    transactions: tuple[ProducerTransaction, ...]
    coordinated: tuple[CoordinatedPartition, ...]
    """The partitions whose transactional ids were looked at. Nothing is known of the ids of others."""
