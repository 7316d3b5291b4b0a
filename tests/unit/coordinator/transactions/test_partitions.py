"""Partitions are added to a transaction, and brokers verify that they are in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.coordinator.group_partition import partition_of
from kraft.coordinator.transactions.commands import AddOffsets, AddPartitions, VerifiedPartitions, VerifyPartitions
from kraft.coordinator.transactions.partitions import batch_bytes
from kraft.coordinator.transactions.record_codec import encode
from kraft.coordinator.transactions.replicated import record_of
from kraft.coordinator.transactions.settings import TransactionSettings
from kraft.coordinator.transactions.timers import TransactionTimer
from kraft.coordinator.transactions.transaction import ProducerIdAndEpoch, Transaction, TransactionState
from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.metadata.image import EMPTY_IMAGE
from kraft.metadata.topic_names import OFFSETS_TOPIC
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import ProducerId, TopicPartition
from tests.unit.coordinator.transactions.coordinator import (
    ID,
    ORDERS,
    PARCELS,
    TIMEOUT_MS,
    Coordinator,
    code,
    identity,
)


def verified(coordinator: Coordinator, producer: ProducerIdAndEpoch, *partitions: TopicPartition) -> object:
    command = VerifyPartitions(transactional_id=ID, producer=producer, partitions=frozenset(partitions))
    response = coordinator.request(command)
    return response.error_code if isinstance(response, Refusal) else response


# --- additions -------------------------------------------------------------------------------------------------------


def test_the_first_partition_begins_a_transaction() -> None:
    coordinator = Coordinator()
    producer = coordinator.producer()
    coordinator.advance(70)
    assert coordinator.add(producer, ORDERS) is ErrorCode.NONE
    transaction = coordinator.transaction()
    assert (transaction.state, transaction.partitions) == (TransactionState.ONGOING, frozenset({ORDERS}))
    assert transaction.start_ms == coordinator.now_ms
    assert coordinator.timers[TransactionTimer(ID)] == coordinator.now_ms + TIMEOUT_MS


def test_later_partitions_join_it_and_do_not_prolong_it() -> None:
    coordinator = Coordinator()
    producer = coordinator.producer()
    coordinator.add(producer, ORDERS)
    began_ms = coordinator.now_ms
    coordinator.advance(10)
    assert coordinator.add(producer, PARCELS) is ErrorCode.NONE
    assert coordinator.transaction().partitions == {ORDERS, PARCELS}
    assert coordinator.transaction().start_ms == began_ms
    assert coordinator.timers[TransactionTimer(ID)] == began_ms + TIMEOUT_MS


def test_a_repeated_addition_writes_nothing() -> None:
    coordinator = Coordinator()
    producer = coordinator.producer()
    coordinator.add(producer, ORDERS, PARCELS)
    records = len(coordinator.log)
    assert coordinator.add(producer, ORDERS) is ErrorCode.NONE
    assert len(coordinator.log) == records


@pytest.mark.parametrize("client_version", [0, 2])
def test_the_next_transaction_begins_without_the_partitions_of_the_last(client_version: int) -> None:
    coordinator = Coordinator()
    producer = coordinator.commit(coordinator.producer(), client_version=client_version)
    assert coordinator.add(producer, PARCELS, client_version=client_version) is ErrorCode.NONE
    assert coordinator.transaction().partitions == {PARCELS}
    assert coordinator.transaction().client_version == client_version


def test_an_unknown_transactional_id_is_refused() -> None:
    assert Coordinator().add(identity(1, 0)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_an_empty_transactional_id_is_refused() -> None:
    assert Coordinator().add(identity(1, 0), transactional_id="") is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("is_open", [False, True])
def test_another_producer_is_refused_and_changes_nothing(is_open: bool) -> None:
    coordinator = Coordinator()
    producer = coordinator.producer()
    if is_open:
        coordinator.add(producer, ORDERS)
    before = coordinator.transactions
    other_id = identity(producer.producer_id + 1, producer.epoch)
    assert coordinator.add(other_id, PARCELS) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    for epoch in (-1, 1, 2):
        wrong = identity(producer.producer_id, epoch)
        assert coordinator.add(wrong, PARCELS) is ErrorCode.PRODUCER_FENCED
    assert coordinator.transactions == before


@pytest.mark.parametrize("commit", [True, False])
def test_nothing_is_added_until_the_last_transaction_is_complete(commit: bool) -> None:
    coordinator = Coordinator()
    producer = coordinator.producer()
    coordinator.add(producer)
    after = coordinator.end(producer, commit=commit)
    assert isinstance(after, ProducerIdAndEpoch)
    # Also for an identity that is not recorded yet, or not any more.
    for each in (producer, after, identity(after.producer_id + 1, 0)):
        assert coordinator.add(each, PARCELS) is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    assert coordinator.add(producer, PARCELS) is ErrorCode.PRODUCER_FENCED
    assert coordinator.add(after, PARCELS) is ErrorCode.NONE


# --- limit -----------------------------------------------------------------------------------------------------------


def test_a_transaction_that_could_not_be_ended_is_not_begun() -> None:
    coordinator = Coordinator(TransactionSettings(batch_bytes_max=lambda: 1_000))
    producer = coordinator.producer()
    assert coordinator.add(producer, ORDERS) is ErrorCode.NONE
    many = [TopicPartition("orders", number) for number in range(1_000)]
    assert coordinator.add(producer, *many) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert coordinator.transaction().partitions == {ORDERS}
    assert isinstance(coordinator.end(producer), ProducerIdAndEpoch)


texts = st.text(min_size=1, max_size=60)


@given(
    transactional_id=texts,
    partitions=st.sets(st.tuples(texts, st.integers(0, 2**31 - 1)), max_size=60),
    state=st.sampled_from([TransactionState.ONGOING, TransactionState.PREPARE_COMMIT]),
    version=st.sampled_from([0, 2]),
)
def test_no_record_of_a_transaction_is_larger_than_it_is_assumed_to_be(
    transactional_id: str, partitions: set[tuple[str, int]], state: TransactionState, version: int
) -> None:
    transaction = Transaction(
        state=state,
        producer=identity(2**63 - 1, 2**15 - 1),
        previous_producer_id=ProducerId(2**63 - 1),
        next_producer_id=ProducerId(2**63 - 1),
        timeout_ms=2**31 - 1,
        partitions=frozenset(TopicPartition(*each) for each in partitions),
        start_ms=2**62,
        updated_ms=2**62,
        client_version=version,
    )
    key, value = encode(record_of(transactional_id, transaction, transaction_version=version))
    assert len(build_batch([Record(0, 2**62, key, value, ())])) <= batch_bytes(transactional_id, transaction.partitions)


# --- offsets ---------------------------------------------------------------------------------------------------------


def test_offsets_add_the_partition_of_their_group() -> None:
    coordinator = Coordinator()
    producer = coordinator.producer()
    command = AddOffsets(transactional_id=ID, producer=producer, group_id="billing")
    assert coordinator.request(command) is None
    expected = TopicPartition(OFFSETS_TOPIC, partition_of("billing", 50))
    assert coordinator.transaction().partitions == {expected}


def test_offsets_are_refused_for_a_fenced_producer() -> None:
    coordinator = Coordinator()
    old = coordinator.producer()
    coordinator.producer()
    command = AddOffsets(transactional_id=ID, producer=old, group_id="billing")
    assert code(coordinator.request(command)) is ErrorCode.PRODUCER_FENCED


def test_offsets_wait_for_their_topic() -> None:
    coordinator = Coordinator()
    coordinator.image = EMPTY_IMAGE
    command = AddOffsets(transactional_id=ID, producer=coordinator.producer(), group_id="billing")
    assert code(coordinator.request(command)) is ErrorCode.COORDINATOR_NOT_AVAILABLE


# --- verification ----------------------------------------------------------------------------------------------------


def test_a_broker_is_told_which_partitions_are_in_the_transaction() -> None:
    coordinator = Coordinator()
    producer = coordinator.producer()
    absent = VerifiedPartitions({ORDERS: ErrorCode.TRANSACTION_ABORTABLE})
    assert verified(coordinator, producer, ORDERS) == absent
    coordinator.add(producer, ORDERS)
    records = len(coordinator.log)
    assert verified(coordinator, producer, ORDERS, PARCELS) == VerifiedPartitions(
        {ORDERS: ErrorCode.NONE, PARCELS: ErrorCode.TRANSACTION_ABORTABLE}
    )
    after = coordinator.end(producer)
    assert isinstance(after, ProducerIdAndEpoch)
    assert verified(coordinator, after, ORDERS) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert verified(coordinator, producer, ORDERS) is ErrorCode.PRODUCER_FENCED
    coordinator.write_markers()
    assert verified(coordinator, after, ORDERS) == absent
    assert len(coordinator.log) == records + 2


def test_partitions_of_unknown_producers_are_not_verified() -> None:
    coordinator = Coordinator()
    assert verified(coordinator, identity(1, 0), ORDERS) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    producer = coordinator.producer()
    coordinator.add(producer)
    other = identity(producer.producer_id + 1, 0)
    assert verified(coordinator, other, ORDERS) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    newer = identity(producer.producer_id, 1)
    assert verified(coordinator, newer, ORDERS) is ErrorCode.PRODUCER_FENCED


def test_an_addition_without_partitions_of_an_open_transaction_changes_nothing() -> None:
    coordinator = Coordinator()
    producer = coordinator.producer()
    coordinator.add(producer)
    before = coordinator.transactions
    command = AddPartitions(transactional_id=ID, producer=producer, partitions=frozenset(), client_version=2)
    assert coordinator.request(command) is None
    assert coordinator.transactions == before


# --- memory ----------------------------------------------------------------------------------------------------------


def test_partitions_of_transactions_take_no_more_memory_than_the_limit() -> None:
    """Otherwise a client would fill it with few ids that have thousands of partitions each."""
    limit = 20_000
    coordinator = Coordinator(TransactionSettings(memory_bytes_max=limit))
    many = [TopicPartition("orders", number) for number in range(100)]
    producers = {f"id-{number}": coordinator.producer(f"id-{number}") for number in range(20)}
    # What a transaction has already does not count twice.
    assert coordinator.add(producers["id-0"], *many[:60], transactional_id="id-0") is ErrorCode.NONE
    codes = [coordinator.add(each, *many, transactional_id=name) for name, each in producers.items()]
    assert codes == [ErrorCode.NONE] + [ErrorCode.TRANSACTION_ABORTABLE] * 19
    assert coordinator.transactions.partitions_bytes <= limit
    coordinator.load()
    old = coordinator.add(producers["id-1"], *many, transactional_id="id-1", client_version=0)
    assert old is ErrorCode.UNKNOWN_PRODUCER_ID
    assert coordinator.transaction("id-1").partitions == {many[0]}, "its producer may end it"
    again = coordinator.add(producers["id-1"], *many[1:], transactional_id="id-1", client_version=0)
    assert (again, coordinator.transaction("id-1").partitions) == (ErrorCode.UNKNOWN_PRODUCER_ID, frozenset(many[:1]))
    assert (
        coordinator.end(producers["id-1"], transactional_id="id-1", commit=False, client_version=0) == producers["id-1"]
    )
    coordinator.write_markers()
    # An answered request is answered again, new ids are accepted, and so are small transactions.
    assert coordinator.add(producers["id-0"], *many, transactional_id="id-0") is ErrorCode.NONE
    assert isinstance(coordinator.init(transactional_id="new"), ProducerIdAndEpoch)
    for name in list(producers)[1:]:
        codes = [coordinator.add(producers[name], each, transactional_id=name) for each in many[:40]]
        assert codes[:4] == [ErrorCode.NONE] * 4
    assert codes[4:] == [ErrorCode.TRANSACTION_ABORTABLE] * 36
    # Transactions that end make room, also those that were refused.
    for name in ("id-0", "id-19"):
        assert isinstance(coordinator.end(producers[name], transactional_id=name, commit=False), ProducerIdAndEpoch)
    coordinator.write_markers()
    next_one = coordinator.init(transactional_id="id-19")
    assert isinstance(next_one, ProducerIdAndEpoch)
    assert coordinator.add(next_one, *many[:30], transactional_id="id-19") is ErrorCode.NONE


def test_many_ids_end_no_transaction_of_an_id_that_is_known() -> None:
    coordinator = Coordinator(TransactionSettings(memory_bytes_max=10_000))
    producer = coordinator.producer()
    while isinstance(known := coordinator.init(transactional_id=f"id-{len(coordinator.log)}"), ProducerIdAndEpoch):
        assert len(coordinator.log) < 100
    assert known is ErrorCode.CONCURRENT_TRANSACTIONS
    many = [TopicPartition("orders", number) for number in range(50)]
    assert coordinator.add(producer, *many) is ErrorCode.NONE
