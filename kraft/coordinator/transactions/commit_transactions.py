"""CommitTransactions: commits open transactions of many producers in one decision, at most once for each sequence.

The ids of the transactions, and the id that keeps the last sequence, belong to one partition of `__transaction_state`.
So all of it is one batch of records, which the log has as a whole or not at all. See docs/adr/0037.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from kraft.coordinator.shard import ShardDecision, Ticket, TimerKey
from kraft.coordinator.transactions.commands import (
    CommitTransactions,
    ProducerIdNeeded,
    TransactionToCommit,
)
from kraft.coordinator.transactions.expiry import refused_for_room
from kraft.coordinator.transactions.partitions import batch_bytes, record_bytes
from kraft.coordinator.transactions.records import TransactionRecord
from kraft.coordinator.transactions.refusals import id_error, transaction_being_completed
from kraft.coordinator.transactions.state import TransactionsState, with_reply
from kraft.coordinator.transactions.transaction import EPOCH_BUMP, Transaction, TransactionState, new_transaction
from kraft.coordinator.transactions.volatile import TransactionsDecision
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import ProducerId
from kraft.model.transactions import CommitTransactionsResponse

_TIMEOUT_MS: Final = 60_000
"""Transaction timeout in the record of an id that only commits others; nothing uses it."""


def commit_transactions(state: TransactionsState, ticket: Ticket, command: CommitTransactions) -> TransactionsDecision:
    if (refusal := _invalid(state, command)) is not None:
        return state.replied(ticket, refusal)
    committer = state.transaction(command.transactional_id)
    if committer is not None and committer.last_sequence >= command.sequence:
        answer = CommitTransactionsResponse(are_committed=False, last_sequence=committer.last_sequence)
        return state.replied(ticket, answer)
    if committer is not None and not committer.state.is_closed:
        return state.replied(ticket, _has_own(command.transactional_id, committer))
    found = _open_transactions(state, command.transactions)
    if isinstance(found, Refusal):
        return state.replied(ticket, found)
    if (refusal := _too_many(state, command, found)) is not None:
        return state.replied(ticket, refusal)
    if committer is None:
        if (refused := refused_for_room(state, ticket, command.transactional_id)) is not None:
            return refused
        if command.new_producer_id is None:
            return state.replied(ticket, ProducerIdNeeded())
        committer = _new_committer(state, command.new_producer_id)
    decision = _commit(state, command, committer, found)
    return with_reply(decision, ticket, CommitTransactionsResponse(are_committed=True, last_sequence=command.sequence))


def _commit(
    state: TransactionsState, command: CommitTransactions, committer: Transaction, found: dict[str, Transaction]
) -> TransactionsDecision:
    """Decide all in one batch of records: each transaction, and last the sequence."""
    records, timers = list[TransactionRecord](), dict[TimerKey, int | None]()
    for each, transaction in found.items():
        if not transaction.is_temporary:
            # Its producer goes on, and may ask how the transaction has ended.
            state = state.with_earlier(each, transaction.producer)
        decided = state.decided(each, _prepared(state, transaction))
        records += decided.records
        timers |= decided.timers
        state = replace(state, volatile=decided.volatile)
    last = state.decided(command.transactional_id, committer.with_sequence(command.sequence, state.now_ms))
    return ShardDecision(volatile=last.volatile, records=(*records, *last.records), timers=timers)


def _prepared(state: TransactionsState, transaction: Transaction) -> Transaction:
    # Without a next producer id: after the last epoch, which fences, InitProducerId gives the id another producer id.
    return transaction.prepared(
        commit=True, producer=transaction.producer.bumped(), client_version=EPOCH_BUMP, now_ms=state.now_ms
    )


def _new_committer(state: TransactionsState, producer_id: ProducerId) -> Transaction:
    return new_transaction(producer_id, min(_TIMEOUT_MS, state.settings.timeout_max_ms), state.now_ms)


# --- refusals --------------------------------------------------------------------------------------------------------


def _invalid(state: TransactionsState, command: CommitTransactions) -> Refusal | None:
    if state.transaction_version < EPOCH_BUMP:
        return Refusal(ErrorCode.UNSUPPORTED_VERSION, "committing transactions together needs transaction.version 2")
    if command.sequence < 0:
        return Refusal(ErrorCode.INVALID_REQUEST, f"sequence {command.sequence} is negative")
    ids = [each.transactional_id for each in command.transactions]
    if len({command.transactional_id, *ids}) <= len(ids):
        return Refusal(ErrorCode.INVALID_REQUEST, "a transactional id is named twice")
    return next((refusal for refusal in map(id_error, ids) if refusal is not None), None)


def _has_own(transactional_id: str, committer: Transaction) -> Refusal:
    if committer.state.is_prepared:
        return transaction_being_completed(transactional_id)
    return Refusal(
        ErrorCode.INVALID_TXN_STATE,
        f"{transactional_id!r} has an open transaction of its own: use an id that only commits others",
    )


def _open_transactions(
    state: TransactionsState, named: Iterable[TransactionToCommit]
) -> dict[str, Transaction] | Refusal:
    """Return the transactions by id; a Refusal if one of them is not open, or of another producer."""
    found: dict[str, Transaction] = {}
    for each in named:
        transaction = state.transaction(each.transactional_id)
        is_open = transaction is not None and transaction.state is TransactionState.ONGOING
        if transaction is None or not is_open or transaction.producer != each.producer:
            return _not_open(each, transaction)
        found[each.transactional_id] = transaction
    return found


def _not_open(named: TransactionToCommit, transaction: Transaction | None) -> Refusal:
    problem = "is not known here"
    if transaction is not None:
        own = "" if transaction.producer == named.producer else " of another producer or epoch"
        problem = f"has a transaction{own} in state {transaction.state.kafka_name}"
    return Refusal(
        ErrorCode.TRANSACTION_ABORTABLE,
        f"nothing was committed, because {named.transactional_id!r} {problem}: it may have exceeded its "
        "transaction.timeout.ms",
    )


def _too_many(state: TransactionsState, command: CommitTransactions, found: dict[str, Transaction]) -> Refusal | None:
    # A transaction without partitions has two records: its end is also its completion.
    sizes = (
        record_bytes(each, transaction.partitions) * (1 if transaction.partitions else 2)
        for each, transaction in found.items()
    )
    size, size_max = sum(sizes, batch_bytes(command.transactional_id, frozenset())), state.settings.batch_bytes_max()
    if size <= size_max:
        return None
    return Refusal(
        ErrorCode.INVALID_REQUEST,
        f"{len(found)} transactions are too many to commit together: their records may take {size} bytes, and the "
        f"partition of __transaction_state accepts {size_max}. Write with fewer tasks, or raise its max.message.bytes",
    )
