"""Metrics of the replicas on this broker, all of them together: Kafka's ReplicaManager, LogManager and purgatories."""

from __future__ import annotations

import time
from typing import Final

from kraft.metadata.image import MetadataImage, PartitionImage
from kraft.model.ids import LogDirectory
from kraft.server.metrics.metric import Metric, counter, gauge, summary
from kraft.server.metrics.node_parts import NodeParts
from kraft.server.metrics.snapshot import Snapshot
from kraft.server.replica.partitions import Partitions
from kraft.server.upkeep.counts import UpkeepCounts

LATE_TRANSACTION_BUFFER_MS: Final = 5 * 60_000
"""Source: LATE_TRANSACTION_BUFFER_MS of Kafka's ProducerStateManager (KIP-664)."""

_MANAGER: Final = "kafka.server:type=ReplicaManager,name="
_TOPICS: Final = "kafka.server:type=BrokerTopicMetrics,name="

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
UNDER_REPLICATED: Final = gauge(
    "kafka_server_replicamanager_underreplicatedpartitions",
    "Partitions that this broker leads and whose ISR lacks a replica, besides those that a reassignment adds.",
    jmx=f"{_MANAGER}UnderReplicatedPartitions",
)
UNDER_MIN_ISR: Final = gauge(
    "kafka_server_replicamanager_underminisrpartitioncount",
    "Partitions that this broker leads and that refuse acks=all, because the ISR is below its minimum.",
    jmx=f"{_MANAGER}UnderMinIsrPartitionCount",
)
AT_MIN_ISR: Final = gauge(
    "kafka_server_replicamanager_atminisrpartitioncount",
    "Partitions that this broker leads and whose ISR is exactly min.insync.replicas: with one replica less, acks=all is"
    " refused.",
    jmx=f"{_MANAGER}AtMinIsrPartitionCount",
)
ISR_SHRINKS: Final = counter(
    "kafka_server_replicamanager_isrshrinks",
    "Changes of ISRs to smaller ones, of partitions that this broker led.",
    jmx=f"{_MANAGER}IsrShrinksPerSec",
)
ISR_EXPANDS: Final = counter(
    "kafka_server_replicamanager_isrexpands",
    "Changes of ISRs to larger ones, of partitions that this broker led.",
    jmx=f"{_MANAGER}IsrExpandsPerSec",
)
PURGATORY: Final = gauge(
    "kafka_server_delayedoperationpurgatory_purgatorysize",
    "Requests that wait: Produce for replicas, Fetch for records or for room, ReplicaFetch (of followers) for news.",
    "delayedOperation",
    jmx="kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation=",
)
REPLICATION_IN: Final = counter(
    "kafka_server_brokertopicmetrics_replicationbytesin",
    "Bytes of records that this broker has copied from leaders.",
    jmx=f"{_TOPICS}ReplicationBytesInPerSec",
)
REPLICATION_OUT: Final = counter(
    "kafka_server_brokertopicmetrics_replicationbytesout",
    "Bytes of records that this broker has sent to followers.",
    jmx=f"{_TOPICS}ReplicationBytesOutPerSec",
)
OFFLINE_DIRECTORIES: Final = gauge(
    "kafka_log_logmanager_offlinelogdirectorycount",
    "Log directories that have failed, or could not be used at the start.",
    jmx="kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
)
LOG_BYTES: Final = gauge("kraft_log_directory_size_bytes", "Size of all logs in a log directory.", "directory")
SYNCS: Final = summary(
    "kafka_log_logflushstats_logflushrateandtimems",
    "Rounds of syncs (fsync) of a log directory, each for all logs that wait, and their sum in milliseconds.",
    "directory",
    jmx="kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
)
SYNCED_LOGS: Final = counter("kraft_log_syncs", "Syncs of single logs, some in each round.", "directory")
LONGEST_SYNC: Final = gauge(
    "kraft_log_sync_longest_seconds", "Longest round of syncs since the process began.", "directory"
)

