"""The markers of a decided transaction are pending until each is written, also at a new coordinator."""

from __future__ import annotations

from msgspec.structs import replace

from kraft.coordinator.transactions.markers import newly_prepared, pending_markers
from kraft.coordinator.transactions.replicated import NO_TRANSACTIONS
from kraft.coordinator.transactions.transaction import TransactionState
from kraft.model.ids import TopicPartition
from tests.unit.coordinator.transactions.coordinator import ID, ORDERS, PARCELS, Coordinator


def prepared(client_version: int = 2) -> Coordinator:
    coordinator = Coordinator()
    producer = coordinator.producer()
    coordinator.add(producer, ORDERS, PARCELS, client_version=client_version)
    coordinator.end(producer, client_version=client_version)
    return coordinator


def test_a_transaction_is_complete_when_every_partition_has_its_marker() -> None:
    coordinator = prepared()
    (markers,) = coordinator.pending()
    coordinator.request(markers.written(frozenset({ORDERS})))
    (rest,) = coordinator.pending()
    assert rest == replace(markers, partitions=frozenset({PARCELS}))
    assert coordinator.transaction().state is TransactionState.PREPARE_COMMIT
    coordinator.request(markers.written(frozenset({PARCELS})))
    assert coordinator.transaction().state is TransactionState.COMPLETE_COMMIT
    assert not coordinator.volatile.written


def test_markers_that_are_reported_twice_or_without_need_change_nothing() -> None:
    coordinator = prepared()
    (markers,) = coordinator.pending()
    for _ in range(2):
        coordinator.request(markers.written(frozenset({ORDERS, TopicPartition("other", 0)})))
    assert coordinator.transaction().state is TransactionState.PREPARE_COMMIT
    coordinator.write_markers()
    complete = coordinator.transactions
    coordinator.request(markers.written(markers.partitions))
    assert coordinator.transactions == complete


def test_a_new_coordinator_writes_all_markers_again() -> None:
    coordinator = prepared()
    (markers,) = coordinator.pending()
    coordinator.request(markers.written(frozenset({ORDERS})))
    coordinator.load()
    assert coordinator.pending() == [markers]
    coordinator.request(markers.written(frozenset({ORDERS, PARCELS})))
    coordinator.load()
    assert coordinator.pending() == []


def test_late_markers_of_one_transaction_are_not_taken_for_those_of_the_next() -> None:
    """With an old client both have the same epoch, and here even the same time."""
    coordinator = prepared(client_version=0)
    (first,) = coordinator.pending()
    coordinator.write_markers()
    producer = coordinator.transaction().producer
    coordinator.add(producer, ORDERS, PARCELS, client_version=0)
    coordinator.end(producer, client_version=0)
    (second,) = coordinator.pending()
    assert replace(first, prepared_ms=second.prepared_ms) == second
    coordinator.request(first.written(first.partitions))
    assert coordinator.pending() == [second]


def test_no_marker_is_pending_before_its_decision_is_committed() -> None:
    coordinator = prepared()
    latest, volatile = coordinator.transactions, coordinator.volatile
    assert list(pending_markers(NO_TRANSACTIONS, latest, volatile)) == []


def test_no_marker_is_pending_after_the_completion_is_decided() -> None:
    coordinator = prepared(client_version=0)
    committed = coordinator.transactions
    coordinator.write_markers()
    assert list(pending_markers(committed, coordinator.transactions, coordinator.volatile)) == []
    producer = coordinator.transaction().producer
    coordinator.add(producer, ORDERS, client_version=0)
    coordinator.end(producer, client_version=0)
    assert list(pending_markers(committed, coordinator.transactions, coordinator.volatile)) == []


def test_only_the_markers_of_some_ids_are_asked_for() -> None:
    coordinator = prepared()
    state = coordinator.transactions
    assert list(pending_markers(state, state, coordinator.volatile, ["other"])) == []
    assert list(pending_markers(state, state, coordinator.volatile, [ID])) == coordinator.pending()


def test_what_is_newly_prepared_is_found_by_the_difference_of_two_states() -> None:
    coordinator = prepared(client_version=0)
    first = coordinator.transactions
    assert newly_prepared(NO_TRANSACTIONS, first) == [ID]
    assert newly_prepared(first, first) == []
    coordinator.write_markers()
    assert newly_prepared(first, coordinator.transactions) == []
    producer = coordinator.transaction().producer
    coordinator.add(producer, client_version=0)
    coordinator.end(producer, client_version=0)
    assert newly_prepared(first, coordinator.transactions) == [ID]
