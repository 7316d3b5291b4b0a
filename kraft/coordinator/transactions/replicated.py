"""The replicated state of the transaction shard: what its records say, and nothing else."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from kraft.coordinator.shard import Contents
from kraft.coordinator.transactions.records import (
    FLEXIBLE,
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
    TransactionRecord,
)
from kraft.coordinator.transactions.transaction import ProducerIdAndEpoch, Transaction, TransactionState
from kraft.metadata.persistent_maps import PersistentMap
from kraft.model.ids import ProducerId, TopicPartition, numbers_by_topic


class Transactions(Struct, frozen=True, kw_only=True):
    """All transactional ids of one partition of `__transaction_state`."""

    by_id: PersistentMap[str, Transaction] = PersistentMap()
    prepared: PersistentMap[str, Transaction] = PersistentMap()
    """Those that are decided and whose markers are being written."""

    ids_bytes: int = 0
    partitions_bytes: int = 0
    """Memory that the ids take, and the partitions of their transactions, approximately."""


NO_TRANSACTIONS: Final = Transactions()

NAMED_MAX: Final = 5


def contents(transactions: Transactions) -> Contents:
    """Return how many transactional ids there are, and with a transaction that is open, and the first few of these."""
    is_open = [each for each, state in transactions.by_id.items() if state.state is TransactionState.ONGOING]
    counts = {"transactional_ids": len(transactions.by_id), "ongoing": len(is_open)}
    return Contents(counts=counts, named=is_open[:NAMED_MAX])


_ID_BYTES: Final = 640
_PARTITION_BYTES: Final = 150
"""Memory of an id without its text, measured with 200,000 of them, and of a partition in its transaction."""


def replay(transactions: Transactions, record: TransactionRecord) -> Transactions:
    """Return the state after one record."""
    transactional_id = record.key.transactional_id
    transaction = None if record.value is None else recorded(record.value)
    is_prepared = transaction is not None and transaction.state.is_prepared
    prepared = transactions.prepared
    if is_prepared or transactional_id in prepared:
        prepared = prepared.with_changes({transactional_id: transaction if is_prepared else None})
    before = transactions.by_id.get(transactional_id)
    return Transactions(
        by_id=transactions.by_id.with_changes({transactional_id: transaction}),
        prepared=prepared,
        ids_bytes=transactions.ids_bytes
        + id_bytes(transactional_id) * ((transaction is not None) - (before is not None)),
        partitions_bytes=transactions.partitions_bytes + partitions_bytes(transaction) - partitions_bytes(before),
    )


def id_bytes(transactional_id: str) -> int:
    """Return about how much memory an id takes without the partitions of its transaction."""
    return _ID_BYTES + len(transactional_id.encode())


def partitions_bytes(transaction: Transaction | None) -> int:
    """Return about how much memory the partitions of a transaction take; nothing if there is none."""
    return 0 if transaction is None else _PARTITION_BYTES * len(transaction.partitions)


def recorded(value: TransactionLogValue) -> Transaction:
    """Return the transaction that a record says."""
    state = TransactionState(value.transaction_status)
    topics = value.transaction_partitions or ()
    return Transaction(
        state=state,
        producer=ProducerIdAndEpoch.of(value.producer_id, value.producer_epoch),
        previous_producer_id=ProducerId(value.previous_producer_id),
        next_producer_id=ProducerId(value.next_producer_id),
        timeout_ms=value.transaction_timeout_ms,
        partitions=frozenset(
            TopicPartition(topic.topic, partition)
            for topic in topics
            for partition in topic.partition_ids
            if not state.is_closed
        ),
        start_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
        last_sequence=value.last_sequence,
        is_temporary=value.is_temporary,
    )


def record_of(transactional_id: str, transaction: Transaction, *, transaction_version: int) -> TransactionRecord:
    """Return the record of a transaction, in the version that Kafka writes at this level of `transaction.version`."""
    version = FLEXIBLE if max(transaction_version, transaction.client_version) > 0 else 0
    tagged: dict[str, Any] = {}
    if version == FLEXIBLE:
        tagged = {
            "previous_producer_id": transaction.previous_producer_id,
            "next_producer_id": transaction.next_producer_id,
            "client_transaction_version": transaction.client_version,
            "last_sequence": transaction.last_sequence,
            "is_temporary": transaction.is_temporary,
        }
    is_empty = transaction.state is TransactionState.EMPTY
    value = TransactionLogValue(
        producer_id=transaction.producer.producer_id,
        producer_epoch=transaction.producer.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=int(transaction.state),
        transaction_partitions=None if is_empty else _by_topic(transaction.partitions),
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        **tagged,
    )
    return TransactionRecord(TransactionLogKey(transactional_id=transactional_id), value, version)


def tombstone(transactional_id: str) -> TransactionRecord:
    """Return the record that deletes the transactional id."""
    return TransactionRecord(TransactionLogKey(transactional_id=transactional_id), None)


def _by_topic(partitions: frozenset[TopicPartition]) -> tuple[PartitionsSchema, ...]:
    topics = numbers_by_topic(sorted(partitions))
    return tuple(PartitionsSchema(topic=topic, partition_ids=tuple(numbers)) for topic, numbers in topics.items())
