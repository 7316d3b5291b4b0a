"""CommitTransactions and AbortTransaction: calls that Kafka does not have."""

from __future__ import annotations

from msgspec import Struct


class PreparedTransaction(Struct, frozen=True, kw_only=True):
    """An open transaction whose records are all stored, by the identity of its producer."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class CommitTransactionsRequest(Struct, frozen=True, kw_only=True):
    """Request to commit open transactions of many ids, all or none, once for each sequence."""

    transactional_id: str
    """Keeps the last sequence; it has no transaction of its own. All ids have one coordinator partition."""

    sequence: int
    """Nothing is committed unless it is above the last one of the id."""

    transactions: tuple[PreparedTransaction, ...]


class CommitTransactionsResponse(Struct, frozen=True, kw_only=True):
    are_committed: bool
    """False if nothing has changed, because the last sequence is this one or a later one."""

    last_sequence: int


class AbortTransactionRequest(Struct, frozen=True, kw_only=True):
    """Request to abort a transaction in one partition that no coordinator has."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    """Epoch of the producer's last marker; a higher one is accepted."""


class AbortTransactionResponse(Struct, frozen=True, kw_only=True):
    pass
