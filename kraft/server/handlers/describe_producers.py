"""DescribeProducers: the active producers of a replica, leader or not. Source: KIP-664."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Final

from kraft.metadata.image import CurrentImage
from kraft.metadata.partition_names import find_partition
from kraft.metadata.topic_names import check_topic_name
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.loop.turns import Turns
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Partitions
from kraft.wire.schema.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

PRODUCERS_AT_ONCE: Final = 1_000
"""Producers described before other tasks have their turn."""

SORTED_AT_ONCE: Final = 10_000
"""Producer ids sorted before other tasks have their turn."""


class DescribeProducersHandler:
    def __init__(self, partitions: Partitions, image: CurrentImage) -> None:
        self._partitions = partitions
        self._image = image

    async def handle(self, request: DescribeProducersRequest) -> DescribeProducersResponse:
        """Return one result per partition, in the request's order; the same for a partition that is named twice."""
        turns, described, topics = Turns(PRODUCERS_AT_ONCE), dict[tuple[str, int], PartitionResponse](), []
        for topic in request.topics:
            partitions = []
            for number in topic.partition_indexes:
                if (topic.name, number) not in described:
                    described[topic.name, number] = await self._described(topic.name, number, turns)
                partitions.append(described[topic.name, number])
                await turns.done()
            topics.append(TopicResponse(name=topic.name, partitions=tuple(partitions)))
        return DescribeProducersResponse(topics=tuple(topics))

    async def _described(self, topic: str, number: int, turns: Turns) -> PartitionResponse:
        try:
            check_topic_name(topic)
            find_partition(self._image(), topic, number)
            partition = self._partitions.by_name(topic, number)
        except Refusal as refusal:
            return PartitionResponse(
                partition_index=number,
                error_code=refusal.error_code,
                error_message=refusal.message,
                active_producers=(),
            )
        producers = await _producers(partition, turns)
        return PartitionResponse(partition_index=number, error_code=ErrorCode.NONE, active_producers=producers)


async def _producers(partition: Partition, turns: Turns) -> tuple[ProducerState, ...]:
    """Return the producers at one moment, by producer id."""
    states, described = dict(partition.log.producers), []
    for producer_id in await _sorted(list(states), turns):
        state = states[producer_id]
        described.append(
            ProducerState(
                producer_id=producer_id,
                producer_epoch=state.epoch,
                last_sequence=state.last_sequence,
                last_timestamp=state.timestamp_ms,
                coordinator_epoch=state.coordinator_epoch,
                current_txn_start_offset=-1 if state.transaction_start is None else state.transaction_start,
            )
        )
        await turns.done()
    return tuple(described)


async def _sorted(ids: list[int], turns: Turns) -> Iterator[int]:
    pieces = []
    for start in range(0, len(ids), SORTED_AT_ONCE):
        pieces.append(sorted(ids[start : start + SORTED_AT_ONCE]))
        await turns.done(PRODUCERS_AT_ONCE)
    return heapq.merge(*pieces)
