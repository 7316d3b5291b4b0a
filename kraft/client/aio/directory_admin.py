"""Log directories of brokers, as the admin client describes them and moves replicas between them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence

from kraft.client.aio.admin_calls import AdminClient
from kraft.model.errors import ErrorCode, KraftError, Refusal, error_code
from kraft.model.ids import TopicPartition, TopicPartitionReplica, numbers_by_topic
from kraft.rpc.calls import DESCRIBE_LOG_DIRS
from kraft.rpc.directory_calls import ALTER_REPLICA_LOG_DIRS
from kraft.wire.schema.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kraft.wire.schema.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest, DescribeLogDirsResult


async def describe_log_directories(
    admin: AdminClient,
    *,
    with_replicas: bool = True,
    partitions: Iterable[TopicPartition] | None = None,
    broker_ids: Collection[int] | None = None,
    timeout_ms: int | None = None,
) -> dict[int, Sequence[DescribeLogDirsResult] | KraftError]:
    """Return the log directories of every broker in service, or of those among these, or its error, by broker id.

    With the replicas of these partitions, or of all; `with_replicas` False leaves them out.
    """
    request = DescribeLogDirsRequest(topics=_replicas(partitions) if with_replicas else ())
    call = admin.calls.outcome_of_each_broker(DESCRIBE_LOG_DIRS, request, timeout_ms, broker_ids)
    outcomes = await admin.calls.watched(call, timeout_ms)
    return {
        broker_id: outcome if isinstance(outcome, KraftError) else outcome.results
        for broker_id, outcome in outcomes.items()
    }


async def alter_replica_log_directories(
    admin: AdminClient, directories: Mapping[TopicPartitionReplica, str], *, timeout_ms: int | None = None
) -> dict[TopicPartitionReplica, KraftError | None]:
    """Move each replica to this log directory of its broker; return each one's error or None.

    None: it is there, or its move has begun. REPLICA_NOT_AVAILABLE: the broker does not have the replica yet, and will
    create it there. A broker that does not answer is an error of all its replicas.
    """
    deadline_ms = admin.calls.deadline_ms(timeout_ms)
    cluster = await admin.calls.describe_cluster([], timeout_ms=timeout_ms)
    addresses = {broker.node_id: f"{broker.host}:{broker.port}" for broker in cluster.brokers}

    async def results_of(broker_id: int) -> dict[TopicPartitionReplica, KraftError | None]:
        asked = {replica: path for replica, path in directories.items() if replica.broker_id == broker_id}
        if broker_id not in addresses:
            away = Refusal(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not in service")
            return dict.fromkeys(asked, away)
        timeout_s = admin.calls.left_ms(deadline_ms) / 1_000
        try:
            node = admin.calls.node(addresses[broker_id])
            response = await node.call(ALTER_REPLICA_LOG_DIRS, _request(asked), timeout_s)
        except KraftError as error:
            return dict.fromkeys(asked, error)
        codes = {
            TopicPartitionReplica(topic.topic_name, each.partition_index, broker_id): each.error_code
            for topic in response.results
            for each in topic.partitions
        }
        return {replica: _refusal(codes[replica], replica, path) for replica, path in asked.items()}

    brokers = sorted({replica.broker_id for replica in directories})
    found: dict[TopicPartitionReplica, KraftError | None] = {}
    for results in await asyncio.gather(*map(results_of, brokers)):
        found |= results
    return found


def _replicas(partitions: Iterable[TopicPartition] | None) -> tuple[DescribableLogDirTopic, ...] | None:
    if partitions is None:
        return None
    return tuple(
        DescribableLogDirTopic(topic=topic, partitions=tuple(numbers))
        for topic, numbers in numbers_by_topic(partitions).items()
    )


def _request(asked: Mapping[TopicPartitionReplica, str]) -> AlterReplicaLogDirsRequest:
    by_path: dict[str, list[TopicPartition]] = {}
    for replica, path in asked.items():
        by_path.setdefault(path, []).append(TopicPartition(replica.topic, replica.partition))
    return AlterReplicaLogDirsRequest(
        dirs=tuple(
            AlterReplicaLogDir(
                path=path,
                topics=tuple(
                    AlterReplicaLogDirTopic(name=topic, partitions=tuple(numbers))
                    for topic, numbers in numbers_by_topic(partitions).items()
                ),
            )
            for path, partitions in by_path.items()
        )
    )


def _refusal(code: int, replica: TopicPartitionReplica, path: str) -> Refusal | None:
    return None if code == ErrorCode.NONE else Refusal(error_code(code), f"replica {replica}, log directory {path}")
