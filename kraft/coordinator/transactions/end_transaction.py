"""EndTxn: commits or aborts a transaction.

Since version 5, the end of each transaction bumps the epoch (KIP-890), so that a request that arrives late cannot end
the next one: it has an earlier epoch. A retry has the epoch before the bump, and is answered with the identity after
it. In older versions the transactions of a producer have one epoch, and only their state tells them apart.
"""

from __future__ import annotations

from enum import Enum, auto

from kraft.coordinator.shard import Ticket
from kraft.coordinator.transactions.commands import EndTransaction, ProducerIdNeeded
from kraft.coordinator.transactions.refusals import producer_fenced, transaction_being_completed, unknown_producer
from kraft.coordinator.transactions.state import TransactionsState, with_reply
from kraft.coordinator.transactions.transaction import (
    EPOCH_BUMP,
    EPOCH_MAX,
    ProducerIdAndEpoch,
    Transaction,
    TransactionState,
)
from kraft.coordinator.transactions.volatile import TransactionsDecision
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import NO_PRODUCER_ID


class _Verdict(Enum):
    DECIDE = auto()
    ENDED_BEFORE = auto()
    """This is a retry: the transaction has ended as it asks for."""


def end_transaction(state: TransactionsState, ticket: Ticket, command: EndTransaction) -> TransactionsDecision:
    transactional_id = command.transactional_id
    transaction = state.transaction(transactional_id)
    if transaction is None:
        return state.replied(ticket, unknown_producer(transactional_id, command.producer))
    bumps = command.client_version >= EPOCH_BUMP
    verdict = _with_bump(transaction, command) if bumps else _without_bump(transaction, command)
    if isinstance(verdict, Refusal):
        return state.replied(ticket, verdict)
    if verdict is _Verdict.ENDED_BEFORE:
        return state.replied(ticket, transaction.producer)
    return _end_with_bump(state, ticket, command, transaction) if bumps else _end(state, ticket, command, transaction)


# --- verdicts --------------------------------------------------------------------------------------------------------


def _without_bump(transaction: Transaction, command: EndTransaction) -> _Verdict | Refusal:
    if transaction.producer.producer_id != command.producer.producer_id:
        return unknown_producer(command.transactional_id, command.producer)
    if transaction.producer != command.producer:
        return producer_fenced(command.transactional_id, command.producer)
    if transaction.state.is_prepared:
        return transaction_being_completed(command.transactional_id)
    if transaction.state is TransactionState.ONGOING:
        return _Verdict.DECIDE
    return _Verdict.ENDED_BEFORE if _ended_as_asked(transaction, command) else _invalid(transaction, command)


def _with_bump(transaction: Transaction, command: EndTransaction) -> _Verdict | Refusal:
    if transaction.state.is_prepared:
        return transaction_being_completed(command.transactional_id)
    if _is_retry(transaction, command.producer):
        return _ended(transaction, command)
    if transaction.producer.producer_id != command.producer.producer_id:
        return unknown_producer(command.transactional_id, command.producer)
    if transaction.producer != command.producer:
        return producer_fenced(command.transactional_id, command.producer)
    # An abort is accepted without a transaction: the producer may not know whether its first write has begun one.
    may_end = transaction.state is TransactionState.ONGOING or not command.commit
    return _Verdict.DECIDE if may_end else _invalid(transaction, command)


def _is_retry(transaction: Transaction, producer: ProducerIdAndEpoch) -> bool:
    """Return whether the producer's identity is the one before the end of the last transaction."""
    if not transaction.state.is_complete or transaction.client_version < EPOCH_BUMP:
        return False
    after = transaction.producer
    if producer.producer_id == after.producer_id:
        # No producer is given the last epoch: it fences.
        return producer.epoch + 1 == after.epoch < EPOCH_MAX
    was_last = producer.producer_id == transaction.previous_producer_id and producer.epoch == EPOCH_MAX - 1
    return was_last and after.epoch == 0


def _ended(transaction: Transaction, command: EndTransaction) -> _Verdict | Refusal:
    """Return the verdict on a request with the identity before the end of the last transaction."""
    if _ended_as_asked(transaction, command):
        return _Verdict.ENDED_BEFORE
    if command.commit:
        # No producer asks for both ends: the coordinator has aborted the transaction, as after its timeout. The abort
        # that its producer asks for now is a retry of that. (KAFKA-20785)
        return Refusal(
            ErrorCode.TRANSACTION_ABORTABLE,
            f"the coordinator has aborted the transaction of {command.transactional_id!r}, which may have exceeded "
            "transaction.timeout.ms: abort it, and repeat it",
        )
    return _invalid(transaction, command)


def _ended_as_asked(transaction: Transaction, command: EndTransaction) -> bool:
    asked = TransactionState.COMPLETE_COMMIT if command.commit else TransactionState.COMPLETE_ABORT
    return transaction.state is asked


def _invalid(transaction: Transaction, command: EndTransaction) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_TXN_STATE,
        f"{command.transactional_id!r} has no transaction to {'commit' if command.commit else 'abort'}: its state is "
        f"{transaction.state.kafka_name}",
    )


# --- ends ------------------------------------------------------------------------------------------------------------


def _end(
    state: TransactionsState, ticket: Ticket, command: EndTransaction, transaction: Transaction
) -> TransactionsDecision:
    prepared = transaction.prepared(
        commit=command.commit, producer=transaction.producer, client_version=0, now_ms=state.now_ms
    )
    return with_reply(state.decided(command.transactional_id, prepared), ticket, prepared.producer_after)


def _end_with_bump(
    state: TransactionsState, ticket: Ticket, command: EndTransaction, transaction: Transaction
) -> TransactionsDecision:
    before, next_producer_id = transaction.producer, NO_PRODUCER_ID
    if before.is_exhausted:
        if command.new_producer_id is None:
            return state.replied(ticket, ProducerIdNeeded())
        next_producer_id = command.new_producer_id
    prepared = transaction.prepared(
        commit=command.commit,
        producer=before.bumped(),
        client_version=command.client_version,
        next_producer_id=next_producer_id,
        now_ms=state.now_ms,
    )
    decision = state.with_earlier(command.transactional_id, before).decided(command.transactional_id, prepared)
    return with_reply(decision, ticket, prepared.producer_after)
