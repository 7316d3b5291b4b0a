"""Partitions with the facts that conditions are checked against, such as whether they are under-replicated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from kraft.model.ids import TopicPartition

if TYPE_CHECKING:
    from kraft.client import Admin, OngoingPartitionReassignment
    from kraft.metadata.described_topics import TopicDescription
    from kraft.wire.schema.describe_configs import DescribeConfigsResourceResult
    from kraft.wire.schema.describe_topic_partitions import DescribeTopicPartitionsResponsePartition


class Shown(Struct, frozen=True, kw_only=True):
    """One partition of a topic with the facts that conditions are checked against."""

    topic: str
    partition: DescribeTopicPartitionsResponsePartition
    reassignment: OngoingPartitionReassignment | None
    min_insync_replicas: int
    is_throttled: bool = False
    """Whether the configs of the topic name one of its replicas to keep to the rates of a throttle."""

    @property
    def replication_factor(self) -> int:
        """Replicas, without those that are still being added."""
        adding = [] if self.reassignment is None else self.reassignment.adding_replicas
        return len(self.partition.replica_nodes) - len(adding)


def is_under_replicated(shown: Shown) -> bool:
    return len(shown.partition.isr_nodes) < shown.replication_factor


def is_unavailable(shown: Shown) -> bool:
    leader = shown.partition.leader_id
    return leader < 0 or leader in shown.partition.offline_replicas


def is_at_min_isr(shown: Shown) -> bool:
    return len(shown.partition.isr_nodes) == shown.min_insync_replicas


def is_under_min_isr(shown: Shown) -> bool:
    return shown.partition.leader_id < 0 or len(shown.partition.isr_nodes) < shown.min_insync_replicas


def min_insync_replicas(admin: Admin, topic: str) -> int:
    return min_insync_replicas_in(admin.describe_topic_configs(topic))


def min_insync_replicas_in(configs: Sequence[DescribeConfigsResourceResult]) -> int:
    for entry in configs:
        if entry.name == "min.insync.replicas" and entry.value is not None:
            return int(entry.value)
    raise AssertionError("every topic has a value of min.insync.replicas")


def reassignment_of(
    reassignments: Mapping[TopicPartition, OngoingPartitionReassignment],
    description: TopicDescription,
    partition: DescribeTopicPartitionsResponsePartition,
) -> OngoingPartitionReassignment | None:
    """Return the partition's reassignment, unless it was completed meanwhile."""
    found = reassignments.get(TopicPartition(description.topic, partition.partition_index))
    return found if found is not None and found.replicas == partition.replica_nodes else None
