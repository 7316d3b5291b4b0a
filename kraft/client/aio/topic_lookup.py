"""Topics, their partitions, and the offsets of these, as a consumer looks them up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kraft.client.aio.consumer_calls import ConsumerClient
from kraft.client.model.arguments import checked_mapping, checked_partitions
from kraft.client.model.values import OffsetAndTimestamp
from kraft.metadata.metadata_requests import metadata_of
from kraft.model.errors import ErrorCode
from kraft.model.ids import TopicPartition
from kraft.model.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP


async def partitions_for(consumer: ConsumerClient, topic: str, timeout_ms: int | None = None) -> list[int]:
    """Return the partitions of the topic: cached ones, refreshed every metadata.max.age.ms.

    A topic that was deleted after it was cached is still returned. Raises a Refusal that names a topic that is
    neither cached nor exists, or Unreachable.
    """
    metadata = await consumer.calls.engine().metadata.topic(topic, consumer.calls.timeout(timeout_ms))
    return sorted(each.partition_index for each in metadata.partitions)


async def topics(consumer: ConsumerClient, timeout_ms: int | None = None) -> list[str]:
    """Return the names of all topics, sorted."""
    response = await consumer.calls.engine().metadata.fetch(metadata_of(None), consumer.calls.timeout(timeout_ms))
    return sorted(topic.name for topic in response.topics if topic.error_code == ErrorCode.NONE and topic.name)


async def beginning_offsets(
    consumer: ConsumerClient, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
) -> dict[TopicPartition, int]:
    """Return the first offset that each partition still holds."""
    return await _offsets_at(consumer, EARLIEST_TIMESTAMP, partitions, timeout_ms)


async def end_offsets(
    consumer: ConsumerClient, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
) -> dict[TopicPartition, int]:
    """Return the offset after the last readable record of each partition.

    It is the high watermark, or the last stable offset with isolation.level=read_committed.
    """
    return await _offsets_at(consumer, LATEST_TIMESTAMP, partitions, timeout_ms)


async def offsets_for_times(
    consumer: ConsumerClient, timestamps_ms: Mapping[TopicPartition, int], timeout_ms: int | None = None
) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """Return the first record of each partition at or after its timestamp; None if all records are older."""
    for partition, timestamp_ms in checked_mapping(timestamps_ms, "timestamp").items():
        if timestamp_ms < MAX_TIMESTAMP:
            raise ValueError(f"{partition}: {timestamp_ms} is not a timestamp")
    found = await consumer.calls.engine().lookup.find(timestamps_ms, consumer.calls.timeout(timeout_ms))
    return {
        partition: OffsetAndTimestamp(result.offset, result.timestamp_ms) if result.offset >= 0 else None
        for partition, result in found.items()
    }


async def _offsets_at(
    consumer: ConsumerClient, timestamp_ms: int, partitions: Iterable[TopicPartition], timeout_ms: int | None
) -> dict[TopicPartition, int]:
    asked = dict.fromkeys(checked_partitions(partitions), timestamp_ms)
    found = await consumer.calls.engine().lookup.find(asked, consumer.calls.timeout(timeout_ms)) if asked else {}
    return {partition: result.offset for partition, result in found.items()}
