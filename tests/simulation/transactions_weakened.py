"""The coordinator of transactions with one guard removed at a time, to show that each guard is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from kraft.coordinator.shard import DecisionContext, Reply, Ticket
from kraft.coordinator.shard_effects import Effect, SendReplies
from kraft.coordinator.shard_machine import ShardMachine
from kraft.coordinator.transactions import (
    abort,
    end_transaction,
    expiry,
    init_producer_id,
    partitions,
    shard,
    transaction,
)
from kraft.coordinator.transactions.commands import EndTransaction, InitProducerId, MarkersWritten
from kraft.coordinator.transactions.markers import PendingMarkers, markers_written, pending_markers
from kraft.coordinator.transactions.replicated import Transactions
from kraft.coordinator.transactions.shard import TransactionShard
from kraft.coordinator.transactions.state import TransactionsState
from kraft.coordinator.transactions.transaction import EPOCH_MAX, ProducerIdAndEpoch, Transaction, TransactionState
from kraft.coordinator.transactions.volatile import TransactionalIdsPass, TransactionsDecision
from tests.simulation.transactions_world import World

Guard = Callable[[], AbstractContextManager[object]]


# --- ends ------------------------------------------------------------------------------------------------------------


def ending_from_any_epoch() -> AbstractContextManager[object]:
    """A late EndTxn ends the next transaction (KAFKA-17754)."""
    verdict = end_transaction._with_bump

    def any_epoch(found: Transaction, command: EndTransaction) -> Any:
        is_own = found.producer.producer_id == command.producer.producer_id
        if is_own and found.state is TransactionState.ONGOING:
            command = replace(command, producer=found.producer)
        return verdict(found, command)

    return patch.object(end_transaction, "_with_bump", any_epoch)


def ending_without_bump() -> AbstractContextManager[object]:
    """The epoch stays at the end of a transaction, also for clients that count on the next one."""

    def unbumped(
        state: TransactionsState, ticket: Ticket, command: EndTransaction, found: Transaction
    ) -> TransactionsDecision:
        return end_transaction._end(state, ticket, command, found)

    return patch.object(end_transaction, "_end_with_bump", unbumped)


def answering_retries_by_the_epoch_alone() -> AbstractContextManager[object]:
    """A retry is answered as if the transaction had ended as it asks for."""
    return patch.object(end_transaction, "_ended_as_asked", lambda found, command: found.state.is_complete)


# --- room for new ids ------------------------------------------------------------------------------------------------


def evicting_open_transactions() -> AbstractContextManager[object]:
    """An id is evicted for its age alone."""

    def by_age(state: TransactionsState, rest: TransactionalIdsPass, found: Transaction | None) -> bool:
        return rest.unused_ms is not None and found is not None and found.updated_ms <= state.now_ms - rest.unused_ms

    return patch.object(expiry, "_is_unused", by_age)


# --- new producers ---------------------------------------------------------------------------------------------------


def taking_over_decided_transactions() -> AbstractContextManager[object]:
    """InitProducerId does not wait for the markers."""

    @contextmanager
    def patched() -> Iterator[None]:
        decide = init_producer_id._next

        def at_once(state: TransactionsState, ticket: Ticket, command: InitProducerId) -> TransactionsDecision:
            found = state.transaction(command.transactional_id)
            if found is not None and found.state.is_prepared:
                return decide(state, ticket, replace(command, expected=None), found)
            return init_producer_id.init_producer_id(state, ticket, command)

        with _allowed(TransactionState.EMPTY), patch.object(shard, "init_producer_id", at_once):
            yield

    return patched()


def taking_over_open_transactions() -> AbstractContextManager[object]:
    """InitProducerId does not abort what the earlier producer left open."""

    @contextmanager
    def patched() -> Iterator[None]:
        with _allowed(TransactionState.EMPTY), patch.object(init_producer_id, "_abort", init_producer_id._next):
            yield

    return patched()


def aborting_without_fence() -> AbstractContextManager[object]:
    """A transaction that is aborted by the coordinator leaves the producer its epoch."""

    def unfenced(state: TransactionsState, transactional_id: str, found: Transaction, *_: Any) -> TransactionsDecision:
        prepared = found.prepared(commit=False, producer=found.producer, client_version=0, now_ms=state.now_ms)
        return state.decided(transactional_id, prepared)

    return patch.object(abort, "abort", unfenced)


def _allowed(state: TransactionState) -> AbstractContextManager[object]:
    """The state may follow any other."""
    return patch.dict(transaction._BEFORE, {state: frozenset(TransactionState)})


# --- markers ---------------------------------------------------------------------------------------------------------


def marking_before_the_commit() -> AbstractContextManager[object]:
    """Markers are written for a decision that may still be lost."""

    def of_latest(world: World) -> list[PendingMarkers]:
        hosted = world.host.hosted
        if hosted.volatile is None:
            return []
        return list(pending_markers(hosted.latest, hosted.latest, hosted.volatile))

    return patch.object(World, "pending", of_latest)


def marking_what_is_complete() -> AbstractContextManager[object]:
    """Markers are written again for a transaction whose completion is decided and not committed."""

    def of_committed(world: World) -> list[PendingMarkers]:
        hosted = world.host.hosted
        if hosted.volatile is None:
            return []
        return list(pending_markers(hosted.committed, hosted.committed, hosted.volatile))

    return patch.object(World, "pending", of_committed)


def completing_after_the_first_marker() -> AbstractContextManager[object]:
    """A transaction is complete before all its markers are written."""

    def early(state: TransactionsState, ticket: Ticket, command: MarkersWritten) -> TransactionsDecision:
        found = state.transaction(command.transactional_id)
        partitions = command.partitions if found is None else found.partitions
        return markers_written(state, ticket, replace(command, partitions=partitions))

    return patch.object(shard, "markers_written", early)


def taking_reports_of_any_decision() -> AbstractContextManager[object]:
    """A late report of markers counts for the next transaction."""

    def current(state: TransactionsState, ticket: Ticket, command: MarkersWritten) -> TransactionsDecision:
        found = state.transactions.prepared.get(command.transactional_id)
        if found is not None:
            command = replace(command, producer=found.producer, prepared_ms=found.updated_ms)
        return markers_written(state, ticket, command)

    return patch.object(shard, "markers_written", current)


# --- the host --------------------------------------------------------------------------------------------------------


def loading_without_timers() -> AbstractContextManager[object]:
    """A new coordinator does not time out the transactions that it found open."""
    loaded = TransactionShard.loaded

    def untimed(self: TransactionShard, replicated: Transactions, context: DecisionContext) -> TransactionsDecision:
        return replace(loaded(self, replicated, context), timers={})

    return patch.object(TransactionShard, "loaded", untimed)


def replying_at_once() -> AbstractContextManager[object]:
    """A reply does not wait for the commit of what it says."""

    def reply(hosted: ShardMachine[Any, Any, Any, Any], replies: tuple[Reply, ...]) -> list[Effect[Any]]:
        return [SendReplies(replies)] if replies else []

    return patch.object(ShardMachine, "_reply", reply)


@contextmanager
def giving_out_the_last_epoch() -> Iterator[None]:
    """A producer is given the epoch that only fences, and begins transactions with it."""
    exhausted = property(lambda producer: producer.epoch >= EPOCH_MAX)
    with patch.object(ProducerIdAndEpoch, "is_exhausted", exhausted), patch.object(partitions, "EPOCH_MAX", None):
        yield
