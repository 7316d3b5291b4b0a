"""The shard as a whole: loads, time-outs and expiry."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kraft.coordinator.shard import DecisionContext
from kraft.coordinator.shard_machine import ShardFacts, ShardMachine
from kraft.coordinator.transactions.commands import TransactionCommand
from kraft.coordinator.transactions.record_codec import encode
from kraft.coordinator.transactions.records import TransactionRecord
from kraft.coordinator.transactions.replicated import NO_TRANSACTIONS, Transactions, record_of, replay
from kraft.coordinator.transactions.settings import TransactionSettings
from kraft.coordinator.transactions.shard import TransactionShard
from kraft.coordinator.transactions.timers import TransactionalIdExpiryTimer, TransactionTimer
from kraft.coordinator.transactions.transaction import TransactionState, new_transaction
from kraft.coordinator.transactions.volatile import TransactionsVolatile
from kraft.metadata.image import EMPTY_IMAGE
from kraft.model.errors import ErrorCode
from kraft.model.ids import ProducerId
from tests.unit.coordinator.transactions.coordinator import ID, ORDERS, TIMEOUT_MS, Coordinator, identity

DAY_MS = 86_400_000
MINUTE_MS = 60_000
EXPIRING = TransactionSettings(id_expiration_ms=DAY_MS, expiry_interval_ms=MINUTE_MS)


# --- time-outs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transaction_version", [0, 2])
def test_a_transaction_that_takes_too_long_is_aborted(transaction_version: int) -> None:
    coordinator = Coordinator(transaction_version=transaction_version)
    producer = coordinator.producer()
    coordinator.add(producer, client_version=transaction_version)
    coordinator.advance(TIMEOUT_MS - 1)
    assert coordinator.transaction().state is TransactionState.ONGOING
    coordinator.advance(1)
    (markers,) = coordinator.pending()
    assert (markers.commit, markers.producer) == (False, identity(producer.producer_id, 1))
    coordinator.write_markers()
    assert coordinator.add(producer) is ErrorCode.PRODUCER_FENCED
    assert coordinator.end(producer) in (ErrorCode.PRODUCER_FENCED, ErrorCode.TRANSACTION_ABORTABLE)


def test_the_time_of_a_transaction_does_not_end_the_next_one() -> None:
    coordinator = Coordinator()
    producer = coordinator.producer()
    coordinator.advance(TIMEOUT_MS // 2)
    producer = coordinator.commit(producer)
    coordinator.advance(TIMEOUT_MS // 2)
    coordinator.add(producer)
    coordinator.advance(TIMEOUT_MS - 1)
    assert coordinator.transaction().state is TransactionState.ONGOING


def test_a_new_coordinator_goes_on_with_the_time_of_a_transaction() -> None:
    coordinator = Coordinator()
    coordinator.add(coordinator.producer())
    coordinator.advance(TIMEOUT_MS - 10)
    coordinator.load()
    coordinator.advance(10)
    assert coordinator.transaction().state is TransactionState.PREPARE_ABORT


def test_a_clock_that_goes_back_does_not_prolong_a_transaction_by_more_than_its_time() -> None:
    coordinator = Coordinator()
    coordinator.add(coordinator.producer())
    coordinator.now_ms -= DAY_MS
    coordinator.load()
    coordinator.advance(TIMEOUT_MS)
    assert coordinator.transaction().state is TransactionState.PREPARE_ABORT


def test_records_of_an_id_have_growing_times_also_if_the_clock_goes_back() -> None:
    coordinator = Coordinator()
    times = []
    producer = coordinator.producer()
    for _ in range(3):
        coordinator.now_ms -= 1_000
        producer = coordinator.commit(producer)
        times.append(coordinator.transaction().updated_ms)
    assert times == sorted(set(times))


# --- loads -----------------------------------------------------------------------------------------------------------


def test_a_decision_without_partitions_is_completed_by_the_load() -> None:
    """Kafka writes the two records of such an end one after the other."""
    producer = identity(1, 0)
    transaction = new_transaction(producer.producer_id, TIMEOUT_MS, now_ms=1)
    prepared = transaction.prepared(commit=False, producer=producer.bumped(), client_version=2, now_ms=2)
    coordinator = Coordinator()
    key, value = encode(record_of(ID, prepared, transaction_version=2))
    coordinator.log = [(key, value)]
    coordinator.load()
    assert coordinator.states() == ["PrepareAbort", "CompleteAbort"]


def test_the_last_record_of_each_id_is_enough() -> None:
    coordinator = Coordinator()
    producers = {name: coordinator.producer(name) for name in ("a", "b", "c")}
    for name, producer in producers.items():
        coordinator.add(producer, transactional_id=name)
    coordinator.end(producers["c"], transactional_id="c")
    before = coordinator.transactions
    last = dict(coordinator.log)
    coordinator.log = list(last.items())
    coordinator.load()
    assert coordinator.transactions == before
    assert coordinator.transactions.prepared.keys() == {"c"}


# --- expiry ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT])
def test_the_next_transaction_has_none_of_the_partitions_that_a_complete_one_may_record(
    state: TransactionState,
) -> None:
    """Our records of complete transactions have no partitions; those of another coordinator may."""
    complete = replace(new_transaction(ProducerId(7), TIMEOUT_MS, 1), state=state, partitions=frozenset({ORDERS}))
    replayed = replay(NO_TRANSACTIONS, record_of(ID, complete, transaction_version=2))
    assert not replayed.by_id[ID].partitions


def test_an_id_that_no_producer_uses_expires() -> None:
    coordinator = Coordinator(EXPIRING)
    coordinator.commit(coordinator.producer())
    coordinator.advance(DAY_MS - MINUTE_MS)
    assert ID in coordinator.transactions.by_id
    coordinator.advance(2 * MINUTE_MS)
    assert coordinator.transactions == NO_TRANSACTIONS
    assert coordinator.volatile == TransactionsVolatile()
    assert coordinator.states()[-1] == "Dead"


def test_an_id_with_a_transaction_does_not_expire() -> None:
    coordinator = Coordinator(TransactionSettings(id_expiration_ms=10, expiry_interval_ms=10))
    coordinator.add(coordinator.producer())
    coordinator.advance(1_000)
    assert coordinator.transaction().state is TransactionState.ONGOING
    coordinator.advance(TIMEOUT_MS)
    assert coordinator.transaction().state is TransactionState.PREPARE_ABORT
    coordinator.advance(1_000)
    coordinator.write_markers()
    coordinator.advance(1_000)
    assert coordinator.transactions == NO_TRANSACTIONS


def test_a_pass_takes_some_ids_at_a_time_and_writes_batches_that_fit() -> None:
    size_max = 10_000
    coordinator = Coordinator(
        TransactionSettings(id_expiration_ms=10, expiry_interval_ms=1_000, batch_bytes_max=lambda: size_max)
    )
    names = [f"{number:0200}" for number in range(100)]
    for name in names:
        coordinator.producer(name)
    coordinator.now_ms += 1_000
    coordinator.producer("used")
    sizes = []
    while names[0] in coordinator.transactions.by_id or coordinator.volatile.expiry is not None:
        context = DecisionContext(now_ms=coordinator.now_ms, image=coordinator.image, random_id="")
        decision = coordinator.shard.timer_ended(
            coordinator.transactions, coordinator.volatile, TransactionalIdExpiryTimer(), context
        )
        assert sum(len(encode(each)[0]) + 32 for each in decision.records) < size_max
        sizes.append(len(decision.records))
        coordinator._apply(decision)
        assert len(sizes) <= len(names), "the pass does not end"
    assert len(sizes) > 1
    assert sum(sizes) == len(names)
    assert coordinator.transactions.by_id.keys() == {"used"}


# --- on its host -----------------------------------------------------------------------------------------------------


def hosted(
    replicated: Transactions = NO_TRANSACTIONS,
) -> ShardMachine[Transactions, TransactionsVolatile, TransactionCommand, TransactionRecord]:
    shard = TransactionShard(TransactionSettings())
    context = DecisionContext(now_ms=5, image=EMPTY_IMAGE, random_id="id")
    facts = ShardFacts(
        context=lambda: context,
        batch_bytes_max=lambda: 1_000_000,
        append_refusal=lambda: None,
        producer_refusal=lambda *_: None,
    )
    host: ShardMachine[Transactions, TransactionsVolatile, TransactionCommand, TransactionRecord] = ShardMachine(
        shard, encode, facts, replicated
    )
    host.loaded(shard.loaded(replicated, context))
    return host


def test_the_timers_of_all_open_transactions_are_set_by_the_load() -> None:
    transactions = NO_TRANSACTIONS
    for name in ("a", "b"):
        opened = new_transaction(ProducerId(1), TIMEOUT_MS, 0).with_partitions(frozenset({ORDERS}), 2, 1)
        transactions = replay(transactions, record_of(name, opened, transaction_version=2))
    host = hosted(transactions)
    number = host._timers[TransactionTimer("a")]
    assert TransactionTimer("b") in host._timers
    host.timer_ended(TransactionTimer("a"), number)
    assert host.latest.by_id["a"].state is TransactionState.PREPARE_ABORT
    assert host.committed.by_id["a"].state is TransactionState.ONGOING
    assert TransactionTimer("a") not in host._timers
