"""The coordinator of all transactional ids of the fake cluster: the broker's own shard, on one broker.

Records are committed at once. Markers are written at once too, unless they are held back.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from kraft.coordinator.shard import DecisionContext, Ticket, TimerKey
from kraft.coordinator.transactions.commands import (
    AddPartitions,
    EndTransaction,
    ProducerIdNeeded,
    TransactionCommand,
)
from kraft.coordinator.transactions.markers import PendingMarkers, pending_markers
from kraft.coordinator.transactions.settings import TransactionSettings
from kraft.coordinator.transactions.shard import TransactionShard
from kraft.coordinator.transactions.transaction import ProducerIdAndEpoch
from kraft.coordinator.transactions.volatile import TransactionsDecision, TransactionsVolatile
from kraft.metadata.features import TRANSACTION_VERSION
from kraft.metadata.topic_names import OFFSETS_TOPIC
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import ProducerId, TopicPartition
from kraft.model.transactions import (
    CommitTransactionsRequest,
    CommitTransactionsResponse,
)
from kraft.server.handlers.committed_offsets import transactional_commit_refused
from kraft.server.handlers.producer_ids import init_command
from kraft.server.handlers.transactions import commit_command
from kraft.wire.schema.end_txn import EndTxnRequest, EndTxnResponse
from kraft.wire.schema.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kraft.wire.schema.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kraft.wire.schema.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from tests.support.client.coordinators import found
from tests.support.client.fake_timers import FakeTimers

if TYPE_CHECKING:
    from tests.support.client.fake_cluster import FakeCluster

CLIENT_VERSION = 2

GROUP_PARTITION = TopicPartition(OFFSETS_TOPIC, 0)
"""Where all groups have their offsets."""


class FakeTransactions:
    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self._shard = TransactionShard(TransactionSettings())
        self.coordinator_id = 1
        self.transactions = self._shard.empty()
        self.volatile = TransactionsVolatile()
        self.requests: list[InitProducerIdRequest | EndTxnRequest] = []
        self.holds_markers = False
        self.refusals: list[Refusal] = []
        """What the next requests of producers are answered with."""
        self.offset_requests: list[TxnOffsetCommitRequest] = []
        self.offset_errors: list[ErrorCode] = []
        """What each offset of the next requests is answered with."""
        self.offsets: dict[tuple[str, TopicPartition], int] = {}
        """Committed offsets by group and partition."""
        self._pending_offsets: dict[str, dict[tuple[str, TopicPartition], int]] = {}
        """Those of each transactional id whose transaction has not ended."""
        self._timers = FakeTimers(self._timer_ended)
        self._replies: dict[Ticket, object] = {}
        self._numbers = count(1)
        self._apply(self._shard.loaded(self.transactions, self._context()))

    def close(self) -> None:
        self._timers.clear()

    def identity_of(self, transactional_id: str) -> tuple[int, int]:
        producer = self.transactions.by_id[transactional_id].producer
        return producer.producer_id, producer.epoch

    def forget(self, transactional_id: str) -> None:
        """Delete the id, as after transactional.id.expiration.ms."""
        by_id = self.transactions.by_id.with_changes({transactional_id: None})
        self.transactions = replace(self.transactions, by_id=by_id)

    def write_markers(self) -> None:
        """Write the markers that were held back, and no longer hold them back."""
        self.holds_markers = False
        self._write_markers()

    # --- requests ---------------------------------------------------------------------------------------------

    def find_coordinator(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        broker = self._cluster.brokers[self.coordinator_id]
        host = broker.address.split(":")[0]
        coordinators = (found(key, broker.broker_id, host) for key in request.coordinator_keys)
        return FindCoordinatorResponse(coordinators=tuple(coordinators))

    def init_producer_id(
        self, broker_id: int, request: InitProducerIdRequest, *, is_temporary: bool
    ) -> InitProducerIdResponse:
        self.requests.append(request)
        assert request.transactional_id is not None
        producer = self._answer(broker_id, init_command(request, request.transactional_id, is_temporary=is_temporary))
        return InitProducerIdResponse(
            error_code=ErrorCode.NONE, producer_id=producer.producer_id, producer_epoch=producer.epoch
        )

    def end_txn(self, broker_id: int, request: EndTxnRequest) -> EndTxnResponse:
        self.requests.append(request)
        command = EndTransaction(
            transactional_id=request.transactional_id,
            producer=ProducerIdAndEpoch.of(request.producer_id, request.producer_epoch),
            commit=request.committed,
            client_version=CLIENT_VERSION,
        )
        producer = self._answer(broker_id, command)
        return EndTxnResponse(error_code=0, producer_id=producer.producer_id, producer_epoch=producer.epoch)

    def commit_transactions(self, broker_id: int, request: CommitTransactionsRequest) -> CommitTransactionsResponse:
        response: CommitTransactionsResponse = self._answer(broker_id, commit_command(request))
        return response

    def add(self, transactional_id: str, producer_id: int, epoch: int, partition: TopicPartition) -> ErrorCode:
        """Add a partition for a broker that a record was sent to."""
        command = AddPartitions(
            transactional_id=transactional_id,
            producer=ProducerIdAndEpoch.of(producer_id, epoch),
            partitions=frozenset({partition}),
            client_version=CLIENT_VERSION,
        )
        response = self._decide(command)
        if not isinstance(response, Refusal):
            return ErrorCode.NONE
        # As brokers do, so that only the coordinator's answers to the producer itself fence it.
        is_fenced = response.error_code is ErrorCode.PRODUCER_FENCED
        return ErrorCode.INVALID_PRODUCER_EPOCH if is_fenced else response.error_code

    def txn_offset_commit(self, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
        self.offset_requests.append(request)
        code = self.offset_errors.pop(0) if self.offset_errors else ErrorCode.NONE
        if code is ErrorCode.NONE:
            code = self.add(request.transactional_id, request.producer_id, request.producer_epoch, GROUP_PARTITION)
        pending = self._pending_offsets.setdefault(request.transactional_id, {})
        for topic in request.topics:
            for each in topic.partitions:
                if code is ErrorCode.NONE:
                    pending[request.group_id, TopicPartition(topic.name, each.partition_index)] = each.committed_offset
        return transactional_commit_refused(request, Refusal(code, ""))

    def _answer(self, broker_id: int, command: TransactionCommand) -> Any:
        if broker_id != self.coordinator_id:
            raise Refusal(ErrorCode.NOT_COORDINATOR, f"broker {broker_id} does not coordinate the id")
        if self.refusals:
            raise self.refusals.pop(0)
        response = self._decide(command)
        if isinstance(response, ProducerIdNeeded):
            self._cluster.producer_ids += 1
            response = self._decide(replace(command, new_producer_id=ProducerId(self._cluster.producer_ids)))
        if isinstance(response, Refusal):
            raise response
        assert isinstance(response, ProducerIdAndEpoch | CommitTransactionsResponse)
        return response

    # --- the host ---------------------------------------------------------------------------------------------

    def _decide(self, command: TransactionCommand) -> object:
        ticket = Ticket(next(self._numbers))
        self._apply(self._shard.decide(self.transactions, self.volatile, ticket, command, self._context()))
        return self._replies.pop(ticket)

    def _context(self) -> DecisionContext:
        now_ms = round(asyncio.get_running_loop().time() * 1000)
        image = replace(self._cluster.image, features={TRANSACTION_VERSION: CLIENT_VERSION})
        return DecisionContext(now_ms=now_ms, image=image, random_id="id")

    def _apply(self, decision: TransactionsDecision) -> None:
        for record in decision.records:
            self.transactions = self._shard.replay(self.transactions, record)
        self.volatile = decision.volatile
        self._timers.set(decision.timers)
        self._replies.update({reply.ticket: reply.response for reply in decision.replies})
        if not self.holds_markers:
            self._write_markers()

    def _timer_ended(self, key: TimerKey) -> None:
        self._apply(self._shard.timer_ended(self.transactions, self.volatile, key, self._context()))

    def _write_markers(self) -> None:
        for pending in list(pending_markers(self.transactions, self.transactions, self.volatile)):
            self._write(pending)

    def _write(self, pending: PendingMarkers) -> None:
        offsets = self._pending_offsets.pop(pending.transactional_id, {})
        if pending.commit:
            self.offsets.update(offsets)
        for partition in pending.partitions - {GROUP_PARTITION}:
            log = self._cluster.partition(partition.topic, partition.partition)
            log.append_marker(pending.producer.producer_id, pending.producer.epoch, commit=pending.commit)
        self._cluster.news()
        self._decide(pending.written(pending.partitions))
