"""The markers of decided transactions, from the decision until they are written.

A decision is carried out once its record is committed, and not before: one that may still be lost must not be seen in
any partition. The host writes what `pending_markers` returns, and sends `MarkersWritten` for each part of it. Which
markers are written is not recorded: a new coordinator writes all of them again, and a partition that has them ignores
them. See docs/adr/0034.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from kraft.coordinator.shard import Ticket
from kraft.coordinator.transactions.commands import MarkersWritten
from kraft.coordinator.transactions.replicated import Transactions
from kraft.coordinator.transactions.state import TransactionsState, with_reply
from kraft.coordinator.transactions.transaction import ProducerIdAndEpoch, Transaction, TransactionState
from kraft.coordinator.transactions.volatile import TransactionsDecision, TransactionsVolatile
from kraft.model.ids import TopicPartition


class PendingMarkers(Struct, frozen=True, kw_only=True):
    """Markers of one transaction that are to be written."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    """The identity in the markers."""

    commit: bool
    transaction_version: int
    """Since 2, a partition accepts the markers only if their epoch is greater than that of the producer's records."""

    prepared_ms: int
    """Identifies the decision, with the transactional id and the producer."""

    partitions: frozenset[TopicPartition]

    def written(self, partitions: frozenset[TopicPartition]) -> MarkersWritten:
        """Return the command after these markers are written."""
        return MarkersWritten(
            transactional_id=self.transactional_id,
            producer=self.producer,
            prepared_ms=self.prepared_ms,
            partitions=partitions,
        )


def pending_markers(
    committed: Transactions,
    latest: Transactions,
    volatile: TransactionsVolatile,
    transactional_ids: Iterable[str] | None = None,
) -> Iterator[PendingMarkers]:
    """Yield what is to be written now, of these ids or of all, by the state that is committed and all that is decided.

    What is decided later tells that a transaction was completed in the meantime: its markers must not be written again.
    """
    for transactional_id in committed.prepared if transactional_ids is None else transactional_ids:
        prepared = committed.prepared.get(transactional_id)
        if prepared is None or not _is_decision(latest.prepared.get(transactional_id), prepared):
            continue
        yield PendingMarkers(
            transactional_id=transactional_id,
            producer=prepared.producer,
            commit=prepared.state is TransactionState.PREPARE_COMMIT,
            transaction_version=prepared.client_version,
            prepared_ms=prepared.updated_ms,
            partitions=prepared.partitions - volatile.written.get(transactional_id, frozenset()),
        )


def _is_decision(latest: Transaction | None, committed: Transaction) -> bool:
    """Return whether a decision that is committed is still the latest of its id."""
    if latest is None:
        return False
    return (latest.producer, latest.updated_ms) == (committed.producer, committed.updated_ms)


def newly_prepared(before: Transactions, after: Transactions) -> list[str]:
    """Return the ids with a decision that the later of two committed states has and the earlier has not."""
    return [each for each in after.prepared.differing_keys(before.prepared) if each in after.prepared]


def markers_written(state: TransactionsState, ticket: Ticket, command: MarkersWritten) -> TransactionsDecision:
    """Decide what written markers lead to. Those of a transaction that is complete lead to nothing."""
    transactional_id = command.transactional_id
    prepared = state.transactions.prepared.get(transactional_id)
    if prepared is None or (prepared.producer, prepared.updated_ms) != (command.producer, command.prepared_ms):
        return state.replied(ticket, None)
    before = state.volatile.written
    written = before.get(transactional_id, frozenset()) | (command.partitions & prepared.partitions)
    is_complete = written == prepared.partitions
    after = before.with_changes({transactional_id: None if is_complete else written})
    state = replace(state, volatile=replace(state.volatile, written=after))
    if not is_complete:
        return state.replied(ticket, None)
    return with_reply(state.completed(transactional_id, prepared), ticket, None)
