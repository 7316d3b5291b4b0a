"""InitProducerId gives a producer its identity, fences the one before it, and aborts what that one left open."""

from __future__ import annotations

from itertools import count

import pytest
from msgspec.structs import replace

from kraft.coordinator.transactions.commands import InitProducerId, ProducerIdNeeded
from kraft.coordinator.transactions.settings import TransactionSettings
from kraft.coordinator.transactions.transaction import EPOCH_MAX, ProducerIdAndEpoch, TransactionState
from kraft.model.errors import ErrorCode, Refusal
from tests.unit.coordinator.transactions.coordinator import (
    EXHAUSTED,
    FIRST_PRODUCER_ID,
    ID,
    ORDERS,
    PARCELS,
    TIMEOUT_MS,
    Coordinator,
    at_epoch,
    identity,
)


def refused(coordinator: Coordinator, **fields: object) -> Refusal:
    command = InitProducerId(**{"transactional_id": ID, "timeout_ms": TIMEOUT_MS, **fields})  # type: ignore[arg-type]
    records = list(coordinator.log)
    response = coordinator.request(command)
    assert isinstance(response, Refusal), response
    assert coordinator.log == records
    return response


# --- identities ------------------------------------------------------------------------------------------------------


def test_the_first_producer_gets_a_new_producer_id_with_epoch_0() -> None:
    coordinator = Coordinator()
    assert coordinator.init() == identity(FIRST_PRODUCER_ID, 0)
    assert coordinator.transaction().state is TransactionState.EMPTY
    assert coordinator.transaction().timeout_ms == TIMEOUT_MS


def test_a_producer_id_is_asked_for_only_if_one_is_needed() -> None:
    coordinator = Coordinator()
    command = InitProducerId(transactional_id=ID, timeout_ms=TIMEOUT_MS)
    assert coordinator._request(command) == ProducerIdNeeded()
    assert coordinator.log == []
    coordinator.producer()
    assert coordinator._request(command) == identity(FIRST_PRODUCER_ID, 1)


def test_each_new_producer_gets_the_next_epoch() -> None:
    coordinator = Coordinator()
    assert [coordinator.producer().epoch for _ in range(3)] == [0, 1, 2]


def test_the_timeout_is_that_of_the_last_producer() -> None:
    coordinator = Coordinator()
    coordinator.producer()
    coordinator.init(timeout_ms=5)
    assert coordinator.transaction().timeout_ms == 5


def test_a_producer_continues_with_the_next_epoch() -> None:
    coordinator = Coordinator()
    first = coordinator.producer()
    assert coordinator.init(first) == identity(first.producer_id, 1)


def test_a_retry_gets_the_same_answer() -> None:
    coordinator = Coordinator()
    first = coordinator.producer()
    second = coordinator.init(first)
    assert coordinator.init(first) == coordinator.init(first) == second


def test_a_retry_is_refused_once_a_new_producer_has_come() -> None:
    coordinator = Coordinator()
    first = coordinator.producer()
    coordinator.init(first)
    coordinator.producer()
    assert coordinator.init(first) is ErrorCode.PRODUCER_FENCED


def test_a_retry_at_a_new_coordinator_is_refused_as_in_kafka() -> None:
    coordinator = Coordinator()
    first = coordinator.producer()
    coordinator.init(first)
    coordinator.load()
    assert coordinator.init(first) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("epochs", [-1, 1])
def test_a_producer_with_another_epoch_is_fenced(epochs: int) -> None:
    coordinator = Coordinator()
    coordinator.producer()
    current = coordinator.producer()
    assert coordinator.init(identity(current.producer_id, current.epoch + epochs)) is ErrorCode.PRODUCER_FENCED


def test_a_producer_with_another_id_is_fenced() -> None:
    coordinator = Coordinator()
    current = coordinator.producer()
    assert coordinator.init(identity(current.producer_id + 7, 0)) is ErrorCode.PRODUCER_FENCED


def test_a_producer_whose_id_has_expired_gets_a_new_identity() -> None:
    coordinator = Coordinator()
    assert coordinator.init(identity(5, 3)) == identity(FIRST_PRODUCER_ID, 0)


