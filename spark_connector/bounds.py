"""Where a read begins and ends: `earliest`, `latest` and explicit offsets become one offset a partition."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kraft.client import TopicPartition
from spark_connector.cluster import Cluster
from spark_connector.options import EARLIEST_OFFSET, LATEST_OFFSET, Bound, Edge, OptionError


def partitions_of(cluster: Cluster, topics: Sequence[str]) -> list[TopicPartition]:
    """Every partition of `topics`. Raises TopicMissing."""
    return [TopicPartition(topic, number) for topic in topics for number in sorted(cluster.partitions(topic))]


def resolve(
    cluster: Cluster, option: str, bound: Bound, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    """The offset in each of `partitions` that `bound`, the value of `option`, stands for. Raises OptionError."""
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
            f"option {option} says nothing of {_names(absent)}: give every partition an offset, -2 earliest, -1 latest"
        )
    surplus = sorted(set(explicit) - set(partitions))
    if surplus:
        raise OptionError(f"option {option} names {_names(surplus)}, which the subscribed topics do not have")


def _names(partitions: Sequence[TopicPartition]) -> str:
    shown = ", ".join(str(partition) for partition in partitions[:5])
    return shown if len(partitions) <= 5 else f"{shown} and {len(partitions) - 5} more"
