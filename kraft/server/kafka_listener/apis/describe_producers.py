"""DescribeProducers: list the producers of partitions (KIP-664)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kraft.model import describe_producers as values
from kraft.model.partitions import PartitionName
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

Handle = Callable[[values.DescribeProducersRequest], Awaitable[values.DescribeProducersResponse]]


class DescribeProducersApi:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def __call__(self, request: DescribeProducersRequest, call: RequestContext) -> DescribeProducersResponse:
        answer = await self._handle(
            values.DescribeProducersRequest(
                partitions=tuple(
                    PartitionName(topic=topic.name, partition=partition)
                    for topic in request.topics
                    for partition in topic.partition_indexes
                )
            )
        )
        results = iter(answer.partitions)
        return DescribeProducersResponse(
            topics=tuple(
                TopicResponse(
                    name=topic.name, partitions=tuple(_partition(next(results)) for _ in topic.partition_indexes)
                )
                for topic in request.topics
            )
        )


def _partition(result: values.PartitionProducers) -> PartitionResponse:
    return PartitionResponse(
        partition_index=result.partition,
        error_code=result.error_code,
        error_message=result.error_message or None,
        active_producers=tuple(
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp_ms,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.transaction_start_offset,
            )
            for producer in result.producers
        ),
    )
