"""State on which the transaction shard decides."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kraft.coordinator.shard import DecisionContext, Reply, ShardDecision, Ticket, TimerKey
from kraft.coordinator.transactions.refusals import too_many_ids, too_many_partitions
from kraft.coordinator.transactions.replicated import Transactions, partitions_bytes, record_of, tombstone
from kraft.coordinator.transactions.settings import TransactionSettings
from kraft.coordinator.transactions.timers import TransactionTimer
from kraft.coordinator.transactions.transaction import ProducerIdAndEpoch, Transaction, TransactionState
from kraft.coordinator.transactions.volatile import TransactionsDecision, TransactionsVolatile
from kraft.metadata.features import TRANSACTION_VERSION, level_of
from kraft.model.errors import Refusal

_PARTITIONS_MIN: Final = 4
"""A transaction with so many partitions is never refused for the memory. They take less of it than its id."""


class TransactionsState(Struct, frozen=True, kw_only=True):
    """The shard's state, its settings, and the facts beside them."""

    transactions: Transactions
    volatile: TransactionsVolatile
    settings: TransactionSettings
    context: DecisionContext

    def transaction(self, transactional_id: str) -> Transaction | None:
        return self.transactions.by_id.get(transactional_id)

    @property
    def now_ms(self) -> int:
        return self.context.now_ms

    @property
    def transaction_version(self) -> int:
        """The level of `transaction.version`."""
        return level_of(self.context.image, TRANSACTION_VERSION)

    def no_room_for(self, transactional_id: str) -> Refusal | None:
        """Return the refusal of an id that is not known yet, if those of this partition take too much memory."""
        held, most = self.transactions.ids_bytes, self.settings.memory_bytes_max
        return None if held < most else too_many_ids(transactional_id, held, most)

    def no_room_for_partitions(self, transactional_id: str, after: Transaction) -> Refusal | None:
        """Return the refusal of partitions of a transaction that would take too much memory.

        It has the same limit as that of ids, but of its own: many ids end no transaction, and large transactions keep
        no new id out. Small transactions are always accepted, however large others are.
        """
        grown = partitions_bytes(after) - partitions_bytes(self.transaction(transactional_id))
        held, most = self.transactions.partitions_bytes, self.settings.memory_bytes_max
        if len(after.partitions) <= _PARTITIONS_MIN or held + grown <= most:
            return None
        return too_many_partitions(transactional_id, after, held, most)

    # --- decisions ---------------------------------------------------------------------------------------------------

    def replied(self, ticket: Ticket, response: object | Refusal) -> TransactionsDecision:
        """Return the decision that changes nothing."""
        return ShardDecision(volatile=self.volatile, replies=(Reply(ticket, response),))

    def decided(self, transactional_id: str, after: Transaction) -> TransactionsDecision:
        """Return the decision on a transition of one id. Its timer runs as long as its transaction is open.

        A transaction that is decided without partitions has no markers, and is complete at once.
        """
        before = self.transaction(transactional_id)
        was_open = before is not None and before.state is TransactionState.ONGOING
        is_open = after.state is TransactionState.ONGOING
        timers: dict[TimerKey, int | None] = {}
        if is_open != was_open:
            timers[TransactionTimer(transactional_id)] = after.timeout_ms if is_open else None
        record = record_of(transactional_id, after, transaction_version=self.transaction_version)
        decision = ShardDecision(volatile=self.volatile, records=(record,), timers=timers)
        if not after.state.is_prepared or after.partitions:
            return decision
        return combined(decision, replace(self, volatile=decision.volatile).completed(transactional_id, after))

    def completed(self, transactional_id: str, prepared: Transaction) -> TransactionsDecision:
        """Return the decision that a transaction has all its markers. A temporary id is deleted."""
        if prepared.is_temporary:
            earlier = self.volatile.earlier.with_changes({transactional_id: None})
            volatile = replace(self.volatile, earlier=earlier)
            return ShardDecision(volatile=volatile, records=(tombstone(transactional_id),))
        complete = prepared.completed(self.now_ms)
        record = record_of(transactional_id, complete, transaction_version=self.transaction_version)
        return ShardDecision(volatile=self.volatile, records=(record,))

    def with_earlier(self, transactional_id: str, earlier: ProducerIdAndEpoch | None) -> TransactionsState:
        """Return the state in which the producer had this identity before the present one."""
        if self.volatile.earlier.get(transactional_id) == earlier:
            return self
        changed = self.volatile.earlier.with_changes({transactional_id: earlier})
        return replace(self, volatile=replace(self.volatile, earlier=changed))


def combined(first: TransactionsDecision, second: TransactionsDecision) -> TransactionsDecision:
    """Return two decisions as one. The second was made on the volatile state of the first."""
    return ShardDecision(
        volatile=second.volatile,
        records=first.records + second.records,
        timers={**first.timers, **second.timers},
        replies=first.replies + second.replies,
    )


def with_reply(decision: TransactionsDecision, ticket: Ticket, response: object | Refusal) -> TransactionsDecision:
    return replace(decision, replies=(*decision.replies, Reply(ticket, response)))
