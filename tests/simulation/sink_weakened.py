"""The coordinator with one guard of CommitTransactions removed at a time, to show that each guard is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from kraft.coordinator.transactions import commit_transactions, replicated, shard
from kraft.coordinator.transactions.commands import TransactionToCommit
from kraft.coordinator.transactions.records import TransactionLogValue
from kraft.coordinator.transactions.state import TransactionsState
from kraft.coordinator.transactions.transaction import NO_SEQUENCE, Transaction, TransactionState
from kraft.coordinator.transactions.volatile import TransactionsDecision
from kraft.model.errors import Refusal


def committing_any_sequence() -> AbstractContextManager[object]:
    """The last sequence is not looked at."""
    decide = commit_transactions.commit_transactions

    def any_sequence(state: TransactionsState, ticket: Any, command: Any) -> TransactionsDecision:
        by_id = state.transactions.by_id
        committer = by_id.get(command.transactional_id)
        if committer is not None:
            by_id = by_id.with_changes({command.transactional_id: replace(committer, last_sequence=NO_SEQUENCE)})
        return decide(replace(state, transactions=replace(state.transactions, by_id=by_id)), ticket, command)

    return patch.object(shard, "commit_transactions", any_sequence)


def committing_what_is_open() -> AbstractContextManager[object]:
    """Transactions that are not open any more are left out."""

    def open_ones(state: TransactionsState, named: tuple[TransactionToCommit, ...]) -> dict[str, Transaction]:
        found = {each.transactional_id: state.transaction(each.transactional_id) for each in named}
        return {
            name: each for name, each in found.items() if each is not None and each.state is TransactionState.ONGOING
        }

    return patch.object(commit_transactions, "_open_transactions", open_ones)


def committing_for_any_producer() -> AbstractContextManager[object]:
    """What an id has open is committed, whoever has opened it."""
    find = commit_transactions._open_transactions

    def of_any(state: TransactionsState, named: tuple[TransactionToCommit, ...]) -> dict[str, Transaction] | Refusal:
        found = ((each, state.transaction(each.transactional_id)) for each in named)
        return find(state, tuple(each if at is None else replace(each, producer=at.producer) for each, at in found))

    return patch.object(commit_transactions, "_open_transactions", of_any)


def recording_no_sequence() -> AbstractContextManager[object]:
    """The sequence is known to the coordinator that decided, and to no later one."""
    recorded = replicated.recorded

    def without(value: TransactionLogValue) -> Transaction:
        return replace(recorded(value), last_sequence=NO_SEQUENCE)

    return patch.object(replicated, "recorded", without)


@contextmanager
def deleting_what_is_decided() -> Iterator[None]:
    """A temporary id is deleted when its end is decided, before its markers are written."""
    decided = TransactionsState.decided

    def at_once(state: TransactionsState, transactional_id: str, after: Transaction) -> TransactionsDecision:
        if after.is_temporary and after.state.is_prepared:
            after = replace(after, partitions=frozenset())
        return decided(state, transactional_id, after)

    def prepared(state: TransactionsState, transaction: Transaction) -> Transaction:
        return replace(prepare(state, transaction), partitions=frozenset())

    prepare = commit_transactions._prepared
    with patch.object(TransactionsState, "decided", at_once), patch.object(commit_transactions, "_prepared", prepared):
        yield


def leaving_the_epoch() -> AbstractContextManager[object]:
    """A commit does not fence the producers of its transactions."""

    def unbumped(state: TransactionsState, transaction: Transaction) -> Transaction:
        return transaction.prepared(commit=True, producer=transaction.producer, client_version=2, now_ms=state.now_ms)

    return patch.object(commit_transactions, "_prepared", unbumped)
