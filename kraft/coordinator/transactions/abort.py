"""Aborts that the coordinator itself decides: a transaction takes too long, or a new producer uses its id."""

from __future__ import annotations

from kraft.coordinator.transactions.state import TransactionsState
from kraft.coordinator.transactions.transaction import EPOCH_BUMP, Transaction, TransactionState
from kraft.coordinator.transactions.volatile import TransactionsDecision
from kraft.model.ids import NO_PRODUCER_ID, ProducerId


def abort(
    state: TransactionsState,
    transactional_id: str,
    open_transaction: Transaction,
    new_producer_id: ProducerId = NO_PRODUCER_ID,
) -> TransactionsDecision:
    """Decide to abort an open transaction. Its producer is fenced: the markers have the next epoch.

    Since version 2, the producer may ask how its transaction has ended, and get the epoch after it. Before, it may not.
    A new producer id is taken if no producer can be given the next epoch.
    """
    before = open_transaction.producer
    bumps = state.transaction_version >= EPOCH_BUMP
    prepared = open_transaction.prepared(
        commit=False,
        producer=before.bumped(),
        client_version=state.transaction_version if bumps else 0,
        next_producer_id=new_producer_id if bumps and before.is_exhausted else NO_PRODUCER_ID,
        now_ms=state.now_ms,
    )
    return state.with_earlier(transactional_id, before if bumps else None).decided(transactional_id, prepared)


def time_out(state: TransactionsState, transactional_id: str) -> TransactionsDecision:
    """Decide what the end of the timer of an open transaction leads to.

    No producer id is at hand. If the epochs are exhausted, the last one fences the producer, and InitProducerId gives
    the id another producer id.
    """
    transaction = state.transaction(transactional_id)
    assert transaction is not None, "an id with an open transaction does not expire"
    assert transaction.state is TransactionState.ONGOING, "the timer is removed at the end of the transaction"
    return abort(state, transactional_id, transaction)
