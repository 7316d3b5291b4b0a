"""A host of one transaction shard on virtual time. Every record goes through the codec and is committed at once."""

from __future__ import annotations

from functools import reduce
from itertools import count
from typing import TypeVar

from msgspec.structs import replace

from kraft.coordinator.shard import DecisionContext, Ticket, TimerKey
from kraft.coordinator.transactions.commands import (
    AddPartitions,
    CommitTransactions,
    EndTransaction,
    InitProducerId,
    ProducerIdNeeded,
    TransactionCommand,
    TransactionToCommit,
)
from kraft.coordinator.transactions.markers import PendingMarkers, pending_markers
from kraft.coordinator.transactions.record_codec import decode, encode
from kraft.coordinator.transactions.records import TransactionRecord
from kraft.coordinator.transactions.replicated import NO_TRANSACTIONS, Transactions, replay
from kraft.coordinator.transactions.settings import TransactionSettings
from kraft.coordinator.transactions.shard import TransactionShard
from kraft.coordinator.transactions.transaction import EPOCH_MAX, ProducerIdAndEpoch, Transaction
from kraft.coordinator.transactions.volatile import TransactionsDecision, TransactionsVolatile
from kraft.metadata.features import TRANSACTION_VERSION
from kraft.metadata.topic_names import OFFSETS_TOPIC
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import ProducerId, TopicPartition
from kraft.model.transactions import CommitTransactionsResponse
from tests.unit.coordinator.consumer.coordinator import image_of

Response = TypeVar("Response")

ID = "payments"
TIMEOUT_MS = 60_000
FIRST_PRODUCER_ID = 1_000
EXHAUSTED = EPOCH_MAX - 1
identity = ProducerIdAndEpoch.of

ORDERS = TopicPartition("orders", 0)
PARCELS = TopicPartition("parcels", 3)


