"""InitProducerId with a transactional id: gives a producer its identity, and fences the one before it.

A transaction that the earlier producer left open is aborted first; the client sends its request again until the markers
are written. A producer that names its identity continues with the next epoch, or gets the same answer again if the last
one was lost (KIP-360).
"""

from __future__ import annotations

from kraft.coordinator.shard import Ticket
from kraft.coordinator.transactions.abort import abort
from kraft.coordinator.transactions.commands import InitProducerId, ProducerIdNeeded
from kraft.coordinator.transactions.expiry import refused_for_room
from kraft.coordinator.transactions.refusals import producer_fenced, transaction_being_completed
from kraft.coordinator.transactions.state import TransactionsState, with_reply
from kraft.coordinator.transactions.transaction import (
    EPOCH_BUMP,
    EPOCH_MAX,
    ProducerIdAndEpoch,
    Transaction,
    TransactionState,
    new_transaction,
)
from kraft.coordinator.transactions.volatile import TransactionsDecision
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import NO_PRODUCER_ID, ProducerEpoch


def init_producer_id(state: TransactionsState, ticket: Ticket, command: InitProducerId) -> TransactionsDecision:
    transactional_id = command.transactional_id
    refusal = _not_supported(command) or _timeout_error(command, state.settings.timeout_max_ms)
    if refusal is not None:
        return state.replied(ticket, refusal)
    transaction = state.transaction(transactional_id)
    if transaction is None:
        return _first(state, ticket, command)
    if transaction.state.is_prepared:
        return state.replied(ticket, transaction_being_completed(transactional_id))
    earlier = state.volatile.earlier.get(transactional_id)
    if command.expected not in (None, transaction.producer, earlier):
        assert command.expected is not None
        return state.replied(ticket, producer_fenced(transactional_id, command.expected))
    if transaction.state is TransactionState.ONGOING:
        return _abort(state, ticket, command, transaction)
    return _next(state, ticket, command, transaction)


def _not_supported(command: InitProducerId) -> Refusal | None:
    if command.enable_2pc:
        return Refusal(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "two-phase commit is not supported: unset transaction.two.phase.commit.enable",
        )
    if command.keep_prepared:
        return Refusal(ErrorCode.UNSUPPORTED_VERSION, "keeping prepared transactions is not supported yet")
    return None


def _timeout_error(command: InitProducerId, max_ms: int) -> Refusal | None:
    if 0 < command.timeout_ms <= max_ms:
        return None
    return Refusal(
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        f"a transaction timeout of {command.timeout_ms} ms is not between 1 and {max_ms}: set transaction.timeout.ms, "
        "or the brokers' transaction.max.timeout.ms",
    )


def _first(state: TransactionsState, ticket: Ticket, command: InitProducerId) -> TransactionsDecision:
    """Decide for an id that is not known, also if the producer has an identity: the id may have expired."""
    if (refused := refused_for_room(state, ticket, command.transactional_id)) is not None:
        return refused
    if command.new_producer_id is None:
        return state.replied(ticket, ProducerIdNeeded())
    transaction = new_transaction(
        command.new_producer_id, command.timeout_ms, state.now_ms, is_temporary=command.is_temporary
    )
    return with_reply(state.decided(command.transactional_id, transaction), ticket, transaction.producer)


def _abort(
    state: TransactionsState, ticket: Ticket, command: InitProducerId, transaction: Transaction
) -> TransactionsDecision:
    """Decide to abort what an earlier producer left open; the client retries."""
    transactional_id = command.transactional_id
    if command.expected not in (None, transaction.producer):
        # The answer to an earlier request was received, because a transaction has begun since: this one is late.
        assert command.expected is not None
        return state.replied(ticket, producer_fenced(transactional_id, command.expected))
    needs_id = state.transaction_version >= EPOCH_BUMP and transaction.producer.is_exhausted
    if needs_id and command.new_producer_id is None:
        return state.replied(ticket, ProducerIdNeeded())
    new_producer_id = NO_PRODUCER_ID if command.new_producer_id is None else command.new_producer_id
    decision = abort(state, transactional_id, transaction, new_producer_id)
    return with_reply(decision, ticket, transaction_being_completed(transactional_id))


def _next(
    state: TransactionsState, ticket: Ticket, command: InitProducerId, transaction: Transaction
) -> TransactionsDecision:
    """Decide for an id without an open transaction."""
    current, expected = transaction.producer, command.expected
    if expected not in (None, current) and current.epoch < EPOCH_MAX:
        return _again(state, ticket, command, transaction)
    if not current.is_exhausted:
        producer = current.bumped()
    elif command.new_producer_id is None:
        return state.replied(ticket, ProducerIdNeeded())
    else:
        producer = ProducerIdAndEpoch(command.new_producer_id, ProducerEpoch(0))
    initialised = transaction.initialised(producer, command.timeout_ms, state.now_ms, is_temporary=command.is_temporary)
    decision = state.with_earlier(command.transactional_id, expected).decided(command.transactional_id, initialised)
    return with_reply(decision, ticket, producer)


def _again(
    state: TransactionsState, ticket: Ticket, command: InitProducerId, transaction: Transaction
) -> TransactionsDecision:
    """Answer a retry. It may also be late: how the last transaction has ended stays known to a retry of its end."""
    if (command.timeout_ms, command.is_temporary) == (transaction.timeout_ms, transaction.is_temporary):
        return state.replied(ticket, transaction.producer)
    initialised = transaction.initialised(
        transaction.producer, command.timeout_ms, state.now_ms, is_temporary=command.is_temporary
    )
    return with_reply(state.decided(command.transactional_id, initialised), ticket, transaction.producer)
