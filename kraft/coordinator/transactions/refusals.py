"""Refusals that more than one request has."""

from __future__ import annotations

from typing import Final

from kraft.coordinator.transactions.transaction import EPOCH_BUMP, ProducerIdAndEpoch, Transaction
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition

_ID_BYTES_MAX: Final = 2**15 - 1
"""Longest text of Kafka's records."""


def id_error(transactional_id: str) -> Refusal | None:
    """Return why no transaction can have this id, or None."""
    if not transactional_id:
        return Refusal(ErrorCode.INVALID_REQUEST, "the transactional id is empty: set transactional.id")
    if len(transactional_id) * 4 > _ID_BYTES_MAX and len(transactional_id.encode()) > _ID_BYTES_MAX:
        return Refusal(ErrorCode.INVALID_REQUEST, f"the transactional id is longer than {_ID_BYTES_MAX} bytes")
    return None


def unknown_producer(transactional_id: str, producer: ProducerIdAndEpoch) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        f"producer id {producer.producer_id} does not belong to transactional id {transactional_id!r}: "
        "send InitProducerId again",
    )


def producer_fenced(transactional_id: str, producer: ProducerIdAndEpoch) -> Refusal:
    return Refusal(
        ErrorCode.PRODUCER_FENCED,
        f"epoch {producer.epoch} of producer id {producer.producer_id} is not the current one: another producer uses "
        f"transactional id {transactional_id!r}, or its transaction was aborted",
    )


def answered(
    code: ErrorCode, transactional_id: str, producer: ProducerIdAndEpoch, partition: TopicPartition
) -> Refusal:
    """Return what a coordinator has refused to a broker, which gets only the code."""
    match code:
        case ErrorCode.PRODUCER_FENCED:
            return producer_fenced(transactional_id, producer)
        case ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            return unknown_producer(transactional_id, producer)
        case ErrorCode.CONCURRENT_TRANSACTIONS:
            return transaction_being_completed(transactional_id)
        case ErrorCode.TRANSACTION_ABORTABLE:
            reason = f"{partition} is not part of the transaction of {transactional_id!r}, or finds no room: abort it"
        case _:
            reason = f"the coordinator of {transactional_id!r} has not accepted {partition}"
    return Refusal(code, reason)


def too_many_ids(transactional_id: str, memory_bytes: int, memory_bytes_max: int) -> Refusal:
    return Refusal(
        ErrorCode.POLICY_VIOLATION,
        f"transactional id {transactional_id!r} is not known, and those of its partition of __transaction_state take "
        f"{memory_bytes} of {memory_bytes_max} bytes: use fewer ids, raise "
        "transaction.state.partition.memory.max.bytes, or lower transactional.id.expiration.ms",
    )


def room_being_made(transactional_id: str) -> Refusal:
    """Return a refusal after which clients wait a moment, and retry."""
    return Refusal(
        ErrorCode.CONCURRENT_TRANSACTIONS,
        f"transactional id {transactional_id!r} is not known, and room for it is being made; retry",
    )


def too_many_partitions(
    transactional_id: str, transaction: Transaction, memory_bytes: int, memory_bytes_max: int
) -> Refusal:
    """Return a refusal after which clients abort their transaction, and go on. They repeat a retriable one for ever.

    After UNKNOWN_PRODUCER_ID those before KIP-890 ask for another epoch, whether they ask for the end or not.
    """
    bumps, count = transaction.client_version >= EPOCH_BUMP, len(transaction.partitions)
    return Refusal(
        ErrorCode.TRANSACTION_ABORTABLE if bumps else ErrorCode.UNKNOWN_PRODUCER_ID,
        f"the {count} partitions of the transaction of {transactional_id!r} find no room: those of the ids of its "
        f"partition of __transaction_state take {memory_bytes} of {memory_bytes_max} bytes: abort it, and use fewer "
        "partitions, or raise transaction.state.partition.memory.max.bytes",
    )


def transaction_being_completed(transactional_id: str) -> Refusal:
    return Refusal(
        ErrorCode.CONCURRENT_TRANSACTIONS, f"the last transaction of {transactional_id!r} is being completed; retry"
    )
