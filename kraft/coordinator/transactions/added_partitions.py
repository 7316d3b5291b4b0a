"""The partitions that AddPartitionsToTxn names, and their results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kraft.model.ids import TopicPartition, numbers_by_topic
from kraft.wire.schema.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)


def topics_of(partitions: Iterable[TopicPartition]) -> tuple[AddPartitionsToTxnTopic, ...]:
    numbers = numbers_by_topic(partitions)
    return tuple(AddPartitionsToTxnTopic(name=topic, partitions=tuple(each)) for topic, each in numbers.items())


def partitions_of(topics: Iterable[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in topics for number in topic.partitions]


def results_of(
    topics: Iterable[AddPartitionsToTxnTopic], codes: Mapping[TopicPartition, int]
) -> tuple[AddPartitionsToTxnTopicResult, ...]:
    """Return the results of all partitions, in order."""
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
