"""Metrics of the topics and partitions on this broker."""

from __future__ import annotations

from typing import Final

from kraft.metadata.image import PartitionImage
from kraft.server.metrics.metric import Metric, counter, gauge
from kraft.server.metrics.node_parts import NodeParts
from kraft.server.metrics.replica_metrics import is_at_min_isr, is_under_replicated
from kraft.server.metrics.snapshot import Snapshot
from kraft.server.replica.partition import Partition

_TOPICS: Final = "kafka.server:type=BrokerTopicMetrics,name="
_PARTITION: Final = "kafka.cluster:type=Partition,name="
_LOG: Final = "kafka.log:type=Log,name="

BYTES_IN: Final = counter(
    "kafka_server_brokertopicmetrics_bytesin",
    "Bytes of records that producers, and coordinators here, have appended.",
    "topic",
    jmx=f"{_TOPICS}BytesInPerSec",
)
BYTES_OUT: Final = counter(
    "kafka_server_brokertopicmetrics_bytesout",
    "Bytes of records that consumers were sent.",
    "topic",
    jmx=f"{_TOPICS}BytesOutPerSec",
)
MESSAGES_IN: Final = counter(
    "kafka_server_brokertopicmetrics_messagesin",
    "Records that producers, and coordinators here, have appended.",
    "topic",
    jmx=f"{_TOPICS}MessagesInPerSec",
)
PRODUCES: Final = counter(
    "kafka_server_brokertopicmetrics_totalproducerequests",
    "Partitions of produce requests.",
    "topic",
    jmx=f"{_TOPICS}TotalProduceRequestsPerSec",
)
FAILED_PRODUCES: Final = counter(
    "kafka_server_brokertopicmetrics_failedproducerequests",
    "Partitions of produce requests that were refused, for any reason. Kafka counts only errors of its own.",
    "topic",
    jmx=f"{_TOPICS}FailedProduceRequestsPerSec",
)
FETCHES: Final = counter(
    "kafka_server_brokertopicmetrics_totalfetchrequests",
    "Partitions of consumers' fetches.",
    "topic",
    jmx=f"{_TOPICS}TotalFetchRequestsPerSec",
)
FAILED_FETCHES: Final = counter(
    "kafka_server_brokertopicmetrics_failedfetchrequests",
    "Partitions of consumers' fetches that were refused, for any reason. Kafka counts only errors of its own.",
    "topic",
    jmx=f"{_TOPICS}FailedFetchRequestsPerSec",
)


def _of_partition(name: str, help: str, jmx: str = "") -> Metric:
    return gauge(name, help, "topic", "partition", jmx=jmx, per_partition=True)


REPLICAS: Final = _of_partition(
    "kafka_cluster_partition_replicascount",
    "Replicas of a partition that this broker leads.",
    f"{_PARTITION}ReplicasCount",
)
IN_SYNC: Final = _of_partition(
    "kafka_cluster_partition_insyncreplicascount",
    "In-sync replicas of a partition that this broker leads.",
    f"{_PARTITION}InSyncReplicasCount",
)
UNDER_REPLICATED: Final = _of_partition(
    "kafka_cluster_partition_underreplicated",
    "1 for a partition that this broker leads and whose ISR lacks a replica, besides those that a reassignment adds.",
    f"{_PARTITION}UnderReplicated",
)
UNDER_MIN_ISR: Final = _of_partition(
    "kafka_cluster_partition_underminisr",
    "1 for a partition that this broker leads and that refuses acks=all.",
    f"{_PARTITION}UnderMinIsr",
)
AT_MIN_ISR: Final = _of_partition(
    "kafka_cluster_partition_atminisr",
    "1 for a partition that this broker leads and whose ISR is exactly min.insync.replicas.",
    f"{_PARTITION}AtMinIsr",
)
LOG_SIZE: Final = _of_partition("kafka_log_log_size", "Bytes of a partition's log on this broker.", f"{_LOG}Size")
LOG_START: Final = _of_partition(
    "kafka_log_log_logstartoffset", "First offset of a partition's log on this broker.", f"{_LOG}LogStartOffset"
)
LOG_END: Final = _of_partition(
    "kafka_log_log_logendoffset", "End offset of a partition's log on this broker.", f"{_LOG}LogEndOffset"
)
CURRENT_OFFSET: Final = _of_partition(
    "kafka_topic_partition_current_offset", "High watermark of a partition that this broker leads."
)
OLDEST_OFFSET: Final = _of_partition(
    "kafka_topic_partition_oldest_offset", "First offset of a partition that this broker leads."
)
TOPIC_LEADER: Final = _of_partition("kafka_topic_partition_leader", "Id of this broker, which leads the partition.")
TOPIC_PREFERRED: Final = _of_partition(
    "kafka_topic_partition_leader_is_preferred", "1 if this broker, which leads the partition, is its first replica."
)
TOPIC_REPLICAS: Final = _of_partition(
    "kafka_topic_partition_replicas", "Replicas of a partition that this broker leads."
)
TOPIC_IN_SYNC: Final = _of_partition(
    "kafka_topic_partition_in_sync_replica", "In-sync replicas of a partition that this broker leads."
)
TOPIC_UNDER_REPLICATED: Final = _of_partition(
    "kafka_topic_partition_under_replicated_partition",
    "1 for a partition that this broker leads and whose ISR lacks a replica.",
)

