"""Queries about transactions, as a broker of the fake cluster answers them. A test sets transactions and producers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kraft.coordinator.transactions.transaction import TransactionState
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.model.transactions import AbortTransactionRequest, AbortTransactionResponse
from kraft.wire.schema import describe_transactions as describing
from kraft.wire.schema import list_transactions as listing
from kraft.wire.schema.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from tests.support.client.scripted_groups import scripted_coordinator

if TYPE_CHECKING:
    from tests.support.client.fake_cluster import FakeCluster

_STATES: Final = {state.kafka_name for state in TransactionState}


@dataclass
class ScriptedTransaction:
    producer_id: int
    state: str = "Ongoing"
    producer_epoch: int = 0
    start_ms: int = -1
    partitions: list[TopicPartition] = field(default_factory=list)


class ScriptedTransactions:
    def __init__(self, cluster: FakeCluster, broker_id: int) -> None:
        self._cluster = cluster
        self._broker_id = broker_id

    def list_transactions(self, request: listing.ListTransactionsRequest) -> listing.ListTransactionsResponse:
        listed = tuple(
            listing.TransactionState(
                transactional_id=transactional_id, producer_id=each.producer_id, transaction_state=each.state
            )
            for transactional_id, each in self._cluster.scripted_transactions.items()
            if self._coordinates(transactional_id)
            and (not request.state_filters or each.state in request.state_filters)
            and (not request.producer_id_filters or each.producer_id in request.producer_id_filters)
            and (request.duration_filter < 0 or 0 <= each.start_ms < request.duration_filter)
            and re.fullmatch(request.transactional_id_pattern or ".*", transactional_id)
        )
        unknown = tuple(sorted(set(request.state_filters) - _STATES))
        return listing.ListTransactionsResponse(error_code=0, unknown_state_filters=unknown, transaction_states=listed)

    def describe_transactions(
        self, request: describing.DescribeTransactionsRequest
    ) -> describing.DescribeTransactionsResponse:
        states = tuple(map(self._described, request.transactional_ids))
        return describing.DescribeTransactionsResponse(transaction_states=states)

    def _described(self, transactional_id: str) -> describing.TransactionState:
        code = ErrorCode.NONE if self._coordinates(transactional_id) else ErrorCode.NOT_COORDINATOR
        found = self._cluster.scripted_transactions.get(transactional_id)
        if found is None and code is ErrorCode.NONE:
            code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        if found is None or code is not ErrorCode.NONE:
            found = ScriptedTransaction(producer_id=0, state="", start_ms=0)
        return describing.TransactionState(
            error_code=code,
            transactional_id=transactional_id,
            transaction_state=found.state,
            transaction_timeout_ms=60_000,
            transaction_start_time_ms=found.start_ms,
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
            topics=tuple(
                describing.TopicData(topic=each.topic, partitions=(each.partition,)) for each in found.partitions
            ),
        )

    def describe_producers(self, request: DescribeProducersRequest) -> DescribeProducersResponse:
        topics = (
            TopicResponse(
                name=topic.name, partitions=tuple(self._producers(topic.name, each) for each in topic.partition_indexes)
            )
            for topic in request.topics
        )
        return DescribeProducersResponse(topics=tuple(topics))

    def _producers(self, topic: str, number: int) -> PartitionResponse:
        # Brokers with an even id have no replicas that do not lead.
        if self._cluster.partition(topic, number).leader_id != self._broker_id and self._broker_id % 2 == 0:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            return PartitionResponse(partition_index=number, error_code=code, active_producers=())
        producers = self._cluster.scripted_producers.get(TopicPartition(topic, number), ())
        return PartitionResponse(partition_index=number, error_code=0, active_producers=tuple(producers))

    def abort_transaction(self, request: AbortTransactionRequest) -> AbortTransactionResponse:
        if self._cluster.partition(request.topic, request.partition).leader_id != self._broker_id:
            raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {self._broker_id} is not the leader")
        producers = self._cluster.scripted_producers[TopicPartition(request.topic, request.partition)]
        for place, each in enumerate(producers):
            if each.producer_id == request.producer_id:
                if request.producer_epoch < each.producer_epoch:
                    raise Refusal(ErrorCode.INVALID_PRODUCER_EPOCH, "the epoch is not the producer's")
                producers[place] = ProducerState(
                    producer_id=each.producer_id,
                    producer_epoch=request.producer_epoch,
                    last_sequence=-1,
                    last_timestamp=each.last_timestamp,
                    coordinator_epoch=request.coordinator_epoch,
                )
        return AbortTransactionResponse()

    def _coordinates(self, transactional_id: str) -> bool:
        return scripted_coordinator(self._cluster, transactional_id) == self._broker_id
