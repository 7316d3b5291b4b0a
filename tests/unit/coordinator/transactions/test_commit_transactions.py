"""CommitTransactions commits all of the transactions or none of them, and once for each sequence."""

from __future__ import annotations

from msgspec.structs import replace

from kraft.coordinator.transactions.commands import (
    AddPartitions,
    CommitTransactions,
    InitProducerId,
    TransactionToCommit,
)
from kraft.coordinator.transactions.settings import TransactionSettings
from kraft.coordinator.transactions.transaction import EPOCH_MAX, TransactionState
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.transactions import CommitTransactionsResponse
from tests.unit.coordinator.transactions.coordinator import (
    EXHAUSTED,
    ID,
    ORDERS,
    PARCELS,
    TIMEOUT_MS,
    Coordinator,
    at_epoch,
    identity,
)

COMMITTED = CommitTransactionsResponse(are_committed=True, last_sequence=0)


def test_open_transactions_are_committed_together_with_the_sequence() -> None:
    coordinator = Coordinator()
    first, second = coordinator.open("a", ORDERS), coordinator.open("b", ORDERS, PARCELS)
    before = len(coordinator.log)
    assert coordinator.commit_together(7, first, second) == replace(COMMITTED, last_sequence=7)
    assert coordinator.states()[before:] == ["PrepareCommit", "PrepareCommit", "Empty"]
    assert coordinator.transaction().last_sequence == 7
    assert {(each.transactional_id, each.commit, each.partitions) for each in coordinator.pending()} == {
        ("a", True, frozenset({ORDERS})),
        ("b", True, frozenset({ORDERS, PARCELS})),
    }
    assert {each.producer.epoch for each in coordinator.pending()} == {1}, "late writes of the producers are fenced"


def open_without_partitions(
    coordinator: Coordinator, transactional_id: str, *, is_temporary: bool
) -> TransactionToCommit:
    """Begin a transaction as AddPartitionsToTxn of version 3 does that names no topic."""
    producer = coordinator.producer(transactional_id, is_temporary=is_temporary)
    command = AddPartitions(
        transactional_id=transactional_id, producer=producer, partitions=frozenset(), client_version=0
    )
    assert coordinator.request(command) is None
    return TransactionToCommit(transactional_id=transactional_id, producer=producer)


def test_a_transaction_without_partitions_is_complete_at_once() -> None:
    """It has no markers whose answers would complete it: no producer could use its id before the next load."""
    coordinator = Coordinator()
    temporary = open_without_partitions(coordinator, "a", is_temporary=True)
    other = open_without_partitions(coordinator, "b", is_temporary=False)
    third = coordinator.open("c", ORDERS)
    before = len(coordinator.log)
    assert coordinator.commit_together(0, temporary, other, third) == COMMITTED
    states = ["PrepareCommit", "Dead", "PrepareCommit", "CompleteCommit", "PrepareCommit", "Empty"]
    assert coordinator.states()[before:] == states
    assert [each.transactional_id for each in coordinator.pending()] == ["c"]
    assert coordinator.end(other.producer, transactional_id="b") == coordinator.transaction("b").producer
    coordinator.producer("b")


def test_the_records_of_transactions_without_partitions_fit_into_the_batch_too() -> None:
    coordinator = Coordinator(TransactionSettings(batch_bytes_max=lambda: 800))
    opened = [open_without_partitions(coordinator, f"a{number}", is_temporary=False) for number in range(3)]
    assert coordinator.commit_together(0, *opened) is ErrorCode.INVALID_REQUEST
    assert coordinator.commit_together(0, *opened[:2]) == COMMITTED


def test_a_sequence_that_is_not_above_the_last_one_changes_nothing() -> None:
    coordinator = Coordinator()
    coordinator.commit_together(7, coordinator.open("a"))
    late = coordinator.open("late")
    for sequence in (7, 6, 0):
        before = list(coordinator.log)
        assert coordinator.commit_together(sequence, late) == replace(COMMITTED, are_committed=False, last_sequence=7)
        assert coordinator.log == before
    assert coordinator.transaction("late").state is TransactionState.ONGOING
    assert coordinator.commit_together(8, late) == replace(COMMITTED, last_sequence=8)


def test_a_repeated_request_is_answered_after_its_transactions_were_deleted() -> None:
    coordinator = Coordinator()
    opened = coordinator.open("a")
    coordinator.commit_together(0, opened)
    coordinator.write_markers()
    assert "a" not in coordinator.transactions.by_id
    assert coordinator.commit_together(0, opened) == replace(COMMITTED, are_committed=False)


