"""DescribeProducers: the active producers of a replica, leader or not. Source: KIP-664."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kraft.metadata.image import MetadataImage
from kraft.metadata.partition_names import find_partition
from kraft.metadata.topic_names import check_topic_name
from kraft.model.describe_producers import (
    ActiveProducer,
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionProducers,
)
from kraft.model.errors import Refusal
from kraft.model.partitions import PartitionName
from kraft.rpc.call import Served
from kraft.rpc.transaction_calls import DESCRIBE_PRODUCERS
from kraft.server.loop.turns import Turns
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Partitions

PRODUCERS_AT_ONCE: Final = 1_000
"""Producers described before other tasks have their turn."""


class DescribeProducersHandler:
    def __init__(self, partitions: Partitions, image: Callable[[], MetadataImage]) -> None:
        self._partitions = partitions
        self._image = image

    async def handle(self, request: DescribeProducersRequest) -> DescribeProducersResponse:
        """Return one result per partition, in the request's order; the same for a partition that is named twice."""
        turns, described = Turns(PRODUCERS_AT_ONCE), dict[PartitionName, PartitionProducers]()
        for asked in request.partitions:
            if asked not in described:
                found = described[asked] = self._described(asked)
                await turns.done(len(found.producers))
            await turns.done()
        return DescribeProducersResponse(partitions=tuple(described[asked] for asked in request.partitions))

    def served(self) -> list[Served]:
        return [DESCRIBE_PRODUCERS.served_by(self.handle)]

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


def _producers(partition: Partition) -> tuple[ActiveProducer, ...]:
    return tuple(
        ActiveProducer(
            producer_id=producer_id,
            producer_epoch=state.epoch,
            last_sequence=state.last_sequence,
            last_timestamp_ms=state.timestamp_ms,
            coordinator_epoch=state.coordinator_epoch,
            transaction_start_offset=-1 if state.transaction_start is None else state.transaction_start,
        )
        for producer_id, state in sorted(partition.log.producers.items())
    )
