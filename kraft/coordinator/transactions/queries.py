"""Queries: what is answered from the state without a decision. The caller gives the committed state, so that nothing is
shown before it is committed."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Final

from msgspec import Struct

from kraft.coordinator.transactions.refusals import id_error
from kraft.coordinator.transactions.replicated import Transactions
from kraft.coordinator.transactions.transaction import Transaction, TransactionState
from kraft.model.errors import ErrorCode, Refusal

_BY_NAME: Final = {state.kafka_name: state for state in TransactionState}


class ListFilters(Struct, frozen=True, kw_only=True):
    """Filters of ListTransactions; every one that is set has to accept a transaction."""

    states: Set[str] = frozenset()
    """Kafka's names; empty for any state."""

    producer_ids: Set[int] = frozenset()
    """Empty for any producer."""

    duration_ms: int = -1
    """Only transactions that were begun longer ago than this; negative for any."""

    def unknown_states(self) -> list[str]:
        """Return the names that no state has."""
        return sorted(self.states - _BY_NAME.keys())

    def accept(self, transactional_id: str, transaction: Transaction, now_ms: int) -> bool:
        return (
            (not self.states or transaction.state.kafka_name in self.states)
            and (not self.producer_ids or transaction.producer.producer_id in self.producer_ids)
            and (self.duration_ms < 0 or now_ms - transaction.start_ms > self.duration_ms)
        )


def list_transactions(
    transactions: Transactions, filters: ListFilters, now_ms: int
) -> Iterator[tuple[str, Transaction]]:
    """Yield the ids with their transactions, in no particular order."""
    for transactional_id, transaction in transactions.by_id.items():
        if filters.accept(transactional_id, transaction, now_ms):
            yield transactional_id, transaction


def describe_transaction(transactions: Transactions, transactional_id: str) -> Transaction:
    """Return the transaction. Raises Refusal INVALID_REQUEST, TRANSACTIONAL_ID_NOT_FOUND."""
    refusal = id_error(transactional_id)
    if refusal is not None:
        raise refusal
    transaction = transactions.by_id.get(transactional_id)
    if transaction is None:
        raise Refusal(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"there is no transactional id {transactional_id!r}")
    return transaction
