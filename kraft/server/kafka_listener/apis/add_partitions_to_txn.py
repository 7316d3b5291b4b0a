"""AddPartitionsToTxn: add partitions to transactions, or verify them; many transactions since version 4 (KIP-890)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from kraft.coordinator.transactions.commands import AddPartitions
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.model.partitions import PartitionName
from kraft.model.transaction_partitions import (
    AddPartitionsToTxnRequest as BrokersRequest,
)
from kraft.model.transaction_partitions import (
    AddPartitionsToTxnResponse as BrokersResponse,
)
from kraft.model.transaction_partitions import (
    TransactionToVerify,
    VerifiedTransaction,
)
from kraft.server.kafka_listener.apis.transaction_producers import code_for, producer_of
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

TRANSACTIONS_AT_ONCE: Final = 500
"""Transactions of a request that are converted and answered together."""

_BROKERS_FROM: Final = 4
_PRODUCER_FENCED_FROM: Final = 2


class AddPartitionsToTxnApi:
    def __init__(
        self,
        add: Callable[[AddPartitions], Awaitable[Mapping[TopicPartition, ErrorCode]]],
        verify: Callable[[BrokersRequest], Awaitable[BrokersResponse]],
    ) -> None:
        """`add` serves the versions of producers, `verify` those of brokers."""
        self._add = add
        self._verify = verify

    async def __call__(self, request: AddPartitionsToTxnRequest, call: RequestContext) -> AddPartitionsToTxnResponse:
        if call.version >= _BROKERS_FROM:
            transactions, results = iter(request.transactions), list[AddPartitionsToTxnResult]()
            while piece := tuple(islice(transactions, TRANSACTIONS_AT_ONCE)):
                results += await self._of_brokers(piece)
            return AddPartitionsToTxnResponse(results_by_transaction=tuple(results))
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

    async def _of_brokers(
        self, transactions: Sequence[AddPartitionsToTxnTransaction]
    ) -> Iterator[AddPartitionsToTxnResult]:
        asked = tuple(
            TransactionToVerify(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                verify_only=each.verify_only,
                partitions=tuple(
                    PartitionName(topic=partition.topic, partition=partition.partition)
                    for partition in _partitions(each.topics)
                ),
            )
            for each in transactions
        )
        answers = (await self._verify(BrokersRequest(transactions=asked))).transactions
        return (
            AddPartitionsToTxnResult(
                transactional_id=each.transactional_id,
                topic_results=_results(each.topics, _codes(each.topics, answer)),
            )
            for each, answer in zip(transactions, answers, strict=True)
        )


def _partitions(topics: Sequence[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in topics for number in topic.partitions]


def _codes(topics: Sequence[AddPartitionsToTxnTopic], answer: VerifiedTransaction) -> dict[TopicPartition, ErrorCode]:
    partitions = _partitions(topics)
    if answer.error_code is not ErrorCode.NONE:
        return dict.fromkeys(partitions, answer.error_code)
    return dict(zip(partitions, answer.partition_error_codes, strict=True))


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
