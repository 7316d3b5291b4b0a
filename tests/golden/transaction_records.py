"""The records of `__transaction_state` whose bytes are golden."""

from __future__ import annotations

from typing import Any, Final

from kraft.coordinator.transactions.records import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
    TransactionRecord,
)
from kraft.coordinator.transactions.transaction import TransactionState

TRANSACTIONAL_ID: Final = "größe 😀"
TIME_MS: Final = 1_700_000_000_123
_KEY: Final = TransactionLogKey(transactional_id=TRANSACTIONAL_ID)
_PARTITIONS: Final = (
    PartitionsSchema(topic="__consumer_offsets", partition_ids=(49,)),
    PartitionsSchema(topic="x" * 200, partition_ids=tuple(range(200))),
)


def _record(state: TransactionState, version: int, **fields: Any) -> TransactionRecord:
    value = TransactionLogValue(
        **{
            "producer_id": 2**40 + 1,
            "producer_epoch": 32_766,
            "transaction_timeout_ms": 60_000,
            "transaction_status": int(state),
            "transaction_partitions": (),
            "transaction_last_update_timestamp_ms": TIME_MS + 10,
            "transaction_start_timestamp_ms": TIME_MS,
            **fields,
        }
    )
    return TransactionRecord(_KEY, value, version)


RECORDS: Final[dict[str, TransactionRecord]] = {
    "deletion": TransactionRecord(_KEY, None),
    "empty-v0": _record(
        TransactionState.EMPTY, 0, producer_epoch=0, transaction_partitions=None, transaction_start_timestamp_ms=-1
    ),
    "empty-v1": _record(TransactionState.EMPTY, 1, transaction_partitions=None, previous_producer_id=2**40 + 1),
    "ongoing-v0": _record(TransactionState.ONGOING, 0, transaction_partitions=_PARTITIONS),
    "ongoing-v1": _record(
        TransactionState.ONGOING, 1, transaction_partitions=_PARTITIONS, client_transaction_version=2
    ),
    "prepare-commit-v0": _record(TransactionState.PREPARE_COMMIT, 0, transaction_partitions=_PARTITIONS),
    "prepare-commit-v1-with-all-tags": _record(
        TransactionState.PREPARE_COMMIT,
        1,
        producer_epoch=32_767,
        transaction_partitions=_PARTITIONS,
        previous_producer_id=2**40 + 1,
        next_producer_id=2**62,
        client_transaction_version=2,
    ),
    "prepare-abort-v1": _record(TransactionState.PREPARE_ABORT, 1, client_transaction_version=2),
    "complete-commit-v0": _record(TransactionState.COMPLETE_COMMIT, 0),
    "complete-commit-v1": _record(TransactionState.COMPLETE_COMMIT, 1, previous_producer_id=7),
    "complete-abort-v1": _record(TransactionState.COMPLETE_ABORT, 1, client_transaction_version=2),
}
