"""Records of `__transaction_state`, in Kafka's format: tools that read the topic understand ours.

A key begins with the type of the record (int16), a value with its version (int16). A record without a value deletes the
transactional id. The tagged fields from 10,000 on are ours: Kafka's tools skip them (docs/adr/0037).
`record_codec.py` reads and writes all records. Source: `transaction-coordinator/src/main/resources` of Kafka
4.3.1.
"""

from typing import Final

from msgspec import Struct as Value

from kraft.model.errors import KraftError
from kraft.wire.declaration import Array, Bool, Int8, Int16, Int32, Int64, Message, String, Struct, field


class TransactionLogKey(Message, key=0, versions="0"):
    transactional_id: String


class PartitionsSchema(Struct):
    topic: String
    partition_ids: Array[Int32]


class TransactionLogValue(Message, versions="0-1", flexible="1+"):
    producer_id: Int64
    previous_producer_id: Int64 = field("1+", default=-1, tag=0)
    next_producer_id: Int64 = field("1+", default=-1, tag=1)
    producer_epoch: Int16
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: Array[PartitionsSchema] | None
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    client_transaction_version: Int16 = field("1+", default=0, tag=2)
    last_sequence: Int64 = field("1+", default=-1, tag=10_000)
    is_temporary: Bool = field("1+", default=False, tag=10_001)


FLEXIBLE: Final = 1
"""The version of the value that has tagged fields. Kafka writes it if `transaction.version` is 1 or more."""


class TransactionRecord(Value, frozen=True):
    """A key and its value. Without a value, the transactional id is deleted."""

    key: TransactionLogKey
    value: TransactionLogValue | None
    version: int = FLEXIBLE
    """Version of the value. In version 0, the tagged fields have their defaults."""


class UnknownTransactionRecord(Value, frozen=True):
    """A record to skip: a newer Kafka wrote it."""

    type: int
    """Type of the record."""

    value_version: int | None = None
    """Version of the value, if only that is unknown."""


class InvalidTransactionRecord(KraftError):
    """Bytes that are not a record of `__transaction_state`. The record is skipped."""
