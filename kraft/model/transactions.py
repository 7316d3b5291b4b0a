"""EndTxn, CommitTransactions, ListTransactions, DescribeTransactions and AbortTransaction: calls of producers and
operators."""

from __future__ import annotations

from msgspec import Struct

from kraft.model.errors import ErrorCode
from kraft.model.partitions import PartitionName


class EndTxnRequest(Struct, frozen=True, kw_only=True):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    """True to commit, False to abort."""


class EndTxnResponse(Struct, frozen=True, kw_only=True):
    """Identity for the next transaction."""

    producer_id: int
    producer_epoch: int


class NamedTransaction(Struct, frozen=True, kw_only=True):
    """An open transaction, by its id and the identity of its producer."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class CommitTransactionsRequest(Struct, frozen=True, kw_only=True):
    """Request to commit open transactions of many ids, all or none, once for each sequence."""

    transactional_id: str
    """Keeps the last sequence; it has no transaction of its own. All ids have one coordinator partition."""

    sequence: int
    """Nothing is committed unless it is above the last one of the id."""

    transactions: tuple[NamedTransaction, ...]


class CommitTransactionsResponse(Struct, frozen=True, kw_only=True):
    are_committed: bool
    """False if nothing has changed, because the last sequence is this one or a later one."""

    last_sequence: int


class ListTransactionsRequest(Struct, frozen=True, kw_only=True):
    """Request for the transactional ids that the broker coordinates; every filter that is set has to accept one."""

    states: tuple[str, ...] = ()
    """Kafka's names of states; empty for all."""

    producer_ids: tuple[int, ...] = ()
    """Empty for all."""

    duration_ms: int | None = None
    """Only transactions that began longer ago than this."""

    transactional_id_pattern: str = ""
    """Regular expression that the id has to match as a whole; empty for all."""


class ListedTransaction(Struct, frozen=True, kw_only=True):
    transactional_id: str
    producer_id: int
    state: str


class CoordinatedPartition(Struct, frozen=True, kw_only=True):
    """A partition of `__transaction_state` that the broker leads and has loaded."""

    partition: int
    leader_epoch: int


class ListTransactionsResponse(Struct, frozen=True, kw_only=True):
    transactions: tuple[ListedTransaction, ...]
    unknown_states: tuple[str, ...] = ()
    """States of the request that do not exist."""

    coordinated: tuple[CoordinatedPartition, ...] = ()
    """The partitions whose transactional ids were looked at. Nothing is known of the ids of others."""


class DescribeTransactionsRequest(Struct, frozen=True, kw_only=True):
    transactional_ids: tuple[str, ...]


class DescribedTransaction(Struct, frozen=True, kw_only=True):
    transactional_id: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    state: str = ""
    timeout_ms: int = 0
    start_ms: int = -1
    """Wall time at which the open transaction began; -1 if none is open."""

    producer_id: int = -1
    producer_epoch: int = -1
    partitions: tuple[PartitionName, ...] = ()
    """Partitions of the open transaction."""


class DescribeTransactionsResponse(Struct, frozen=True, kw_only=True):
    transactions: tuple[DescribedTransaction, ...]


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
