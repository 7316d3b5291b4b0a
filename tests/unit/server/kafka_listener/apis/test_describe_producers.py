from __future__ import annotations

import asyncio

from kraft.model.describe_producers import ActiveProducer, PartitionProducers
from kraft.model.describe_producers import DescribeProducersRequest as Asked
from kraft.model.describe_producers import DescribeProducersResponse as Answer
from kraft.model.errors import ErrorCode
from kraft.model.partitions import PartitionName
from kraft.server.kafka_listener.apis.describe_producers import DescribeProducersApi
from kraft.wire.schema.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from tests.unit.server.kafka_listener.apis.listener import answered


def test_producers_are_described_by_partition() -> None:
    async def handle(request: Asked) -> Answer:
        assert request.partitions == tuple(PartitionName(topic="orders", partition=n) for n in (0, 9))
        producer = ActiveProducer(
            producer_id=7,
            producer_epoch=2,
            last_sequence=41,
            last_timestamp_ms=1_000,
            coordinator_epoch=3,
            transaction_start_offset=17,
        )
        described = (
            PartitionProducers(topic="orders", partition=0, producers=(producer,)),
            PartitionProducers(
                topic="orders",
                partition=9,
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                error_message="topic 'orders' has no partition 9",
            ),
        )
        return Answer(partitions=described)

    request = DescribeProducersRequest(topics=(TopicRequest(name="orders", partition_indexes=(0, 9)),))
    response = asyncio.run(answered(DescribeProducersApi(handle), request, 0, DescribeProducersResponse))
    (topic,) = response.topics
    described, refused = topic.partitions
    assert (topic.name, described.partition_index, described.error_code, described.error_message) == (
        "orders",
        0,
        0,
        None,
    )
    (producer,) = described.active_producers
    assert (producer.producer_id, producer.producer_epoch) == (7, 2)
    assert (producer.last_sequence, producer.last_timestamp) == (41, 1_000)
    assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (3, 17)
    assert (refused.partition_index, refused.error_code, refused.active_producers) == (9, 3, ())
    assert refused.error_message == "topic 'orders' has no partition 9"
