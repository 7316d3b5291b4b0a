"""DescribeProducers: list the producers of partitions (KIP-664)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import islice

from kraft.model import describe_producers as values
from kraft.model.partitions import PartitionName
from kraft.server.handlers.describe_producers import PRODUCERS_AT_ONCE
from kraft.server.kafka_listener.encoded_responses import encoded
from kraft.server.kafka_listener.requests import EncodedMessage, RequestContext
from kraft.server.loop.turns import Turns
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

    async def __call__(self, request: DescribeProducersRequest, call: RequestContext) -> EncodedMessage:
        answer = await self._handle(
            values.DescribeProducersRequest(
                partitions=tuple(
                    PartitionName(topic=topic.name, partition=partition)
                    for topic in request.topics
                    for partition in topic.partition_indexes
                )
            )
        )
        turns, made = Turns(PRODUCERS_AT_ONCE), dict[PartitionName, PartitionResponse]()
        results, topics, elements = iter(answer.partitions), [], 0
        for topic in request.topics:
            partitions = []
            for result in islice(results, len(topic.partition_indexes)):
                name = PartitionName(topic=result.topic, partition=result.partition)
                if name not in made:
                    made[name] = _partition(result)
                    await turns.done(len(result.producers))
                partitions.append(made[name])
                elements += 1 + len(result.producers)
                await turns.done()
            topics.append(TopicResponse(name=topic.name, partitions=tuple(partitions)))
        return await encoded(DescribeProducersResponse(topics=tuple(topics)), call.version, elements)


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
