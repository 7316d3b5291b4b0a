"""AddPartitionsToTxn: add partitions to a producer's transaction.

Versions 4 and up are for brokers (KIP-890), which use gRPC here: they are refused to every caller of this listener.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from kraft.coordinator.transactions.commands import AddPartitions
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.server.kafka_listener.apis.transaction_producers import code_for, producer_of
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)

_BROKERS_FROM: Final = 4
_PRODUCER_FENCED_FROM: Final = 2


class AddPartitionsToTxnApi:
    def __init__(self, add: Callable[[AddPartitions], Awaitable[Mapping[TopicPartition, ErrorCode]]]) -> None:
        self._add = add

    async def __call__(self, request: AddPartitionsToTxnRequest, call: RequestContext) -> AddPartitionsToTxnResponse:
        if call.version >= _BROKERS_FROM:
            return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        topics = request.v3_and_below_topics
        command = AddPartitions(
            transactional_id=request.v3_and_below_transactional_id,
            producer=producer_of(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch),
            partitions=frozenset(_partitions(topics)),
            client_version=0,
        )
        try:
            codes = await self._add(command)
        except Refusal as refusal:
            codes = dict.fromkeys(command.partitions, code_for(refusal, call.version >= _PRODUCER_FENCED_FROM))
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(topics, codes))


def _partitions(topics: Sequence[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in topics for number in topic.partitions]


def _results(
    topics: Sequence[AddPartitionsToTxnTopic], codes: Mapping[TopicPartition, ErrorCode]
) -> tuple[AddPartitionsToTxnTopicResult, ...]:
    return tuple(
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=tuple(
                AddPartitionsToTxnPartitionResult(
                    partition_index=number, partition_error_code=codes[TopicPartition(topic.name, number)]
                )
                for number in topic.partitions
            ),
        )
        for topic in topics
    )
