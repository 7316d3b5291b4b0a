"""Expiry of transactional ids that no producer has used for `transactional.id.expiration.ms`, and eviction.

A pass over all ids is made in slices, each of them a decision with one batch of records, so that other requests do not
wait for it. A timer that ends at once continues it. When a new id finds no room, a pass begins that evicts ids whose
producer has begun no transaction, the oldest first. The producer of an evicted id is told that its producer id is not
known, as after an expiry: it asks for another one, and aborts what it had begun.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from kraft.coordinator.shard import ShardDecision, Ticket
from kraft.coordinator.transactions.records import TransactionRecord
from kraft.coordinator.transactions.refusals import room_being_made
from kraft.coordinator.transactions.replicated import id_bytes, tombstone
from kraft.coordinator.transactions.state import TransactionsState, with_reply
from kraft.coordinator.transactions.timers import TransactionalIdExpiryTimer
from kraft.coordinator.transactions.transaction import NO_SEQUENCE, Transaction, TransactionState
from kraft.coordinator.transactions.volatile import TransactionalIdsPass, TransactionsDecision

_IDS_PER_SLICE: Final = 2_000
"""How many ids a slice looks at."""

_FREE_SHARE: Final = 8
"""A pass that evicts frees one of so many bytes of the memory for ids."""

_RECORD_BYTES: Final = 64
"""More than a tombstone takes beside its id."""


def refused_for_room(state: TransactionsState, ticket: Ticket, transactional_id: str) -> TransactionsDecision | None:
    """Return the decision on a request with an id that is not known and finds no room; None if there is room.

    The client retries while room is being made. It is refused if that was tried a moment ago.
    """
    refusal = state.no_room_for(transactional_id)
    if refusal is None:
        return None
    rest, last_ms = state.volatile.expiry, state.volatile.evicted_ms
    if rest is not None and rest.unused_ms is not None:
        return state.replied(ticket, room_being_made(transactional_id))
    # The clock may have gone back since.
    if last_ms is not None and 0 <= state.now_ms - last_ms < state.settings.eviction_interval_ms:
        return state.replied(ticket, refusal)
    evicting = _pass(state, unused_ms=state.settings.unused_ages_ms[0])
    decision = ShardDecision(
        volatile=replace(state.volatile, expiry=evicting),
        records=tuple[TransactionRecord, ...](),
        timers={TransactionalIdExpiryTimer(): 0},
    )
    return with_reply(decision, ticket, room_being_made(transactional_id))


def continue_expiry(state: TransactionsState) -> TransactionsDecision:
    """Begin a pass, or continue it. The next one begins an interval after the end of this one."""
    rest = state.volatile.expiry or _pass(state)
    position, records = _slice(state, rest)
    is_over = position >= len(rest.transactional_ids)
    following = _pass_after(state, rest, records) if is_over else replace(rest, position=position)
    ends_eviction = following is None and rest.unused_ms is not None
    volatile = replace(
        state.volatile,
        earlier=state.volatile.earlier.with_changes({record.key.transactional_id: None for record in records}),
        expiry=following,
        evicted_ms=state.now_ms if ends_eviction else state.volatile.evicted_ms,
    )
    return ShardDecision(
        volatile=volatile,
        records=tuple(records),
        timers={TransactionalIdExpiryTimer(): state.settings.expiry_interval_ms if following is None else 0},
    )


def _pass(state: TransactionsState, unused_ms: int | None = None) -> TransactionalIdsPass:
    return TransactionalIdsPass(transactional_ids=tuple(state.transactions.by_id), unused_ms=unused_ms)


def _pass_after(
    state: TransactionsState, rest: TransactionalIdsPass, records: list[TransactionRecord]
) -> TransactionalIdsPass | None:
    """Return the next pass over the rest if this one, with its last records, has not made enough room."""
    ages_ms = [each for each in state.settings.unused_ages_ms if rest.unused_ms is not None and each < rest.unused_ms]
    freed = sum(id_bytes(record.key.transactional_id) for record in records)
    if not ages_ms or _bytes_to_free(state) <= freed:
        return None
    return replace(rest, position=0, unused_ms=ages_ms[0])


def _bytes_to_free(state: TransactionsState) -> int:
    most = state.settings.memory_bytes_max
    return state.transactions.ids_bytes - (most - most // _FREE_SHARE)


def _slice(state: TransactionsState, rest: TransactionalIdsPass) -> tuple[int, list[TransactionRecord]]:
    """Return where the next slice begins, and the tombstones of this one. They fit into one batch."""
    records: list[TransactionRecord] = []
    size, size_max = 0, state.settings.batch_bytes_max() // 2
    to_free = _bytes_to_free(state)
    for position, transactional_id in enumerate(
        rest.transactional_ids[rest.position : rest.position + _IDS_PER_SLICE], rest.position
    ):
        transaction = state.transaction(transactional_id)
        is_evicted = to_free > 0 and _is_unused(state, rest, transaction)
        if not is_evicted and not _is_expired(state, transaction):
            continue
        size += _RECORD_BYTES + len(transactional_id.encode())
        if records and size > size_max:
            return position, records
        records.append(tombstone(transactional_id))
        to_free -= id_bytes(transactional_id)
    return min(rest.position + _IDS_PER_SLICE, len(rest.transactional_ids)), records


def _is_unused(state: TransactionsState, rest: TransactionalIdsPass, transaction: Transaction | None) -> bool:
    """Return whether the id may be evicted: no transaction of its producer, nor a sequence, would be forgotten."""
    return (
        rest.unused_ms is not None
        and transaction is not None
        and transaction.state is TransactionState.EMPTY
        and transaction.last_sequence == NO_SEQUENCE
        # A temporary id is about to be used, and expires soon if it is not.
        and not transaction.is_temporary
        and transaction.updated_ms <= state.now_ms - rest.unused_ms
    )


def _is_expired(state: TransactionsState, transaction: Transaction | None) -> bool:
    if transaction is None or not transaction.state.is_closed:
        return False
    # A temporary id has one transaction, which begins within its own timeout or never.
    after_ms = transaction.timeout_ms if transaction.is_temporary else state.settings.id_expiration_ms
    return transaction.updated_ms <= state.now_ms - after_ms
