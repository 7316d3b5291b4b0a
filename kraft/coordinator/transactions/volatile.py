"""The volatile state of the transaction shard: it ends with the leadership of the partition."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from kraft.coordinator.shard import ShardDecision
from kraft.coordinator.transactions.records import TransactionRecord
from kraft.coordinator.transactions.transaction import ProducerIdAndEpoch
from kraft.metadata.persistent_maps import PersistentMap
from kraft.model.ids import TopicPartition


class TransactionalIdsPass(Struct, frozen=True, kw_only=True):
    """A pass over transactional ids, some at a time: those before `position` were visited."""

    transactional_ids: tuple[str, ...]
    position: int = 0
    unused_ms: int | None = None
    """The age from which ids are evicted whose producer has begun no transaction, as long as room is needed; None if
    none are."""


class TransactionsVolatile(Struct, frozen=True, kw_only=True):
    earlier: PersistentMap[str, ProducerIdAndEpoch] = PersistentMap()
    """The identity that a producer had before it was given its present one: it may ask for that again. Kafka's records
    do not have it either. Without an entry, the present identity was given to a new producer."""

    written: PersistentMap[str, frozenset[TopicPartition]] = PersistentMap()
    """Partitions that have the markers of a prepared transaction, until all have."""

    expiry: TransactionalIdsPass | None = None
    """The pass that looks for expired transactional ids; None between two of them."""

    evicted_ms: int | None = None
    """When the last pass that evicts ended; None if there was none."""


TransactionsDecision: TypeAlias = ShardDecision[TransactionsVolatile, TransactionRecord]
