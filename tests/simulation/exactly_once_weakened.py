"""Transactions with groups, with one guard removed at a time, to show that each guard is needed.

Guards of one coordinator alone are also removed in the simulations of that coordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from kraft.coordinator.groups import offset_requests
from kraft.coordinator.offsets.fetch import fetch
from kraft.coordinator.transactions import init_producer_id
from kraft.coordinator.transactions.commands import InitProducerId
from kraft.coordinator.transactions.markers import PendingMarkers, pending_markers
from kraft.log.append_work import CLIENT, AppendOrigin
from kraft.log.format.control_record import EndTransactionMarker
from kraft.log.format.record_batch import BatchHeader
from kraft.log.log_transactions import LogTransactions
from kraft.log.recovery import producer_state
from kraft.log.recovery.producer_state import Accept, Duplicate, ProducerState, ProducerStates
from kraft.log.transactions.verification import Verifications
from kraft.model.errors import ErrorCode, Refusal
from tests.simulation import exactly_once_coordinators
from tests.simulation.exactly_once_brokers import Brokers
from tests.simulation.exactly_once_coordinators import TransactionHost

Guard = Callable[[], AbstractContextManager[object]]


# --- what a partition checks -----------------------------------------------------------------------------------------


@contextmanager
def appending_without_verification() -> Iterator[None]:
    """A late record begins a transaction that its coordinator has ended (KAFKA-14402)."""
    with (
        patch.object(LogTransactions, "begin_verification", lambda *_, **__: None),
        patch.object(Verifications, "allows", lambda verifications, producer_id, guard: True),
    ):
        yield


def keeping_guards_after_markers() -> AbstractContextManager[object]:
    """A verification still counts after the marker of the transaction that was verified."""
    return patch.object(Verifications, "end_by_marker", lambda *_, **__: None)


def marking_with_any_coordinator_epoch() -> AbstractContextManager[object]:
    """A coordinator that was replaced ends transactions (KAFKA-9144)."""
    check = producer_state._check_marker

    def unfenced(state: ProducerState, header: BatchHeader, marker: EndTransactionMarker, version: int) -> None:
        check(state._replace(coordinator_epoch=-1), header, marker, version)

    return patch.object(producer_state, "_check_marker", unfenced)


def marking_in_any_epoch() -> AbstractContextManager[object]:
    """A late marker ends the next transaction of a producer whose epoch was bumped."""
    return patch.object(producer_state, "_check_marker", lambda *_: None)


def refusing_for_good_what_is_not_verified() -> AbstractContextManager[object]:
    """A batch whose verification has ended is refused as one of no transaction, which ends most producers."""

    def for_good(producer_id: int, origin: AppendOrigin) -> Refusal:
        return Refusal(ErrorCode.INVALID_TXN_STATE, f"producer {producer_id} has no open transaction")

    return patch.object(producer_state, "_unverified", for_good)


def expiring_after_the_transaction() -> AbstractContextManager[object]:
    """A producer without an open transaction is forgotten at once, and the epoch of its coordinator (KAFKA-9144)."""
    expire = ProducerStates.expire

    def at_once(states: ProducerStates, now_ms: int, expiration_ms: int) -> int:
        return expire(states, now_ms, expiration_ms) + expire(states, now_ms, 0)

    return patch.object(ProducerStates, "expire", at_once)


def expiring_open_transactions() -> AbstractContextManager[object]:
    """A producer is forgotten although its transaction is open."""

    def expire(states: ProducerStates, now_ms: int, expiration_ms: int) -> int:
        kept: Mapping[int, ProducerState] = {
            each: state for each, state in states.states.items() if now_ms - state.timestamp_ms < expiration_ms
        }
        states._states = dict(kept)
        return 0

    return patch.object(ProducerStates, "expire", expire)


def refusing_unknown_producers() -> AbstractContextManager[object]:
    """A producer that the partition has forgotten has to begin with sequence 0 (before KIP-360)."""
    check = ProducerStates.check

    def strict(
        states: ProducerStates,
        header: BatchHeader,
        marker: EndTransactionMarker | None = None,
        origin: AppendOrigin = CLIENT,
    ) -> Accept | Duplicate:
        if marker is None and header.producer_id not in states.states and header.base_sequence > 0:
            raise producer_state._out_of_order(header, "the producer is unknown")
        return check(states, header, marker, origin)

    return patch.object(ProducerStates, "check", strict)


def forgetting_transactions_at_a_truncation() -> AbstractContextManager[object]:
    """After a truncation no transaction is open."""
    replace = ProducerStates.replace

    def closed(states: ProducerStates, found: Mapping[int, ProducerState]) -> None:
        replace(states, {each: state._replace(transaction_start=None) for each, state in found.items()})

    return patch.object(ProducerStates, "replace", closed)


# --- what coordinators check -----------------------------------------------------------------------------------------


def marking_before_the_commit() -> AbstractContextManager[object]:
    """Markers are written for a decision that may still be lost."""

    def of_latest(brokers: Brokers, host: TransactionHost) -> list[PendingMarkers]:
        hosted = host.hosted
        if hosted.volatile is None:
            return []
        return list(pending_markers(hosted.latest, hosted.latest, hosted.volatile))

    return patch.object(Brokers, "pending", of_latest)


def continuing_with_any_identity() -> AbstractContextManager[object]:
    """InitProducerId does not ask whether the producer that names an identity is the current one (KIP-360)."""
    decide = init_producer_id.init_producer_id

    def unfenced(state: Any, ticket: Any, command: InitProducerId) -> Any:
        found = state.transaction(command.transactional_id)
        if found is not None and command.expected is not None:
            command = _as_current(command, found.producer)
        return decide(state, ticket, command)

    return patch("kraft.coordinator.transactions.shard.init_producer_id", unfenced)


def _as_current(command: InitProducerId, producer: Any) -> InitProducerId:
    return InitProducerId(
        transactional_id=command.transactional_id,
        timeout_ms=command.timeout_ms,
        expected=producer,
        new_producer_id=command.new_producer_id,
    )


@contextmanager
def committing_as_anybody() -> Iterator[None]:
    """The member and the generation of offsets in a transaction are not checked (before KIP-447)."""
    with (
        patch.object(offset_requests, "validate_offset_commit", lambda *_: None),
        patch.object(offset_requests, "check_offset_commit", lambda *_: None),
    ):
        yield


def fetching_before_the_marker() -> AbstractContextManager[object]:
    """A member that takes over a partition does not wait for the transaction of the one before it."""

    return patch.object(
        exactly_once_coordinators,
        "fetch_stable",
        lambda committed, latest, group, topics: fetch(committed, group, topics),
    )