COMPACTIONS: Final = summary(
    "kraft_log_compaction_seconds", "Compactions of logs, and how long they took with the pauses of the throttle."
)
COMPACTION_READ: Final = counter("kraft_log_compaction_read_bytes", "Bytes of logs that compactions have read.")
COMPACTION_KEPT: Final = counter("kraft_log_compaction_kept_bytes", "Bytes of these that they kept.")
DELETIONS: Final = counter("kraft_log_retention_deletions", "Occasions on which retention deleted segments of a log.")
DELETED: Final = counter("kraft_log_retention_deleted_bytes", "Bytes of logs that retention deleted.")
METADATA_APPLIED: Final = gauge(
    "kafka_server_brokermetadatametrics_last_applied_record_offset",
    "Index of the last entry of the metadata that this broker has applied.",
    jmx="kafka.server:type=broker-metadata-metrics,attribute=last-applied-record-offset",
)
LATEST_SYNC: Final = gauge(
    "kraft_log_sync_latest_seconds",
    "Time of the last round of syncs, or of the running one if it takes longer already.",
    "directory",
)
FULL: Final = gauge(
    "kraft_log_directory_full", "1 for a log directory that refuses appends for want of space.", "directory"
)
LATE_TRANSACTIONS: Final = gauge(
    "kafka_server_replicamanager_partitionswithlatetransactionscount",
    "Partitions that this broker leads, and whose oldest open transaction has not been written to for five minutes"
    " longer than transaction.max.timeout.ms: it hangs.",
    jmx=f"{_MANAGER}PartitionsWithLateTransactionsCount",
)
LEADER_SILENCE: Final = gauge(
    "kraft_leader_silence_seconds",
    "Time for which a broker has not answered this one, which follows partitions that it leads; 0: nothing is wrong.",
    "leader",
)

METADATA_LAG: Final = gauge(
    "kraft_metadata_lag", "Entries of the metadata that this broker knows to be committed, and has not applied."
)
METADATA_LAG_MS: Final = gauge(
    "kafka_server_brokermetadatametrics_last_applied_record_lag_ms",
    "Milliseconds for which this broker has lacked, or not applied, an entry that it knows to be committed; 0: none.",
    jmx="kafka.server:type=broker-metadata-metrics,attribute=last-applied-record-lag-ms",
)
METADATA_STEPS: Final = summary(
    "kraft_metadata_apply_seconds", "Steps in which this broker has applied metadata, and how long they took."
)

METRICS: Final[tuple[Metric, ...]] = (
    LEADERS,
    PARTITIONS,
    OFFLINE_REPLICAS,
    UNDER_REPLICATED,
    UNDER_MIN_ISR,
    AT_MIN_ISR,
    ISR_SHRINKS,
    ISR_EXPANDS,
    PURGATORY,
    REPLICATION_IN,
    REPLICATION_OUT,
    OFFLINE_DIRECTORIES,
    LOG_BYTES,
    SYNCS,
    SYNCED_LOGS,
    LONGEST_SYNC,
    LATEST_SYNC,
    FULL,
    LATE_TRANSACTIONS,
    LEADER_SILENCE,
    COMPACTIONS,
    COMPACTION_READ,
    COMPACTION_KEPT,
    DELETIONS,
    DELETED,
    METADATA_APPLIED,
    METADATA_LAG,
    METADATA_LAG_MS,
    METADATA_STEPS,
)


def is_under_replicated(state: PartitionImage) -> bool:
    """Return whether the ISR lacks a replica, besides those that a reassignment adds. Source: Kafka's Partition."""
    return len(state.isr) < len(state.original_replicas)


def is_at_min_isr(state: PartitionImage, min_insync_replicas: int) -> bool:
    """Return whether acks=all is refused with one in-sync replica less. Source: isAtMinIsr of Kafka's Partition."""
    return len(state.isr) == min(min_insync_replicas, len(state.replicas))