def test_a_producer_goes_on_after_the_end_of_a_transaction() -> None:
    """KIP-360 after KIP-890: the client has not got the answer to EndTxn, and asks for a new identity."""
    coordinator = Coordinator()
    before = coordinator.producer()
    after = coordinator.commit(before)
    assert coordinator.init(before) == after


# --- exhausted epochs ------------------------------------------------------------------------------------------------


def test_a_new_producer_gets_another_producer_id_when_the_epochs_are_exhausted() -> None:
    coordinator, old = at_epoch(EXHAUSTED)
    new = coordinator.init()
    assert new == identity(old.producer_id + 1, 0)
    assert coordinator.transaction().previous_producer_id == old.producer_id


def test_a_retry_after_the_change_of_the_producer_id_gets_the_same_answer() -> None:
    coordinator, old = at_epoch(EXHAUSTED)
    new = coordinator.init(old)
    assert coordinator.init(old) == new == identity(old.producer_id + 1, 0)
    assert coordinator.init(identity(old.producer_id, 3)) is ErrorCode.PRODUCER_FENCED


def test_a_retry_of_the_request_for_the_last_epoch_gets_the_same_answer() -> None:
    coordinator, old = at_epoch(EXHAUSTED - 1)
    last = coordinator.init(old)
    assert last == identity(old.producer_id, EXHAUSTED)
    assert coordinator.init(old) == last


def test_no_producer_is_given_the_epoch_that_fences() -> None:
    coordinator, old = at_epoch(EXHAUSTED)
    coordinator.add(old)
    coordinator.advance(TIMEOUT_MS)
    coordinator.write_markers()
    assert coordinator.transaction().producer == identity(old.producer_id, EPOCH_MAX)
    assert coordinator.end(old, commit=False) is ErrorCode.PRODUCER_FENCED
    new = coordinator.init(old)
    assert new == identity(old.producer_id + 1, 0)
    assert coordinator.init(old) == new


@pytest.mark.parametrize("transaction_version", [0, 2])
def test_no_transaction_begins_with_the_epoch_that_fences(transaction_version: int) -> None:
    """Its marker could not have a later epoch: the partitions would refuse it, and the transaction would stay open."""
    coordinator, old = at_epoch(EXHAUSTED, transaction_version)
    coordinator.add(old)
    coordinator.advance(TIMEOUT_MS)
    coordinator.write_markers()
    fencing = coordinator.transaction().producer
    assert fencing.epoch == EPOCH_MAX
    assert coordinator.add(fencing) is ErrorCode.PRODUCER_FENCED


def test_the_producer_id_0_is_one_like_any_other() -> None:
    for act in ("init", "abort", "end"):
        coordinator, old = at_epoch(EXHAUSTED)
        coordinator._producer_ids = count(0)
        if act != "init":
            coordinator.add(old)
        response = coordinator.end(old) if act == "end" else coordinator.init(old)
        coordinator.write_markers()
        assert coordinator.transaction().producer == identity(0, 0)
        assert response == (ErrorCode.CONCURRENT_TRANSACTIONS if act == "abort" else identity(0, 0))


def test_a_late_request_leaves_the_end_of_the_last_transaction_known() -> None:
    coordinator = Coordinator()
    first = coordinator.producer()
    second = coordinator.init(first)
    assert isinstance(second, ProducerIdAndEpoch)
    coordinator.commit(second, client_version=0)
    assert coordinator.init(first) == second
    assert coordinator.end(second, client_version=0) == second
    assert coordinator.init(first, timeout_ms=7) == second
    assert coordinator.transaction().timeout_ms == 7


# --- transactions that are open --------------------------------------------------------------------------------------


@pytest.mark.parametrize("transaction_version", [0, 1, 2])
def test_a_transaction_that_a_producer_left_open_is_aborted_first(transaction_version: int) -> None:
    coordinator = Coordinator(transaction_version=transaction_version)
    old = coordinator.producer()
    coordinator.add(old, client_version=transaction_version)
    assert coordinator.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    (markers,) = coordinator.pending()
    assert (markers.commit, markers.producer) == (False, identity(old.producer_id, 1))
    assert markers.transaction_version == (2 if transaction_version == 2 else 0)
    assert coordinator.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    assert coordinator.init() == identity(old.producer_id, 2)
    assert coordinator.add(old) is ErrorCode.PRODUCER_FENCED
    assert coordinator.end(old) is ErrorCode.PRODUCER_FENCED
    assert not coordinator.timers.keys() - {key for key in coordinator.timers if "Expiry" in repr(key)}


