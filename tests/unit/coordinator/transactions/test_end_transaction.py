"""EndTxn commits or aborts a transaction, and answers retries as Kafka does."""

from __future__ import annotations

import pytest

from kraft.coordinator.transactions.commands import AddPartitions, EndTransaction, ProducerIdNeeded
from kraft.coordinator.transactions.transaction import EPOCH_MAX, ProducerIdAndEpoch, TransactionState
from kraft.model.errors import ErrorCode
from kraft.model.ids import NO_PRODUCER_ID
from tests.unit.coordinator.transactions.coordinator import (
    EXHAUSTED,
    ID,
    ORDERS,
    PARCELS,
    Coordinator,
    at_epoch,
    identity,
)

FENCED, INVALID, ABORTED, CONCURRENT, UNKNOWN = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)


def at_state(name: str, client_version: int = 2) -> tuple[Coordinator, ProducerIdAndEpoch]:
    """A coordinator in the state, with the producer's identity in it."""
    coordinator = Coordinator()
    producer = coordinator.producer()
    if name != "Empty":
        coordinator.add(producer, ORDERS, client_version=client_version)
    if name not in ("Empty", "Ongoing"):
        coordinator.end(producer, commit="Commit" in name, client_version=client_version)
    if name.startswith("Complete"):
        coordinator.write_markers()
    transaction = coordinator.transaction()
    assert transaction.state.kafka_name == name
    return coordinator, transaction.producer


# --- ends ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("commit", "result"), [(True, "Commit"), (False, "Abort")])
def test_an_end_is_prepared_then_marked_then_complete(commit: bool, result: str) -> None:
    coordinator = Coordinator()
    producer = coordinator.producer()
    coordinator.add(producer, ORDERS, PARCELS)
    assert coordinator.end(producer, commit=commit) == identity(producer.producer_id, 1)
    (markers,) = coordinator.pending()
    assert (markers.commit, markers.producer) == (commit, identity(producer.producer_id, 1))
    assert (markers.partitions, markers.transaction_version) == (frozenset({ORDERS, PARCELS}), 2)
    coordinator.write_markers()
    assert coordinator.states() == ["Empty", "Ongoing", f"Prepare{result}", f"Complete{result}"]
    assert coordinator.pending() == []
    assert coordinator.transaction().partitions == frozenset()


def test_the_epoch_of_an_old_client_stays() -> None:
    coordinator = Coordinator()
    producer = coordinator.producer()
    coordinator.add(producer, client_version=0)
    assert coordinator.end(producer, client_version=0) == producer
    (markers,) = coordinator.pending()
    assert (markers.producer, markers.transaction_version) == (producer, 0)
    coordinator.write_markers()
    assert coordinator.commit(producer, client_version=0) == producer


def test_a_log_without_the_feature_has_no_tagged_fields() -> None:
    coordinator = Coordinator(transaction_version=0)
    coordinator.commit(coordinator.producer(), client_version=0)
    assert {value[:2] for _, value in coordinator.log if value} == {b"\x00\x00"}


def test_an_end_with_the_bump_is_recorded_with_it_at_any_level_of_the_feature() -> None:
    coordinator = Coordinator(transaction_version=0)
    producer = coordinator.producer()
    after = coordinator.commit(producer)
    coordinator.load()
    assert coordinator.end(producer) == after


# --- the table of Kafka's TransactionCoordinator.endTransaction ------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "abort_before", "abort_now", "commit_before", "commit_now"),
    [
        ("Empty", FENCED, 1, FENCED, INVALID),
        ("Ongoing", FENCED, 1, FENCED, 1),
        ("PrepareCommit", CONCURRENT, CONCURRENT, CONCURRENT, CONCURRENT),
        ("PrepareAbort", CONCURRENT, CONCURRENT, CONCURRENT, CONCURRENT),
        ("CompleteCommit", INVALID, 1, 0, INVALID),
        # KAFKA-20785: its producer can go on.
        ("CompleteAbort", 0, 1, ABORTED, INVALID),
    ],
)
def test_a_retry_has_the_epoch_before_the_end_and_every_other_end_the_current_one(
    state: str, abort_before: object, abort_now: object, commit_before: object, commit_now: object
) -> None:
    cases = [(-1, False, abort_before), (0, False, abort_now), (-1, True, commit_before), (0, True, commit_now)]
    for bump, commit, expected in cases:
        coordinator, current = at_state(state)
        before = list(coordinator.log)
        response = coordinator.end(identity(current.producer_id, current.epoch + bump), commit=commit)
        if isinstance(expected, ErrorCode):
            assert response is expected
        else:
            assert response == identity(current.producer_id, current.epoch + int(str(expected)))
        assert (coordinator.log == before) == (expected != 1)


@pytest.mark.parametrize(
    ("state", "abort", "commit"),
    [
        ("Empty", INVALID, INVALID),
        ("PrepareCommit", CONCURRENT, CONCURRENT),
        ("PrepareAbort", CONCURRENT, CONCURRENT),
        ("CompleteCommit", INVALID, ErrorCode.NONE),
        ("CompleteAbort", ErrorCode.NONE, INVALID),
    ],
)
def test_an_old_client_gets_the_answer_by_the_state_alone(state: str, abort: ErrorCode, commit: ErrorCode) -> None:
    coordinator, current = at_state(state, client_version=0)
    before = coordinator.transactions
    for wants_commit, expected in ((False, abort), (True, commit)):
        response = coordinator.end(current, commit=wants_commit, client_version=0)
        assert response == (current if expected is ErrorCode.NONE else expected)
    assert coordinator.transactions == before