async def collect(parts: NodeParts, snapshot: Snapshot) -> None:
    if parts.broker is None:
        return
    logs = parts.broker.logs
    late_before_ms = time.time() * 1_000 - parts.config.transactions.timeout_max_ms - LATE_TRANSACTION_BUFFER_MS
    await collect_replicas(logs.partitions, parts.broker.metadata.image(), snapshot, late_before_ms)
    counts = logs.partitions.counts
    snapshot.add(ISR_SHRINKS, counts.isr_shrinks)
    snapshot.add(ISR_EXPANDS, counts.isr_expands)
    snapshot.add(REPLICATION_IN, counts.replication_bytes_in)
    snapshot.add(REPLICATION_OUT, counts.replication_bytes_out)
    snapshot.add(PURGATORY, counts.fetches_waiting, "Fetch")
    snapshot.add(PURGATORY, counts.replica_fetches_waiting, "ReplicaFetch")
    snapshot.add(OFFLINE_REPLICAS, len(logs.partitions.offline))
    snapshot.add(OFFLINE_DIRECTORIES, len(logs.directories.offline))
    _collect_upkeep(logs.maintenance.counts, snapshot)
    loader = parts.broker.metadata.loader
    snapshot.add(METADATA_APPLIED, loader.published_index)
    snapshot.add(METADATA_LAG, max(0, loader.committed_index_known - loader.published_index))
    snapshot.add(METADATA_LAG_MS, loader.behind_s() * 1_000)
    snapshot.add_summary(METADATA_STEPS, loader.applied, loader.applying_s)
    for directory, syncs in logs.syncer.counts.items():
        snapshot.add_summary(SYNCS, syncs.rounds, syncs.seconds * 1_000, directory)
        snapshot.add(SYNCED_LOGS, syncs.logs, directory)
        snapshot.add(LONGEST_SYNC, syncs.longest_s, directory)
        snapshot.add(LATEST_SYNC, syncs.latest_s, directory)
    for directory in logs.directories.online:
        snapshot.add(FULL, logs.disk_space.is_full(directory), directory)
    for leader_id, silence_s in parts.broker.replicas.publisher.fetchers.silences_s().items():
        snapshot.add(LEADER_SILENCE, silence_s, str(leader_id))


async def collect_replicas(
    partitions: Partitions, image: MetadataImage, snapshot: Snapshot, late_before_ms: float
) -> None:
    """`late_before_ms`: a transaction that was written to last before this wall time is late."""
    leaders = under_replicated = under_min_isr = at_min_isr = waiting = late = 0
    sizes: dict[LogDirectory, int] = {}
    for partition in partitions:
        if (leader := partition.leader) is not None:
            leaders += 1
            waiting += partition.produces_waiting
            under_min_isr += leader.below_minimum_isr
            written_ms = partition.log.transactions.oldest_write_ms()
            late += written_ms is not None and written_ms < late_before_ms
            if (state := image.partition_by_id(*partition.id)) is not None:
                under_replicated += is_under_replicated(state)
                at_min_isr += is_at_min_isr(state, partition.log.config.min_insync_replicas)
        directory = partition.log_directory
        sizes[directory] = sizes.get(directory, 0) + partition.log.size_bytes
        if snapshot.has_to_rest:
            await snapshot.rest()
    snapshot.add(LEADERS, leaders)
    snapshot.add(PARTITIONS, len(partitions))
    snapshot.add(UNDER_REPLICATED, under_replicated)
    snapshot.add(UNDER_MIN_ISR, under_min_isr)
    snapshot.add(AT_MIN_ISR, at_min_isr)
    snapshot.add(LATE_TRANSACTIONS, late)
    snapshot.add(PURGATORY, waiting, "Produce")
    for directory, size in sizes.items():
        snapshot.add(LOG_BYTES, size, directory)


def _collect_upkeep(upkeep: UpkeepCounts, snapshot: Snapshot) -> None:
    snapshot.add_summary(COMPACTIONS, upkeep.compactions, upkeep.cleaning_s)
    snapshot.add(COMPACTION_READ, upkeep.compaction_bytes_read)
    snapshot.add(COMPACTION_KEPT, upkeep.compaction_bytes_kept)
    snapshot.add(DELETIONS, upkeep.retention_deletions)
    snapshot.add(DELETED, upkeep.retention_bytes)
