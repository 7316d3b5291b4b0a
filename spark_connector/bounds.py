"""Resolves the bounds of a read: `earliest`, `latest` and explicit offsets become one offset per partition."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kraft.client import TopicPartition
from spark_connector.cluster import Cluster
from spark_connector.options import EARLIEST_OFFSET, LATEST_OFFSET, Bound, Edge, OptionError


def partitions_of(cluster: Cluster, topics: Sequence[str]) -> list[TopicPartition]:
    """Return every partition of `topics`. Raises TopicMissing."""
    return [TopicPartition(topic, number) for topic in topics for number in sorted(cluster.partitions(topic))]


def resolve(
    cluster: Cluster, option: str, bound: Bound, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the offset in each of `partitions` for `bound`, the value of `option`. Raises OptionError."""
    if bound is Edge.EARLIEST:
        return cluster.earliest_offsets(partitions)
    if bound is Edge.LATEST:
        return cluster.latest_offsets(partitions)
    explicit = dict(bound)
    _refuse_other_partitions(option, explicit, partitions)
    earliest = [partition for partition, offset in explicit.items() if offset == EARLIEST_OFFSET]
    latest = [partition for partition, offset in explicit.items() if offset == LATEST_OFFSET]
    if earliest:
        explicit.update(cluster.earliest_offsets(earliest))
    if latest:
        explicit.update(cluster.latest_offsets(latest))
    return explicit


def _refuse_other_partitions(
    option: str, explicit: Collection[TopicPartition], partitions: Collection[TopicPartition]
) -> None:
    absent = sorted(set(partitions) - set(explicit))
    if absent:
        raise OptionError(
            f"option {option} has no offset for {_names(absent)}: give one for every partition, -2 earliest, -1 latest"
        )
    surplus = sorted(set(explicit) - set(partitions))
    if surplus:
        raise OptionError(f"option {option} has offsets for {_names(surplus)}, which the subscribed topics lack")


def _names(partitions: Sequence[TopicPartition]) -> str:
    shown = ", ".join(str(partition) for partition in partitions[:5])
    return shown if len(partitions) <= 5 else f"{shown} and {len(partitions) - 5} more"