def test_an_abort_at_the_last_epoch_takes_a_new_producer_id() -> None:
    coordinator, old = at_epoch(EXHAUSTED)
    coordinator.add(old)
    assert coordinator.init(old) is ErrorCode.CONCURRENT_TRANSACTIONS
    (markers,) = coordinator.pending()
    assert markers.producer == identity(old.producer_id, EPOCH_MAX)
    coordinator.write_markers()
    assert coordinator.init(old) == identity(old.producer_id + 1, 0)


def test_an_abort_at_the_last_epoch_keeps_the_producer_id_before_version_2() -> None:
    coordinator, old = at_epoch(EXHAUSTED, transaction_version=0)
    coordinator.add(old, client_version=0)
    assert coordinator.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    assert coordinator.transaction().producer == identity(old.producer_id, EPOCH_MAX)
    assert coordinator.init() == identity(old.producer_id + 1, 0)


def test_a_late_request_does_not_abort_the_transaction_that_followed_it() -> None:
    coordinator = Coordinator()
    first = coordinator.producer()
    second = coordinator.init(first)
    assert isinstance(second, ProducerIdAndEpoch)
    coordinator.add(second)
    assert coordinator.init(first) is ErrorCode.PRODUCER_FENCED
    assert coordinator.transaction().state is TransactionState.ONGOING


@pytest.mark.parametrize("commit", [True, False])
def test_a_decided_transaction_is_completed_first(commit: bool) -> None:
    coordinator = Coordinator()
    old = coordinator.producer()
    coordinator.add(old)
    after = coordinator.end(old, commit=commit)
    assert coordinator.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    assert isinstance(after, ProducerIdAndEpoch)
    assert coordinator.init() == replace(after, epoch=after.epoch + 1)


# --- bad input -------------------------------------------------------------------------------------------------------


def test_an_empty_transactional_id_is_refused() -> None:
    assert refused(Coordinator(), transactional_id="").error_code is ErrorCode.INVALID_REQUEST


def test_a_transactional_id_that_does_not_fit_into_a_record_is_refused() -> None:
    assert refused(Coordinator(), transactional_id="ä" * 20_000).error_code is ErrorCode.INVALID_REQUEST
    assert isinstance(Coordinator().producer("x" * 32_767), ProducerIdAndEpoch)


@pytest.mark.parametrize("timeout_ms", [-1, 0, 101, 2**31 - 1])
def test_a_timeout_out_of_range_is_refused(timeout_ms: int) -> None:
    coordinator = Coordinator(TransactionSettings(timeout_max_ms=100))
    refusal = refused(coordinator, timeout_ms=timeout_ms)
    assert refusal.error_code is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert "transaction.max.timeout.ms" in refusal.message


def test_two_phase_commit_is_not_supported() -> None:
    refusal = refused(Coordinator(), enable_2pc=True, timeout_ms=2**31 - 1)
    assert refusal.error_code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert refused(Coordinator(), keep_prepared=True).error_code is ErrorCode.UNSUPPORTED_VERSION


# --- memory ------------------------------------------------------------------------------------------------------


def full(id_expiration_ms: int = 604_800_000) -> tuple[Coordinator, list[str]]:
    """A coordinator whose memory for ids is full of ids with which no transaction has begun."""
    coordinator = Coordinator(TransactionSettings(memory_bytes_max=10_000, id_expiration_ms=id_expiration_ms))
    known: list[str] = []
    while coordinator.init(transactional_id=f"id-{len(known)}") is not ErrorCode.CONCURRENT_TRANSACTIONS:
        known.append(f"id-{len(known)}")
        assert len(known) < 100
    return coordinator, known


