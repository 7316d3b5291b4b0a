"""Metrics of the replicas on this broker: Kafka's ReplicaManager."""

from __future__ import annotations

from typing import Final

from kraft.server.metrics.metric import Metric, gauge
from kraft.server.metrics.node_parts import NodeParts
from kraft.server.metrics.snapshot import Snapshot

_MANAGER: Final = "kafka.server:type=ReplicaManager,name="

LEADERS: Final = gauge(
    "kafka_server_replicamanager_leadercount", "Partitions that this broker leads.", jmx=f"{_MANAGER}LeaderCount"
)
PARTITIONS: Final = gauge(
    "kafka_server_replicamanager_partitioncount",
    "Replicas on this broker that are not offline.",
    jmx=f"{_MANAGER}PartitionCount",
)
OFFLINE_REPLICAS: Final = gauge(
    "kafka_server_replicamanager_offlinereplicacount",
    "Replicas on this broker that are offline, because their log directory failed, or their log is corrupt or missing.",
    jmx=f"{_MANAGER}OfflineReplicaCount",
)

METRICS: Final[tuple[Metric, ...]] = (LEADERS, PARTITIONS, OFFLINE_REPLICAS)


async def collect(parts: NodeParts, snapshot: Snapshot) -> None:
    if parts.broker is None:
        return
    partitions = parts.broker.logs.partitions
    leaders = 0
    for partition in partitions:
        leaders += partition.leader is not None
        if snapshot.has_to_rest:
            await snapshot.rest()
    snapshot.add(LEADERS, leaders)
    snapshot.add(PARTITIONS, len(partitions))
    snapshot.add(OFFLINE_REPLICAS, len(partitions.offline))
