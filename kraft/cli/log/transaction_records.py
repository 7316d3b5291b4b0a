"""Records of `__transaction_state` as Kafka's dump tool prints them: JSON with Kafka's names."""

from __future__ import annotations

from typing import Any

from kraft.coordinator.transactions.record_codec import read
from kraft.coordinator.transactions.records import (
    FLEXIBLE,
    InvalidTransactionRecord,
    TransactionLogKey,
    TransactionLogValue,
    UnknownTransactionRecord,
)
from kraft.log.format.record_codec import Record

_DELETED = "<DELETE>"


def contents(record: Record) -> tuple[Any, Any]:
    """Return key and value; a text in place of the key, and no value, for a record that cannot be read."""
    try:
        decoded = read(record.key, record.value)
    except InvalidTransactionRecord as error:
        return f"Error at offset {record.offset}, skipping. {error}", None
    if isinstance(decoded, UnknownTransactionRecord):
        if decoded.value_version is not None:
            return f"Unknown version {decoded.value_version} of a value at offset {record.offset}, skipping.", None
        return f"Unknown record type {decoded.type} at offset {record.offset}, skipping.", None
    key = {"type": str(TransactionLogKey.message_key), "data": {"transactionalId": decoded.key.transactional_id}}
    if decoded.value is None:
        return key, _DELETED
    return key, {"version": str(decoded.version), "data": _data(decoded.value, decoded.version)}


def _data(value: TransactionLogValue, version: int) -> dict[str, Any]:
    """Return the fields in Kafka's order; tagged fields with their defaults are left out."""
    tagged = version >= FLEXIBLE
    data: dict[str, Any] = {"producerId": value.producer_id}
    if tagged and value.previous_producer_id != -1:
        data["previousProducerId"] = value.previous_producer_id
    if tagged and value.next_producer_id != -1:
        data["nextProducerId"] = value.next_producer_id
    topics = value.transaction_partitions
    data |= {
        "producerEpoch": value.producer_epoch,
        "transactionTimeoutMs": value.transaction_timeout_ms,
        "transactionStatus": value.transaction_status,
        "transactionPartitions": None
        if topics is None
        else [{"topic": each.topic, "partitionIds": list(each.partition_ids)} for each in topics],
        "transactionLastUpdateTimestampMs": value.transaction_last_update_timestamp_ms,
        "transactionStartTimestampMs": value.transaction_start_timestamp_ms,
    }
    if tagged and value.client_transaction_version != 0:
        data["clientTransactionVersion"] = value.client_transaction_version
    return data
