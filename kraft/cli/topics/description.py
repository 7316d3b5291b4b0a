"""Output of `kraft topics describe`, in the format of kafka-topics.sh, which scripts parse."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kraft.cli.options import Output
from kraft.cli.printing import joined, print_json
from kraft.health.partitions import (
    Shown,
    is_at_min_isr,
    is_unavailable,
    is_under_min_isr,
    is_under_replicated,
    min_insync_replicas_in,
    reassignment_of,
)
from kraft.model.ids import TopicPartition, uuid_to_text

if TYPE_CHECKING:
    from kraft.client import Admin, OngoingPartitionReassignment
    from kraft.metadata.described_topics import TopicDescription
    from kraft.wire.schema.describe_configs import DescribeConfigsResourceResult
    from kraft.wire.schema.describe_topic_partitions import DescribeTopicPartitionsResponsePartition


Condition = Callable[[Shown], bool]


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
    reassignments = _reassignments(admin)
    descriptions = admin.describe_topics([] if topic is None else [topic])
    configs = admin.describe_configs_of_topics([each.topic for each in descriptions])
    # A topic that was deleted after it had been described has no configs any more.
    descriptions = [each for each in descriptions if each.topic in configs]
    shown = [
        (each, each.metadata.partitions if condition is None else _in(condition, configs, each, reassignments))
        for each in descriptions
    ]
    if output is Output.JSON:
        print_json(
            [
                _as_json(each, _not_default(configs[each.topic]), partitions, reassignments)
                for each, partitions in shown
                if partitions or condition is None
            ]
        )
        return
    for each, partitions in shown:
        if condition is None:
            _print_topic(each, _not_default(configs[each.topic]), reassignments)
        for partition in partitions:
            _print_partition(each.topic, partition, reassignment_of(reassignments, each, partition))


def _in(
    condition: Condition,
    configs: Mapping[str, Sequence[DescribeConfigsResourceResult]],
    description: TopicDescription,
    reassignments: Mapping[TopicPartition, OngoingPartitionReassignment],
) -> list[DescribeTopicPartitionsResponsePartition]:
    topic = description.topic
    min_isr = min_insync_replicas_in(configs[topic]) if condition in _BY_MIN_ISR else 0
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


def _reassignments(admin: Admin) -> Mapping[TopicPartition, OngoingPartitionReassignment]:
    """Return those of the cluster; none if this user may not know them, as in kafka-topics.sh."""
    from kraft.client import ErrorCode, Refusal

    try:
        return admin.list_partition_reassignments()
    except Refusal as refusal:
        if refusal.error_code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        return {}


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
        f"Topic: {description.topic}\tTopicId: {uuid_to_text(metadata.topic_id)}"
        f"\tPartitionCount: {len(metadata.partitions)}\tReplicationFactor: {factor}\tConfigs: {in_words}"
    )


def _replication_factor(
    description: TopicDescription, reassignments: Mapping[TopicPartition, OngoingPartitionReassignment]
) -> int:
    return max(
        (
            Shown(
                topic=description.topic,
                partition=each,
                reassignment=reassignment_of(reassignments, description, each),
                min_insync_replicas=0,
            ).replication_factor
            for each in description.metadata.partitions
        ),
        default=0,
    )


def _print_partition(
    topic: str, partition: DescribeTopicPartitionsResponsePartition, reassignment: OngoingPartitionReassignment | None
) -> None:
    leader = partition.leader_id if partition.leader_id >= 0 else "none"
    moving = ""
    if reassignment is not None:
        moving = (
            f"\tAdding Replicas: {joined(reassignment.adding_replicas)}"
            f"\tRemoving Replicas: {joined(reassignment.removing_replicas)}"
        )
    print(
        f"\tTopic: {topic}\tPartition: {partition.partition_index}\tLeader: {leader}"
        f"\tReplicas: {joined(partition.replica_nodes)}\tIsr: {joined(partition.isr_nodes)}{moving}"
        f"\tElr: {joined(partition.eligible_leader_replicas or ())}"
        f"\tLastKnownElr: {joined(partition.last_known_elr or ())}"
    )


def _as_json(
    description: TopicDescription,
    configs: Mapping[str, str | None],
    partitions: Sequence[DescribeTopicPartitionsResponsePartition],
    reassignments: Mapping[TopicPartition, OngoingPartitionReassignment],
) -> dict[str, Any]:
    metadata = description.metadata
    shown = []
    for each in partitions:
        reassignment = reassignment_of(reassignments, description, each)
        shown.append(
            {
                "partition": each.partition_index,
                "leader": each.leader_id if each.leader_id >= 0 else None,
                "leader_epoch": each.leader_epoch,
                "replicas": each.replica_nodes,
                "isr": each.isr_nodes,
                "elr": each.eligible_leader_replicas or (),
                "last_known_elr": each.last_known_elr or (),
                "offline_replicas": each.offline_replicas,
                "adding_replicas": [] if reassignment is None else reassignment.adding_replicas,
                "removing_replicas": [] if reassignment is None else reassignment.removing_replicas,
            }
        )
    return {
        "topic": description.topic,
        "topic_id": uuid_to_text(metadata.topic_id),
        "partition_count": len(metadata.partitions),
        "replication_factor": _replication_factor(description, reassignments),
        "configs": configs,
        "partitions": shown,
    }
