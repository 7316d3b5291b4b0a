"""Output of `kraft topics describe`, in the format of kafka-topics.sh, which scripts parse."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from kraft.cli.options import Output
from kraft.cli.printing import print_json
from kraft.model.ids import TopicPartition, uuid_to_text

if TYPE_CHECKING:
    from kraft.client import Admin, OngoingPartitionReassignment
    from kraft.model.metadata import PartitionMetadata
    from kraft.model.topics import TopicDescription
    from kraft.wire.schema.describe_configs import DescribeConfigsResourceResult


class Shown(Struct, frozen=True, kw_only=True):
    """One partition of a topic with the facts that conditions are checked against."""

    topic: str
    partition: PartitionMetadata
    reassignment: OngoingPartitionReassignment | None
    min_insync_replicas: int

    @property
    def replication_factor(self) -> int:
        """Replicas, without those that are still being added."""
        adding = [] if self.reassignment is None else self.reassignment.adding_replicas
        return len(self.partition.replicas) - len(adding)


Condition = Callable[[Shown], bool]


def is_under_replicated(shown: Shown) -> bool:
    return len(shown.partition.isr) < shown.replication_factor


def is_unavailable(shown: Shown) -> bool:
    leader = shown.partition.leader_id
    return leader < 0 or leader in shown.partition.offline_replicas


def is_at_min_isr(shown: Shown) -> bool:
    return len(shown.partition.isr) == shown.min_insync_replicas


def is_under_min_isr(shown: Shown) -> bool:
    return shown.partition.leader_id < 0 or len(shown.partition.isr) < shown.min_insync_replicas


CONDITIONS: Mapping[str, Condition] = {
    "--under-replicated-partitions": is_under_replicated,
    "--unavailable-partitions": is_unavailable,
    "--at-min-isr-partitions": is_at_min_isr,
    "--under-min-isr-partitions": is_under_min_isr,
}

_BY_MIN_ISR = (is_at_min_isr, is_under_min_isr)


def describe(admin: Admin, topic: str | None, condition: Condition | None, output: Output) -> None:
    """Print one topic or all; with a condition, only the partitions that meet it, without lines of topics."""
    # In this order a listed reassignment may already be complete in the description; `reassignment_of` checks that.
    reassignments = admin.list_partition_reassignments()
    descriptions = admin.describe_topics([] if topic is None else [topic])
    configs = admin.describe_configs_of_topics([each.metadata.topic for each in descriptions])
    # A topic that was deleted after it had been described has no configs any more.
    descriptions = [each for each in descriptions if each.metadata.topic in configs]
    shown = [
        (each, each.metadata.partitions if condition is None else _in(condition, configs, each, reassignments))
        for each in descriptions
    ]
    if output is Output.JSON:
        print_json(
            [
                _as_json(each, _not_default(configs[each.metadata.topic]), partitions, reassignments)
                for each, partitions in shown
                if partitions or condition is None
            ]
        )
        return
    for each, partitions in shown:
        if condition is None:
            _print_topic(each, _not_default(configs[each.metadata.topic]), reassignments)
        for partition in partitions:
            _print_partition(each.metadata.topic, partition, reassignment_of(reassignments, each, partition))


def _in(
    condition: Condition,
    configs: Mapping[str, Sequence[DescribeConfigsResourceResult]],
    description: TopicDescription,
    reassignments: Mapping[TopicPartition, OngoingPartitionReassignment],
) -> list[PartitionMetadata]:
    topic = description.metadata.topic
    min_isr = _min_insync_replicas(configs[topic]) if condition in _BY_MIN_ISR else 0
    return [
        partition
        for partition in description.metadata.partitions
        if condition(
            Shown(
                topic=topic,
                partition=partition,
                reassignment=reassignment_of(reassignments, description, partition),
                min_insync_replicas=min_isr,
            )
        )
    ]


def min_insync_replicas(admin: Admin, topic: str) -> int:
    return _min_insync_replicas(admin.describe_topic_configs(topic))


def _min_insync_replicas(configs: Sequence[DescribeConfigsResourceResult]) -> int:
    for entry in configs:
        if entry.name == "min.insync.replicas" and entry.value is not None:
            return int(entry.value)
    raise AssertionError("every topic has a value of min.insync.replicas")


def reassignment_of(
    reassignments: Mapping[TopicPartition, OngoingPartitionReassignment],
    description: TopicDescription,
    partition: PartitionMetadata,
) -> OngoingPartitionReassignment | None:
    """Return the partition's reassignment, unless it was completed meanwhile."""
    found = reassignments.get(TopicPartition(description.metadata.topic, partition.partition))
    return found if found is not None and found.replicas == tuple(partition.replicas) else None


