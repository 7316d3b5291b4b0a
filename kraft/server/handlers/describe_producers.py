"""DescribeProducers: the active idempotent producers of a replica, leader or not. Source: KIP-664."""

from __future__ import annotations

from collections.abc import Callable

from kraft.metadata.image import MetadataImage
from kraft.metadata.partition_names import find_partition
from kraft.metadata.topic_names import check_topic_name
from kraft.model.describe_producers import ActiveProducer, DescribeProducersRequest, PartitionProducers
from kraft.model.errors import Refusal
from kraft.model.partitions import PartitionName
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Partitions


class DescribeProducersHandler:
    def __init__(self, partitions: Partitions, image: Callable[[], MetadataImage]) -> None:
        self._partitions = partitions
        self._image = image

    def handle(self, request: DescribeProducersRequest) -> list[PartitionProducers]:
        """Return one result per partition, in the request's order."""
        return [self._described(asked) for asked in request.partitions]

    def _described(self, asked: PartitionName) -> PartitionProducers:
        try:
            check_topic_name(asked.topic)
            find_partition(self._image(), asked.topic, asked.partition)
            partition = self._partitions.by_name(asked.topic, asked.partition)
        except Refusal as refusal:
            return PartitionProducers(
                topic=asked.topic,
                partition=asked.partition,
                error_code=refusal.error_code,
                error_message=refusal.message,
            )
        return PartitionProducers(topic=asked.topic, partition=asked.partition, producers=_producers(partition))


def _producers(partition: Partition) -> list[ActiveProducer]:
    return [
        ActiveProducer(
            producer_id=producer_id,
            producer_epoch=state.epoch,
            last_sequence=state.last_sequence,
            last_timestamp_ms=state.timestamp_ms,
        )
        for producer_id, state in sorted(partition.log.producers.items())
    ]
