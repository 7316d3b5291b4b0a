"""Commands of the transaction shard, with the response of each. Every one may be refused, with a Refusal as the
response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct

from kraft.coordinator.transactions.transaction import ProducerIdAndEpoch
from kraft.model.errors import ErrorCode
from kraft.model.ids import ProducerId, TopicPartition


class ProducerIdNeeded(Struct, frozen=True):
    """Nothing has changed: the command is to be sent again with a new producer id that nobody else has."""


class InitProducerId(Struct, frozen=True, kw_only=True):
    """InitProducerId with a transactional id; the response is `ProducerIdAndEpoch`, or `ProducerIdNeeded`."""

    transactional_id: str
    timeout_ms: int
    expected: ProducerIdAndEpoch | None = None
    """The identity that the producer already has (KIP-360)."""

    new_producer_id: ProducerId | None = None
    is_temporary: bool = False
    """True to delete the id as soon as its transaction has ended."""

    enable_2pc: bool = False
    keep_prepared: bool = False


class AddPartitions(Struct, frozen=True, kw_only=True):
    """AddPartitionsToTxn for one transaction; the response is None. The partitions were found in the metadata."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: frozenset[TopicPartition]
    client_version: int
    """2 since version 5 of the request, else 0."""


class VerifyPartitions(Struct, frozen=True, kw_only=True):
    """AddPartitionsToTxn of a broker that only asks whether partitions are in the transaction; the response is
    `VerifiedPartitions`."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: frozenset[TopicPartition]


class VerifiedPartitions(Struct, frozen=True):
    """TRANSACTION_ABORTABLE for a partition that is not in the transaction."""

    errors: Mapping[TopicPartition, ErrorCode]


class AddOffsets(Struct, frozen=True, kw_only=True):
    """AddOffsetsToTxn: adds the group's partition of `__consumer_offsets`; the response is None."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    group_id: str


class EndTransaction(Struct, frozen=True, kw_only=True):
    """EndTxn; the response is the `ProducerIdAndEpoch` for the next transaction, or `ProducerIdNeeded`."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    commit: bool
    client_version: int
    """2 since version 5 of the request, else 0."""

    new_producer_id: ProducerId | None = None


class TransactionToCommit(Struct, frozen=True, kw_only=True):
    """An open transaction, by its id and the identity of its producer."""

    transactional_id: str
    producer: ProducerIdAndEpoch


class CommitTransactions(Struct, frozen=True, kw_only=True):
    """Commits open transactions of many ids, all or none, unless the sequence is not above the id's last one.

    The response is `CommitTransactionsResponse`, or `ProducerIdNeeded`. All ids belong to one shard.
    """

    transactional_id: str
    """Keeps the last sequence. It has no transaction of its own."""

    sequence: int
    transactions: tuple[TransactionToCommit, ...]
    new_producer_id: ProducerId | None = None


class MarkersWritten(Struct, frozen=True, kw_only=True):
    """The host has written the markers of a `PendingMarkers` to these partitions, or they do not exist any more; the
    response is None. It may come twice and late."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    prepared_ms: int
    partitions: frozenset[TopicPartition]


TransactionCommand: TypeAlias = (
    InitProducerId
    | AddPartitions
    | VerifyPartitions
    | AddOffsets
    | EndTransaction
    | CommitTransactions
    | MarkersWritten
)