@pytest.mark.parametrize("state", ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit", "CompleteAbort"])
@pytest.mark.parametrize("client_version", [0, 2])
def test_another_producer_ends_nothing(state: str, client_version: int) -> None:
    coordinator, current = at_state(state, client_version)
    before = coordinator.transactions
    is_hidden = state == "PrepareCommit" and client_version == 2
    for epoch in (-1, 1, 2):
        other = identity(current.producer_id, current.epoch + epoch)
        for commit in (False, True):
            response = coordinator.end(other, commit=commit, client_version=client_version)
            if epoch > 0 or client_version == 0:
                assert response is (CONCURRENT if is_hidden else FENCED)
    other = identity(current.producer_id + 1, current.epoch)
    assert coordinator.end(other, client_version=client_version) is (CONCURRENT if is_hidden else UNKNOWN)
    assert coordinator.transactions == before


def test_an_unknown_transactional_id_is_refused() -> None:
    coordinator = Coordinator()
    for client_version in (0, 2):
        assert coordinator.end(identity(1, 0), client_version=client_version) is UNKNOWN
        assert coordinator.end(identity(1, 0), transactional_id="") is ErrorCode.INVALID_REQUEST


def test_an_end_of_the_earlier_producer_does_not_look_like_a_retry() -> None:
    """Another producer has taken over at the next epoch, and commits as old clients do, without a bump."""
    coordinator = Coordinator()
    old = coordinator.producer()
    new = coordinator.producer()
    coordinator.commit(new, client_version=0)
    assert coordinator.end(old) is FENCED


# --- an abort without a transaction ----------------------------------------------------------------------------------


def test_an_abort_without_a_transaction_bumps_the_epoch_and_needs_no_markers() -> None:
    coordinator = Coordinator()
    producer = coordinator.producer()
    assert coordinator.end(producer, commit=False) == identity(producer.producer_id, 1)
    assert coordinator.states() == ["Empty", "PrepareAbort", "CompleteAbort"]
    assert coordinator.pending() == []
    assert coordinator.end(producer, commit=False) == identity(producer.producer_id, 1)


@pytest.mark.parametrize("client_version", [0, 2])
def test_a_transaction_without_partitions_needs_no_markers(client_version: int) -> None:
    coordinator = Coordinator()
    producer = coordinator.producer()
    nothing = AddPartitions(
        transactional_id=ID, producer=producer, partitions=frozenset(), client_version=client_version
    )
    assert coordinator.request(nothing) is None
    coordinator.end(producer, client_version=client_version)
    assert coordinator.states() == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]
    assert coordinator.pending() == []


# --- exhausted epochs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_the_next_transaction_has_another_producer_id_when_the_epochs_are_exhausted(commit: bool) -> None:
    coordinator, old = at_epoch(EXHAUSTED)
    coordinator.add(old)
    new = identity(old.producer_id + 1, 0)
    assert coordinator.end(old, commit=commit) == new
    (markers,) = coordinator.pending()
    assert markers.producer == identity(old.producer_id, EPOCH_MAX)
    coordinator.load()
    assert coordinator.add(new) is CONCURRENT
    coordinator.write_markers()
    transaction = coordinator.transaction()
    assert (transaction.producer, transaction.previous_producer_id) == (new, old.producer_id)
    assert transaction.next_producer_id == NO_PRODUCER_ID
    coordinator.load()
    assert coordinator.end(old, commit=commit) == new
    assert coordinator.end(old, commit=not commit) is (INVALID if commit else ABORTED)
    assert coordinator.end(identity(old.producer_id, 5), commit=commit) is UNKNOWN
    assert coordinator.add(new) is ErrorCode.NONE
    assert coordinator.end(old, commit=commit) is UNKNOWN


def test_a_producer_id_is_asked_for_only_if_the_epochs_are_exhausted() -> None:
    coordinator, old = at_epoch(EXHAUSTED)
    coordinator.add(old)
    before = list(coordinator.log)
    command = EndTransaction(transactional_id=ID, producer=old, commit=True, client_version=2)
    assert coordinator._request(command) == ProducerIdNeeded()
    assert coordinator.log == before
    assert coordinator.transaction().state is TransactionState.ONGOING


# --- requests that come late -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_a_late_end_does_not_end_the_next_transaction(commit: bool) -> None:
    """KAFKA-17754."""
    coordinator = Coordinator()
    first = coordinator.producer()
    second = coordinator.commit(first)
    coordinator.add(second, PARCELS)
    assert coordinator.end(first, commit=commit) is FENCED
    assert coordinator.transaction().state is TransactionState.ONGOING
    assert coordinator.transaction().partitions == {PARCELS}


def test_a_producer_learns_that_its_transaction_was_aborted_by_its_timeout() -> None:
    coordinator = Coordinator()
    producer = coordinator.producer()
    coordinator.add(producer)
    coordinator.advance(coordinator.transaction().timeout_ms)
    coordinator.write_markers()
    assert coordinator.end(producer, commit=True) is ABORTED
    assert coordinator.end(producer, commit=False) == identity(producer.producer_id, 1)
