"""Expiry of transactional ids that no producer has used for `transactional.id.expiration.ms`.

A pass over all ids is made in slices, each of them a decision with one batch of records, so that other requests do not
wait for it. A timer that ends at once continues it.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from kraft.coordinator.shard import Decision
from kraft.coordinator.transactions.records import TransactionRecord
from kraft.coordinator.transactions.replicated import tombstone
from kraft.coordinator.transactions.state import State
from kraft.coordinator.transactions.timers import ExpiryTimer
from kraft.coordinator.transactions.volatile import Pass, TransactionsDecision

_IDS_PER_SLICE: Final = 2_000
"""How many ids a slice looks at."""

_RECORD_BYTES: Final = 64
"""More than a tombstone takes beside its id."""


def continue_expiry(state: State) -> TransactionsDecision:
    """Begin a pass, or continue it. The next one begins an interval after the end of this one."""
    rest = state.volatile.expiry or Pass(transactional_ids=tuple(state.transactions.by_id))
    position, records = _slice(state, rest)
    is_over = position >= len(rest.transactional_ids)
    volatile = replace(
        state.volatile,
        earlier=state.volatile.earlier.with_changes({record.key.transactional_id: None for record in records}),
        expiry=None if is_over else replace(rest, position=position),
    )
    return Decision(
        volatile=volatile,
        records=tuple(records),
        timers={ExpiryTimer(): state.settings.expiry_interval_ms if is_over else 0},
    )


def _slice(state: State, rest: Pass) -> tuple[int, list[TransactionRecord]]:
    """Return where the next slice begins, and the tombstones of this one. They fit into one batch."""
    records: list[TransactionRecord] = []
    size, size_max = 0, state.settings.batch_bytes_max() // 2
    for position, transactional_id in enumerate(
        rest.transactional_ids[rest.position : rest.position + _IDS_PER_SLICE], rest.position
    ):
        if not _is_expired(state, transactional_id):
            continue
        size += _RECORD_BYTES + len(transactional_id.encode())
        if records and size > size_max:
            return position, records
        records.append(tombstone(transactional_id))
    return min(rest.position + _IDS_PER_SLICE, len(rest.transactional_ids)), records


def _is_expired(state: State, transactional_id: str) -> bool:
    transaction = state.transaction(transactional_id)
    if transaction is None or not transaction.state.is_closed:
        return False
    # A temporary id has one transaction, which begins within its own timeout or never.
    after_ms = transaction.timeout_ms if transaction.is_temporary else state.settings.id_expiration_ms
    return transaction.updated_ms <= state.now_ms - after_ms
