"""Transactions are listed by filters, and described."""

from __future__ import annotations

import pytest

from kraft.coordinator.transactions.queries import ListFilters, describe_transaction, list_transactions
from kraft.coordinator.transactions.replicated import contents
from kraft.coordinator.transactions.transaction import TransactionState
from kraft.model.errors import ErrorCode, Refusal
from tests.unit.coordinator.transactions.coordinator import ORDERS, PARCELS, Coordinator


@pytest.fixture(scope="module")
def coordinator() -> Coordinator:
    """Ids that are empty, open since 500 ms, open since now, and complete."""
    made = Coordinator()
    made.producer("empty")
    made.add(made.producer("old"), ORDERS, PARCELS, transactional_id="old")
    made.advance(500)
    made.add(made.producer("new"), ORDERS, transactional_id="new")
    done = made.producer("done")
    made.add(done, transactional_id="done")
    made.end(done, transactional_id="done")
    made.write_markers()
    return made


def listed(coordinator: Coordinator, filters: ListFilters) -> set[str]:
    return {name for name, _ in list_transactions(coordinator.transactions, filters, coordinator.now_ms)}


def test_all_transactional_ids_are_listed_without_filters(coordinator: Coordinator) -> None:
    assert listed(coordinator, ListFilters()) == {"empty", "old", "new", "done"}


def test_states_are_filtered_by_their_names(coordinator: Coordinator) -> None:
    assert listed(coordinator, ListFilters(states={"Ongoing"})) == {"old", "new"}
    assert listed(coordinator, ListFilters(states={"Ongoing", "CompleteCommit"})) == {"old", "new", "done"}
    assert listed(coordinator, ListFilters(states={"PrepareEpochFence", "Dead"})) == set()


def test_unknown_states_are_named_and_accept_nothing(coordinator: Coordinator) -> None:
    filters = ListFilters(states={"ongoing", "Empty", "Done", "Dead"})
    assert filters.unknown_states() == ["Done", "ongoing"]
    assert listed(coordinator, filters) == {"empty"}
    assert listed(coordinator, ListFilters(states={"Done"})) == set()


def test_producers_are_filtered_by_their_ids(coordinator: Coordinator) -> None:
    producer_id = coordinator.transaction("old").producer.producer_id
    assert listed(coordinator, ListFilters(producer_ids={producer_id, 7})) == {"old"}


def test_a_duration_accepts_what_was_begun_longer_ago(coordinator: Coordinator) -> None:
    ongoing = {"Ongoing"}
    assert listed(coordinator, ListFilters(states=ongoing, duration_ms=499)) == {"old"}
    assert listed(coordinator, ListFilters(states=ongoing, duration_ms=500)) == set()
    assert listed(coordinator, ListFilters(states=ongoing, duration_ms=-1)) == {"old", "new"}


def test_a_transaction_is_described(coordinator: Coordinator) -> None:
    transaction = describe_transaction(coordinator.transactions, "old")
    assert (transaction.state, transaction.partitions) == (TransactionState.ONGOING, frozenset({ORDERS, PARCELS}))


@pytest.mark.parametrize(
    ("name", "code"), [("", ErrorCode.INVALID_REQUEST), ("x", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)]
)
def test_what_cannot_be_described_is_refused(coordinator: Coordinator, name: str, code: ErrorCode) -> None:
    with pytest.raises(Refusal) as refused:
        describe_transaction(coordinator.transactions, name)
    assert refused.value.error_code is code


def test_states_have_the_names_of_kafka() -> None:
    assert [state.kafka_name for state in TransactionState] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]


def test_the_contents_are_counted_and_open_transactions_named(coordinator: Coordinator) -> None:
    found = contents(coordinator.transactions)
    assert found.counts == {"transactional_ids": 4, "ongoing": 2}
    assert sorted(found.named) == ["new", "old"]
