"""Conversion of the topics that a user wants to create into Kafka's message."""

from __future__ import annotations

from collections.abc import Iterable

from kraft.client.model.arguments import checked_number, checked_topic
from kraft.client.model.values import NewTopic
from kraft.metadata.new_topics import new_topic
from kraft.wire.schema.create_topics import CreatableTopic


def checked_topics(topics: object) -> tuple[CreatableTopic, ...]:
    """Return the topics to create. Raises TypeError."""
    if not isinstance(topics, Iterable) or not all(isinstance(each, NewTopic) for each in topics):
        raise TypeError(f"expected a list of NewTopic, not {topics!r}")
    for each in topics:
        checked_topic(each.topic)
        checked_number("partitions", each.partitions)
        checked_number("replication_factor", each.replication_factor)
    return tuple(
        new_topic(
            each.topic,
            partitions=each.partitions,
            replication_factor=each.replication_factor,
            configs=each.configs,
            assignments=each.assignments,
        )
        for each in topics
    )
