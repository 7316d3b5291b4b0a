"""The partitions that a command's options name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from kraft.cli.options import optional_topic_name, topic_name
from kraft.model.ids import TopicPartition

if TYPE_CHECKING:
    from kraft.client import Admin


def one_partition(positional: str | None, topic: str | None, partition: int | None) -> TopicPartition:
    """Return the partition that was named. Raises BadParameter."""
    name = topic_name(positional, topic)
    if partition is None:
        raise typer.BadParameter("no partition is given: name one", param_hint="--partition")
    return TopicPartition(name, partition)


def chosen_partitions(
    admin: Admin, positional: str | None, topic: str | None, partition: int | None, broker_id: int | None = None
) -> list[TopicPartition]:
    """Return the partition that was named, or all of the topic or the cluster; of a broker, those it has replicas of.

    Raises BadParameter, and UNKNOWN_TOPIC_OR_PARTITION for a topic that does not exist.
    """
    name = optional_topic_name(positional, topic)
    if partition is not None:
        return [one_partition(positional, topic, partition)]
    if name is not None:
        # Raises it for a topic that does not exist.
        admin.describe_topics([name])
    return sorted(
        TopicPartition(topic, each.partition_index)
        for topic, found in admin.find_topics(None if name is None else [name]).items()
        for each in found.partitions
        if broker_id is None or broker_id in each.replica_nodes
    )