def _not_default(configs: Sequence[DescribeConfigsResourceResult]) -> dict[str, str | None]:
    """Return what the topic, or a broker's file or dynamic config, sets: what kafka-topics.sh calls the configs."""
    from kraft.client import ConfigSource

    return {entry.name: entry.value for entry in configs if entry.config_source != ConfigSource.DEFAULT_CONFIG}


def _print_topic(
    description: TopicDescription,
    configs: Mapping[str, str | None],
    reassignments: Mapping[TopicPartition, OngoingPartitionReassignment],
) -> None:
    metadata = description.metadata
    in_words = ",".join(f"{key}={value}" for key, value in configs.items())
    factor = _replication_factor(description, reassignments)
    print(
        f"Topic: {metadata.topic}\tTopicId: {uuid_to_text(metadata.topic_id)}"
        f"\tPartitionCount: {len(metadata.partitions)}\tReplicationFactor: {factor}\tConfigs: {in_words}"
    )


def _replication_factor(
    description: TopicDescription, reassignments: Mapping[TopicPartition, OngoingPartitionReassignment]
) -> int:
    return max(
        (
            Shown(
                topic=description.metadata.topic,
                partition=each,
                reassignment=reassignment_of(reassignments, description, each),
                min_insync_replicas=0,
            ).replication_factor
            for each in description.metadata.partitions
        ),
        default=0,
    )


def _print_partition(
    topic: str, partition: PartitionMetadata, reassignment: OngoingPartitionReassignment | None
) -> None:
    leader = partition.leader_id if partition.leader_id >= 0 else "none"
    moving = ""
    if reassignment is not None:
        moving = (
            f"\tAdding Replicas: {_joined(reassignment.adding_replicas)}"
            f"\tRemoving Replicas: {_joined(reassignment.removing_replicas)}"
        )
    print(
        f"\tTopic: {topic}\tPartition: {partition.partition}\tLeader: {leader}"
        f"\tReplicas: {_joined(partition.replicas)}\tIsr: {_joined(partition.isr)}{moving}"
        f"\tElr: {_joined(partition.elr)}\tLastKnownElr: {_joined(partition.last_known_elr)}"
    )


def _as_json(
    description: TopicDescription,
    configs: Mapping[str, str | None],
    partitions: Sequence[PartitionMetadata],
    reassignments: Mapping[TopicPartition, OngoingPartitionReassignment],
) -> dict[str, Any]:
    metadata = description.metadata
    shown = []
    for each in partitions:
        reassignment = reassignment_of(reassignments, description, each)
        shown.append(
            {
                "partition": each.partition,
                "leader": each.leader_id if each.leader_id >= 0 else None,
                "leader_epoch": each.leader_epoch,
                "replicas": each.replicas,
                "isr": each.isr,
                "elr": each.elr,
                "last_known_elr": each.last_known_elr,
                "offline_replicas": each.offline_replicas,
                "adding_replicas": [] if reassignment is None else reassignment.adding_replicas,
                "removing_replicas": [] if reassignment is None else reassignment.removing_replicas,
            }
        )
    return {
        "topic": metadata.topic,
        "topic_id": uuid_to_text(metadata.topic_id),
        "partition_count": len(metadata.partitions),
        "replication_factor": _replication_factor(description, reassignments),
        "configs": configs,
        "partitions": shown,
    }


def _joined(broker_ids: Sequence[int]) -> str:
    return ",".join(map(str, broker_ids))