def test_new_ids_are_refused_while_those_that_are_known_take_too_much_memory() -> None:
    """A client that takes a new id for each transaction must not fill the coordinator's memory."""
    coordinator, known = full(id_expiration_ms=50_000_000)
    assert len(known) == pytest.approx(10_000 / 650, abs=1)
    assert coordinator.commit_together(0, committer="committer") is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.advance(0)
    assert coordinator.commit_together(0, committer="committer") is ErrorCode.POLICY_VIOLATION
    assert coordinator.init(transactional_id="new") is ErrorCode.POLICY_VIOLATION
    assert coordinator.transactions.by_id.keys() == set(known), "all are too young to be evicted"
    for each in known:
        producer = coordinator.producer(each)
        assert coordinator.add(producer, ORDERS, transactional_id=each) is ErrorCode.NONE, "those that are known go on"
    for _ in range(2):
        coordinator.load()
        assert coordinator.init(transactional_id="new") is ErrorCode.CONCURRENT_TRANSACTIONS
        coordinator.advance(0)
        assert coordinator.init(transactional_id="new") is ErrorCode.POLICY_VIOLATION
        coordinator.advance(5_000_000)
        coordinator.write_markers()
    coordinator.advance(60_000_000)
    assert isinstance(coordinator.init(transactional_id="new"), ProducerIdAndEpoch)


def test_ids_without_a_transaction_are_evicted_when_new_ones_find_no_room() -> None:
    coordinator, known = full()
    used, sequenced = known[:2]
    producer = coordinator.producer(used)
    coordinator.add(producer, ORDERS, transactional_id=used)
    coordinator.end(producer, transactional_id=used)
    coordinator.write_markers()
    coordinator.commit_together(5, committer=sequenced)
    coordinator.advance(301_000)
    assert coordinator.init(transactional_id="new") is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.advance(0)
    assert isinstance(coordinator.init(transactional_id="new"), ProducerIdAndEpoch)
    kept = coordinator.transactions.by_id
    assert {used, sequenced} <= kept.keys(), "what they did stays known"
    assert len(kept) >= len(known) - 4, "no more than the room that is needed"


def test_the_oldest_ids_are_evicted_first() -> None:
    coordinator, known = full()
    coordinator.advance(4_000_000)
    for each in known[:-3]:
        coordinator.producer(each)
    coordinator.advance(301_000)
    coordinator.init(transactional_id="new")
    coordinator.advance(0)
    assert coordinator.transactions.by_id.keys() == set(known[:-3]), "the others began again not long ago"


def test_an_evicted_producer_is_told_that_it_is_not_known_and_begins_again() -> None:
    coordinator, known = full()
    producers = {each: coordinator.producer(each) for each in known}
    coordinator.advance(301_000)
    coordinator.init(transactional_id="new")
    coordinator.advance(0)
    evicted = next(each for each in known if each not in coordinator.transactions.by_id)
    code = coordinator.add(producers[evicted], ORDERS, transactional_id=evicted)
    assert code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    again = coordinator.init(producers[evicted], transactional_id=evicted)
    assert isinstance(again, ProducerIdAndEpoch)
    assert again.producer_id != producers[evicted].producer_id
    assert coordinator.add(again, ORDERS, transactional_id=evicted) is ErrorCode.NONE


def test_temporary_ids_are_not_evicted() -> None:
    coordinator = Coordinator(TransactionSettings(memory_bytes_max=641))
    patient = InitProducerId(transactional_id="t", timeout_ms=900_000, is_temporary=True)
    assert isinstance(coordinator.request(patient), ProducerIdAndEpoch)
    coordinator.advance(899_000)
    assert coordinator.init(transactional_id="new") is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.advance(0)
    assert coordinator.transactions.by_id.keys() == {"t"}


def test_the_memory_of_ids_is_that_of_what_is_known() -> None:
    coordinator = Coordinator()
    opened = coordinator.open("a", ORDERS, PARCELS)
    assert (coordinator.transactions.ids_bytes, coordinator.transactions.partitions_bytes) == (641, 300)
    coordinator.end(opened.producer, transactional_id="a")
    coordinator.write_markers()
    assert (coordinator.transactions.ids_bytes, coordinator.transactions.partitions_bytes) == (0, 0)