METRICS: Final[tuple[Metric, ...]] = (
    BYTES_IN,
    BYTES_OUT,
    MESSAGES_IN,
    PRODUCES,
    FAILED_PRODUCES,
    FETCHES,
    FAILED_FETCHES,
    REPLICAS,
    IN_SYNC,
    UNDER_REPLICATED,
    UNDER_MIN_ISR,
    AT_MIN_ISR,
    LOG_SIZE,
    LOG_START,
    LOG_END,
    CURRENT_OFFSET,
    OLDEST_OFFSET,
    TOPIC_LEADER,
    TOPIC_PREFERRED,
    TOPIC_REPLICAS,
    TOPIC_IN_SYNC,
    TOPIC_UNDER_REPLICATED,
)


async def collect(parts: NodeParts, snapshot: Snapshot) -> None:
    if parts.broker is None:
        return
    partitions = parts.broker.logs.partitions
    for topic, counts in list(partitions.counts.topics.items()):
        snapshot.add(BYTES_IN, counts.bytes_in, topic)
        snapshot.add(BYTES_OUT, counts.bytes_out, topic)
        snapshot.add(MESSAGES_IN, counts.messages_in, topic)
        snapshot.add(PRODUCES, counts.appends + counts.failed_produces, topic)
        snapshot.add(FAILED_PRODUCES, counts.failed_produces, topic)
        snapshot.add(FETCHES, counts.fetches + counts.failed_fetches, topic)
        snapshot.add(FAILED_FETCHES, counts.failed_fetches, topic)
        if snapshot.has_to_rest:
            await snapshot.rest()
    if parts.config.metrics.per_partition:
        image = parts.broker.metadata.image()
        for partition in partitions:
            _collect_partition(partition, image.partition_by_id(*partition.id), snapshot)
            if snapshot.has_to_rest:
                await snapshot.rest()


def _collect_partition(partition: Partition, state: PartitionImage | None, snapshot: Snapshot) -> None:
    name = partition.topic_partition
    labels = name.topic, str(name.partition)
    log, leader = partition.log, partition.leader
    snapshot.add_labelled(LOG_SIZE, log.size_bytes, labels)
    snapshot.add_labelled(LOG_START, log.log_start_offset, labels)
    snapshot.add_labelled(LOG_END, log.log_end_offset, labels)
    if leader is None or state is None:
        return
    replicas, in_sync = len(state.replicas), len(state.isr)
    for metric, value in (
        (REPLICAS, len(state.original_replicas)),
        (IN_SYNC, in_sync),
        (UNDER_REPLICATED, is_under_replicated(state)),
        (UNDER_MIN_ISR, leader.below_minimum_isr),
        (AT_MIN_ISR, is_at_min_isr(state, log.config.min_insync_replicas)),
        (CURRENT_OFFSET, leader.high_watermark),
        (OLDEST_OFFSET, log.log_start_offset),
        (TOPIC_LEADER, leader.broker_id),
        (TOPIC_PREFERRED, state.replicas[0] == leader.broker_id),
        (TOPIC_REPLICAS, replicas),
        (TOPIC_IN_SYNC, in_sync),
        # As kafka_exporter has it, which knows nothing of reassignments.
        (TOPIC_UNDER_REPLICATED, in_sync < replicas),
    ):
        snapshot.add_labelled(metric, value, labels)