def test_nothing_is_committed_if_one_transaction_is_not_open() -> None:
    coordinator = Coordinator()
    opened, ended = coordinator.open("a"), coordinator.open("b", is_temporary=False)
    coordinator.end(ended.producer, commit=False, transactional_id="b")
    idle = replace(ended, transactional_id="idle", producer=coordinator.producer("idle"))
    other = replace(opened, producer=identity(opened.producer.producer_id, 5))
    unknown = replace(opened, transactional_id="unknown")
    before = list(coordinator.log)
    for wrong in (ended, idle, unknown):
        assert coordinator.commit_together(0, opened, wrong) is ErrorCode.TRANSACTION_ABORTABLE
    assert coordinator.commit_together(0, other) is ErrorCode.TRANSACTION_ABORTABLE
    assert coordinator.log == before
    assert coordinator.commit_together(0, opened) == COMMITTED


def test_nothing_is_committed_if_one_transaction_has_timed_out() -> None:
    coordinator = Coordinator()
    early = coordinator.open("early")
    coordinator.advance(TIMEOUT_MS - 1)
    late = coordinator.open("late")
    coordinator.advance(1)
    assert coordinator.commit_together(0, early, late) is ErrorCode.TRANSACTION_ABORTABLE
    assert ID not in coordinator.transactions.by_id
    assert coordinator.transaction("late").state is TransactionState.ONGOING


def test_committed_transactions_do_not_time_out() -> None:
    coordinator = Coordinator()
    coordinator.commit_together(0, coordinator.open("a"))
    coordinator.advance(10 * TIMEOUT_MS)
    assert coordinator.transaction("a").state is TransactionState.PREPARE_COMMIT


def test_a_sequence_may_have_no_transactions() -> None:
    coordinator = Coordinator()
    assert coordinator.commit_together(0) == COMMITTED
    assert coordinator.commit_together(0) == replace(COMMITTED, are_committed=False)


def test_a_new_coordinator_knows_the_sequence_and_deletes_temporary_ids() -> None:
    coordinator = Coordinator()
    opened = coordinator.open("a")
    coordinator.commit_together(3, opened)
    coordinator.load()
    assert coordinator.commit_together(3, opened) == replace(COMMITTED, are_committed=False, last_sequence=3)
    coordinator.write_markers()
    assert coordinator.states()[-1] == "Dead"
    coordinator.load()
    assert list(coordinator.transactions.by_id) == [ID]


def test_the_sequence_survives_a_new_producer_of_its_id() -> None:
    coordinator = Coordinator()
    coordinator.commit_together(3, coordinator.open("a"))
    producer = coordinator.producer()
    coordinator.commit(producer)
    assert coordinator.commit_together(3) == replace(COMMITTED, are_committed=False, last_sequence=3)
    assert coordinator.commit_together(4) == replace(COMMITTED, last_sequence=4)


def test_a_sequence_is_forgotten_with_its_id() -> None:
    coordinator = Coordinator(TransactionSettings(id_expiration_ms=10_000, expiry_interval_ms=1_000))
    coordinator.commit_together(3)
    coordinator.advance(9_000)
    coordinator.commit_together(4)
    coordinator.advance(9_000)
    assert coordinator.commit_together(4) == replace(COMMITTED, are_committed=False, last_sequence=4)
    coordinator.advance(20_000)
    assert coordinator.commit_together(4) == replace(COMMITTED, last_sequence=4)


def test_an_id_with_a_transaction_of_its_own_commits_no_others() -> None:
    coordinator = Coordinator()
    opened = coordinator.open("a")
    producer = coordinator.producer()
    coordinator.add(producer)
    assert coordinator.commit_together(0, opened) is ErrorCode.INVALID_TXN_STATE
    coordinator.end(producer)
    assert coordinator.commit_together(0, opened) is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    assert coordinator.commit_together(0, opened) == COMMITTED


def test_a_malformed_request_is_refused() -> None:
    coordinator = Coordinator()
    opened = coordinator.open("a")
    assert coordinator.commit_together(-1, opened) is ErrorCode.INVALID_REQUEST
    assert coordinator.commit_together(0, opened, opened) is ErrorCode.INVALID_REQUEST
    assert coordinator.commit_together(0, opened, committer="a") is ErrorCode.INVALID_REQUEST
    assert coordinator.commit_together(0, replace(opened, transactional_id="")) is ErrorCode.INVALID_REQUEST
    coordinator.set_transaction_version(0)
    assert coordinator.commit_together(0, opened) is ErrorCode.UNSUPPORTED_VERSION


