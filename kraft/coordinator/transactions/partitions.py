"""Adds partitions to transactions, and tells brokers whether a partition is in one (KIP-890)."""

from __future__ import annotations

from typing import Final

from kraft.coordinator.group_partition import partition_of
from kraft.coordinator.shard import Ticket
from kraft.coordinator.shard_batches import TooLarge
from kraft.coordinator.transactions.commands import AddOffsets, AddPartitions, VerifiedPartitions, VerifyPartitions
from kraft.coordinator.transactions.refusals import producer_fenced, transaction_being_completed, unknown_producer
from kraft.coordinator.transactions.state import TransactionsState, with_reply
from kraft.coordinator.transactions.transaction import (
    EPOCH_BUMP,
    EPOCH_MAX,
    ProducerIdAndEpoch,
    Transaction,
    TransactionState,
)
from kraft.coordinator.transactions.volatile import TransactionsDecision
from kraft.metadata.topic_names import OFFSETS_TOPIC
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition

_BATCH_BYTES: Final = 128
_RECORD_BYTES: Final = 128
_TOPIC_BYTES: Final = 10
_PARTITION_BYTES: Final = 4
"""More than a batch takes: by itself, for each record beside its texts, for each topic, for each partition."""


def add_partitions(state: TransactionsState, ticket: Ticket, command: AddPartitions) -> TransactionsDecision:
    """Decide an addition. A retry of one that was answered changes nothing.

    The end of a transaction is recorded with its partitions, so a transaction that could not be ended is not begun.
    """
    transactional_id = command.transactional_id
    transaction = _transaction_of(state, transactional_id, command.producer, prepared_first=True)
    if isinstance(transaction, Refusal):
        return state.replied(ticket, transaction)
    if transaction.state is TransactionState.ONGOING and command.partitions <= transaction.partitions:
        return state.replied(ticket, None)
    after = transaction.with_partitions(command.partitions, command.client_version, state.now_ms)
    size, size_max = batch_bytes(transactional_id, after.partitions), state.settings.batch_bytes_max()
    if size > size_max:
        return state.replied(ticket, TooLarge(size, size_max))
    if (refusal := state.no_room_for_partitions(transactional_id, after)) is not None:
        return _no_room(state, ticket, command, transaction, refusal)
    return with_reply(state.decided(transactional_id, after), ticket, None)


def _no_room(
    state: TransactionsState, ticket: Ticket, command: AddPartitions, transaction: Transaction, refusal: Refusal
) -> TransactionsDecision:
    """Refuse partitions. A client before KIP-890 may end only a transaction that has begun, and librdkafka asks for the
    abort of one that was refused; so it begins, with one of the partitions."""
    if transaction.state is TransactionState.ONGOING or command.client_version >= EPOCH_BUMP:
        return state.replied(ticket, refusal)
    begun = transaction.with_partitions(frozenset({min(command.partitions)}), command.client_version, state.now_ms)
    return with_reply(state.decided(command.transactional_id, begun), ticket, refusal)


def add_offsets(state: TransactionsState, ticket: Ticket, command: AddOffsets) -> TransactionsDecision:
    offsets_topic = state.context.image.topic(OFFSETS_TOPIC)
    if offsets_topic is None or not offsets_topic.partitions:
        refusal = Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{OFFSETS_TOPIC} does not exist yet; retry")
        return state.replied(ticket, refusal)
    partition = partition_of(command.group_id, len(offsets_topic.partitions))
    added = AddPartitions(
        transactional_id=command.transactional_id,
        producer=command.producer,
        partitions=frozenset({TopicPartition(OFFSETS_TOPIC, partition)}),
        client_version=0,  # Clients of later versions do not send this request.
    )
    return add_partitions(state, ticket, added)


def verify_partitions(state: TransactionsState, ticket: Ticket, command: VerifyPartitions) -> TransactionsDecision:
    transaction = _transaction_of(state, command.transactional_id, command.producer, prepared_first=False)
    if isinstance(transaction, Refusal):
        return state.replied(ticket, transaction)
    errors = {
        partition: ErrorCode.NONE if partition in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for partition in command.partitions
    }
    return state.replied(ticket, VerifiedPartitions(errors))


def batch_bytes(transactional_id: str, partitions: frozenset[TopicPartition]) -> int:
    """Return the size of a batch with any record of a transaction with these partitions, at most."""
    return _BATCH_BYTES + record_bytes(transactional_id, partitions)


def record_bytes(transactional_id: str, partitions: frozenset[TopicPartition]) -> int:
    """Return the size of any record of a transaction with these partitions, at most."""
    topics = {each.topic for each in partitions}
    texts = len(transactional_id.encode()) + sum(_TOPIC_BYTES + len(topic.encode()) for topic in topics)
    return _RECORD_BYTES + texts + _PARTITION_BYTES * len(partitions)


def _transaction_of(
    state: TransactionsState, transactional_id: str, producer: ProducerIdAndEpoch, *, prepared_first: bool
) -> Transaction | Refusal:
    """Return the producer's transaction if it has not been decided, or the refusal of the request.

    While a transaction is being completed its producer may already have the identity for the next one.
    """
    transaction = state.transaction(transactional_id)
    if transaction is None:
        return unknown_producer(transactional_id, producer)
    if prepared_first and transaction.state.is_prepared:
        return transaction_being_completed(transactional_id)
    if transaction.producer.producer_id != producer.producer_id:
        return unknown_producer(transactional_id, producer)
    if transaction.producer != producer or producer.epoch == EPOCH_MAX:
        return producer_fenced(transactional_id, producer)
    return transaction_being_completed(transactional_id) if transaction.state.is_prepared else transaction