class Coordinator:
    def __init__(self, settings: TransactionSettings | None = None, transaction_version: int = 2) -> None:
        self.shard = TransactionShard(settings or TransactionSettings())
        image = image_of({"offsets": 50})
        self.image = replace(image, topic_ids={OFFSETS_TOPIC: image.topic_ids["offsets"]})
        self.set_transaction_version(transaction_version)
        self.now_ms = 1_000_000
        self.transactions = self.shard.empty()
        self.volatile = TransactionsVolatile()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.timers: dict[TimerKey, int] = {}
        """When each timer ends."""
        self.replies: dict[Ticket, object] = {}
        self._tickets = count(1)
        self._producer_ids = count(FIRST_PRODUCER_ID)
        self.load()

    def set_transaction_version(self, level: int) -> None:
        self.image = replace(self.image, features={TRANSACTION_VERSION: level})

    # --- the contract of a shard -------------------------------------------------------------------------------------

    def load(self) -> None:
        """Continue from the log, as another broker does."""
        self.transactions = replayed(self.log)
        self.timers.clear()
        self._apply(self.shard.loaded(self.transactions, self._context()))

    def request(self, command: TransactionCommand) -> object:
        """Return the response. A producer id that is needed is given."""
        response = self._request(command)
        if not isinstance(response, ProducerIdNeeded):
            return response
        assert isinstance(command, InitProducerId | EndTransaction | CommitTransactions)
        return self._request(replace(command, new_producer_id=ProducerId(next(self._producer_ids))))

    def _request(self, command: TransactionCommand) -> object:
        ticket = Ticket(next(self._tickets))
        self._apply(self.shard.decide(self.transactions, self.volatile, ticket, command, self._context()))
        return self.replies[ticket]

    def advance(self, milliseconds: int) -> None:
        until = self.now_ms + milliseconds
        while self.timers and min(self.timers.values()) <= until:
            key = min(self.timers, key=lambda each: (self.timers[each], repr(each)))
            self.now_ms = max(self.timers.pop(key), self.now_ms)
            self._apply(self.shard.timer_ended(self.transactions, self.volatile, key, self._context()))
        self.now_ms = until

    def _context(self) -> DecisionContext:
        return DecisionContext(now_ms=self.now_ms, image=self.image, random_id="id")

    def _apply(self, decision: TransactionsDecision) -> None:
        for record in decision.records:
            key, value = encode(record)
            assert decode(key, value) == record
            self.log.append((key, value))
            self.transactions = self.shard.replay(self.transactions, record)
        self.volatile = decision.volatile
        for timer, delay_ms in decision.timers.items():
            self.timers.pop(timer, None)
            if delay_ms is not None:
                self.timers[timer] = self.now_ms + delay_ms
        for reply in decision.replies:
            assert reply.ticket not in self.replies
            self.replies[reply.ticket] = reply.response
        assert replayed(self.log) == self.transactions

    # --- requests ----------------------------------------------------------------------------------------------------

    def init(
        self, expected: ProducerIdAndEpoch | None = None, *, transactional_id: str = ID, timeout_ms: int = TIMEOUT_MS
    ) -> ProducerIdAndEpoch | ErrorCode:
        command = InitProducerId(transactional_id=transactional_id, timeout_ms=timeout_ms, expected=expected)
        response = self.request(command)
        if isinstance(response, Refusal):
            return response.error_code
        assert isinstance(response, ProducerIdAndEpoch)
        return response

    def producer(self, transactional_id: str = ID, *, is_temporary: bool = False) -> ProducerIdAndEpoch:
        """Return the identity of a new producer."""
        command = InitProducerId(transactional_id=transactional_id, timeout_ms=TIMEOUT_MS, is_temporary=is_temporary)
        response = self.request(command)
        assert isinstance(response, ProducerIdAndEpoch)
        return response

    def open(
        self, transactional_id: str, *partitions: TopicPartition, is_temporary: bool = True
    ) -> TransactionToCommit:
        """Begin a transaction of a new producer."""
        producer = self.producer(transactional_id, is_temporary=is_temporary)
        assert self.add(producer, *partitions, transactional_id=transactional_id) is ErrorCode.NONE
        return TransactionToCommit(transactional_id=transactional_id, producer=producer)

    def commit_together(
        self, sequence: int, *transactions: TransactionToCommit, committer: str = ID
    ) -> CommitTransactionsResponse | ErrorCode:
        command = CommitTransactions(transactional_id=committer, sequence=sequence, transactions=transactions)
        response = self.request(command)
        if isinstance(response, Refusal):
            return response.error_code
        assert isinstance(response, CommitTransactionsResponse)
        return response

    def add(
        self,
        producer: ProducerIdAndEpoch,
        *partitions: TopicPartition,
        transactional_id: str = ID,
        client_version: int = 2,
    ) -> ErrorCode:
        command = AddPartitions(
            transactional_id=transactional_id,
            producer=producer,
            partitions=frozenset(partitions or (ORDERS,)),
            client_version=client_version,
        )
        return code(self.request(command))

    def end(
        self, producer: ProducerIdAndEpoch, *, commit: bool = True, transactional_id: str = ID, client_version: int = 2
    ) -> ProducerIdAndEpoch | ErrorCode:
        command = EndTransaction(
            transactional_id=transactional_id, producer=producer, commit=commit, client_version=client_version
        )
        response = self.request(command)
        if isinstance(response, Refusal):
            return response.error_code
        assert isinstance(response, ProducerIdAndEpoch)
        return response

    def commit(self, producer: ProducerIdAndEpoch, **options: int) -> ProducerIdAndEpoch:
        """Run a whole transaction; return the identity for the next one."""
        client_version = options.get("client_version", 2)
        assert self.add(producer, client_version=client_version) is ErrorCode.NONE
        response = self.end(producer, client_version=client_version)
        assert isinstance(response, ProducerIdAndEpoch)
        self.write_markers()
        return response

    # --- markers -----------------------------------------------------------------------------------------------------

    def pending(self) -> list[PendingMarkers]:
        return list(pending_markers(self.transactions, self.transactions, self.volatile))

    def write_markers(self) -> None:
        for markers in self.pending():
            assert self.request(markers.written(markers.partitions)) is None

    # --- state -------------------------------------------------------------------------------------------------------

    def transaction(self, transactional_id: str = ID) -> Transaction:
        return self.transactions.by_id[transactional_id]

    def states(self) -> list[str]:
        """Return the state in each record; a tombstone is Dead."""
        states = []
        for record in map(decoded, self.log):
            after = replay(NO_TRANSACTIONS, record).by_id.values()
            states.append(next((each.state.kafka_name for each in after), "Dead"))
        return states


def code(response: object) -> ErrorCode:
    if isinstance(response, Refusal):
        return response.error_code
    assert response is None, response
    return ErrorCode.NONE


def decoded(record: tuple[bytes, bytes | None]) -> TransactionRecord:
    found = decode(*record)
    assert isinstance(found, TransactionRecord)
    return found


def replayed(log: list[tuple[bytes, bytes | None]]) -> Transactions:
    return reduce(replay, map(decoded, log), NO_TRANSACTIONS)


def at_epoch(epoch: int, transaction_version: int = 2) -> tuple[Coordinator, ProducerIdAndEpoch]:
    """A coordinator with one producer, which has this epoch and no transaction."""
    coordinator = Coordinator(transaction_version=transaction_version)
    first = coordinator.producer()
    (key, value), *_ = coordinator.log
    assert value is not None
    coordinator.log = [(key, value[:10] + epoch.to_bytes(2, "big") + value[12:])]
    coordinator.load()
    producer = identity(first.producer_id, epoch)
    assert coordinator.transaction().producer == producer
    return coordinator, producer