def test_more_transactions_than_one_batch_holds_are_refused_with_the_remedy() -> None:
    coordinator = Coordinator(TransactionSettings(batch_bytes_max=lambda: 800))
    opened = tuple(coordinator.open(f"a{number}") for number in range(4))
    refusal = coordinator.request(CommitTransactions(transactional_id=ID, sequence=0, transactions=opened))
    assert isinstance(refusal, Refusal)
    assert refusal.error_code is ErrorCode.INVALID_REQUEST
    assert "4 transactions are too many to commit together" in refusal.message
    assert "fewer tasks" in refusal.message
    assert coordinator.commit_together(0, *opened[:2]) == COMMITTED


def test_a_producer_that_goes_on_gets_its_next_identity() -> None:
    coordinator = Coordinator()
    opened = coordinator.open("a", is_temporary=False)
    coordinator.commit_together(0, opened)
    coordinator.write_markers()
    after = identity(opened.producer.producer_id, opened.producer.epoch + 1)
    assert coordinator.end(opened.producer, transactional_id="a") == after, "as a retry of its own commit"
    assert coordinator.init(opened.producer, transactional_id="a") == after


def test_the_last_epoch_fences_a_producer_whose_epochs_are_exhausted() -> None:
    coordinator, producer = at_epoch(EXHAUSTED)
    coordinator.add(producer)
    opened = TransactionToCommit(transactional_id=ID, producer=producer)
    assert coordinator.commit_together(0, opened, committer="committer") == COMMITTED
    (markers,) = coordinator.pending()
    assert markers.producer.epoch == EPOCH_MAX
    coordinator.write_markers()
    assert coordinator.producer().epoch == 0, "with another producer id"


# --- temporary ids -----------------------------------------------------------------------------------------------


def test_a_temporary_id_is_deleted_however_its_transaction_ends() -> None:
    coordinator = Coordinator()
    committed, aborted, late = (coordinator.open(each) for each in ("committed", "aborted", "late"))
    coordinator.end(committed.producer, transactional_id="committed")
    coordinator.end(aborted.producer, commit=False, transactional_id="aborted")
    coordinator.write_markers()
    assert list(coordinator.transactions.by_id) == ["late"]
    coordinator.advance(TIMEOUT_MS)
    (markers,) = coordinator.pending()
    assert not markers.commit
    coordinator.write_markers()
    assert not coordinator.transactions.by_id
    assert coordinator.volatile.earlier.get("late") is None
    assert coordinator.end(late.producer, transactional_id="late") is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_temporary_id_without_a_transaction_is_deleted_by_an_abort() -> None:
    coordinator = Coordinator()
    producer = coordinator.producer("a", is_temporary=True)
    coordinator.end(producer, commit=False, transactional_id="a")
    assert not coordinator.transactions.by_id


def test_a_temporary_id_that_is_never_used_expires_after_its_own_timeout() -> None:
    coordinator = Coordinator(TransactionSettings(expiry_interval_ms=1_000))
    coordinator.producer("lost", is_temporary=True)
    coordinator.advance(TIMEOUT_MS - 1_000)
    assert "lost" in coordinator.transactions.by_id
    coordinator.advance(2_000)
    assert not coordinator.transactions.by_id


def test_an_abort_after_the_commit_was_decided_undoes_nothing() -> None:
    coordinator = Coordinator()
    opened = coordinator.open("a")
    coordinator.commit_together(0, opened)
    assert coordinator.end(opened.producer, commit=False, transactional_id="a") is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    assert coordinator.end(opened.producer, commit=False, transactional_id="a") is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_producer_that_writes_on_after_the_end_is_refused() -> None:
    coordinator = Coordinator()
    zombie = coordinator.open("a")
    coordinator.commit_together(0, zombie)
    assert coordinator.add(zombie.producer, PARCELS, transactional_id="a") is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    assert coordinator.add(zombie.producer, PARCELS, transactional_id="a") is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_the_last_init_decides_whether_an_id_is_temporary() -> None:
    coordinator = Coordinator()
    producer = coordinator.producer("a", is_temporary=True)
    again = coordinator.request(
        InitProducerId(transactional_id="a", timeout_ms=TIMEOUT_MS, expected=producer, is_temporary=False)
    )
    assert again == identity(producer.producer_id, producer.epoch + 1)
    assert not coordinator.transaction("a").is_temporary
