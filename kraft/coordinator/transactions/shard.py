"""The state machine of one partition of `__transaction_state`."""

from __future__ import annotations

from typing import Final, assert_never

from kraft.coordinator.shard import DecisionContext, Shard, ShardDecision, Ticket, TimerKey
from kraft.coordinator.transactions.abort import time_out
from kraft.coordinator.transactions.commands import (
    AddOffsets,
    AddPartitions,
    CommitTransactions,
    EndTransaction,
    InitProducerId,
    MarkersWritten,
    TransactionCommand,
    VerifyPartitions,
)
from kraft.coordinator.transactions.commit_transactions import commit_transactions
from kraft.coordinator.transactions.end_transaction import end_transaction
from kraft.coordinator.transactions.expiry import continue_expiry
from kraft.coordinator.transactions.init_producer_id import init_producer_id
from kraft.coordinator.transactions.markers import markers_written
from kraft.coordinator.transactions.partitions import add_offsets, add_partitions, verify_partitions
from kraft.coordinator.transactions.records import TransactionRecord
from kraft.coordinator.transactions.refusals import id_error
from kraft.coordinator.transactions.replicated import NO_TRANSACTIONS, Transactions, replay
from kraft.coordinator.transactions.settings import TransactionSettings
from kraft.coordinator.transactions.state import TransactionsState
from kraft.coordinator.transactions.timers import TransactionalIdExpiryTimer, TransactionTimer
from kraft.coordinator.transactions.transaction import TransactionState
from kraft.coordinator.transactions.volatile import TransactionsDecision, TransactionsVolatile


class TransactionShard(Shard[Transactions, TransactionsVolatile, TransactionCommand, TransactionRecord]):
    """Decides for all transactional ids that belong to one partition. It has settings, but no state."""

    def __init__(self, settings: TransactionSettings) -> None:
        self._settings: Final = settings

    def empty(self) -> Transactions:
        return NO_TRANSACTIONS

    def replay(self, replicated: Transactions, record: TransactionRecord) -> Transactions:
        return replay(replicated, record)

    def loaded(self, replicated: Transactions, context: DecisionContext) -> TransactionsDecision:
        """Decide what follows from the replicated state: open transactions time out, and decided ones without markers
        are complete. The host writes the markers of the others."""
        state = TransactionsState(
            transactions=replicated, volatile=TransactionsVolatile(), settings=self._settings, context=context
        )
        timers: dict[TimerKey, int | None] = {TransactionalIdExpiryTimer(): self._settings.expiry_interval_ms}
        for transactional_id, transaction in replicated.by_id.items():
            if transaction.state is TransactionState.ONGOING:
                # The clock may have gone back since.
                age_ms = max(context.now_ms - transaction.start_ms, 0)
                timers[TransactionTimer(transactional_id)] = max(transaction.timeout_ms - age_ms, 0)
        records = [
            record
            for each, transaction in replicated.prepared.items()
            if not transaction.partitions
            for record in state.completed(each, transaction).records
        ]
        return ShardDecision(volatile=state.volatile, records=tuple(records), timers=timers)

    def decide(
        self,
        replicated: Transactions,
        volatile: TransactionsVolatile,
        ticket: Ticket,
        command: TransactionCommand,
        context: DecisionContext,
    ) -> TransactionsDecision:
        state = TransactionsState(transactions=replicated, volatile=volatile, settings=self._settings, context=context)
        refusal = id_error(command.transactional_id)
        return _decided(state, ticket, command) if refusal is None else state.replied(ticket, refusal)

    def timer_ended(
        self, replicated: Transactions, volatile: TransactionsVolatile, key: TimerKey, context: DecisionContext
    ) -> TransactionsDecision:
        state = TransactionsState(transactions=replicated, volatile=volatile, settings=self._settings, context=context)
        match key:
            case TransactionTimer():
                return time_out(state, key.transactional_id)
            case TransactionalIdExpiryTimer():
                return continue_expiry(state)
            case _:
                raise AssertionError(f"{key} is no timer of this shard")


def _decided(state: TransactionsState, ticket: Ticket, command: TransactionCommand) -> TransactionsDecision:
    match command:
        case InitProducerId():
            return init_producer_id(state, ticket, command)
        case AddPartitions():
            return add_partitions(state, ticket, command)
        case VerifyPartitions():
            return verify_partitions(state, ticket, command)
        case AddOffsets():
            return add_offsets(state, ticket, command)
        case EndTransaction():
            return end_transaction(state, ticket, command)
        case CommitTransactions():
            return commit_transactions(state, ticket, command)
        case MarkersWritten():
            return markers_written(state, ticket, command)
        case _:
            assert_never(command)
