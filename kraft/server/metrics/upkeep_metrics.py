"""Metrics of what a broker does with its logs by itself, of its disks, and of the throttles of replication."""

from __future__ import annotations

from typing import Final

from kraft.server.broker.logs import BrokerLogs
from kraft.server.loop.periods import loop_time_s
from kraft.server.metrics.metric import Metric, counter, gauge
from kraft.server.metrics.node_parts import NodeParts
from kraft.server.metrics.snapshot import Snapshot
from kraft.server.replica.replication_throttles import ReplicationThrottles

SCRUBBED_SEGMENTS: Final = counter("kraft_log_scrub_segments", "Segments of logs that the scrub has read.")
SCRUBBED_BYTES: Final = counter("kraft_log_scrub_read_bytes", "Bytes of these.")
CORRUPT: Final = counter("kraft_log_scrub_corrupt_logs", "Logs in which the scrub found corruption; they go offline.")
PROGRESS: Final = gauge(
    "kraft_log_scrub_progress",
    "Part of the logs that the present pass of the scrub is through with, from 0 to 1; 1 from its end to the next.",
)
UNCLEANABLE: Final = gauge(
    "kafka_log_logcleanermanager_uncleanable_partitions_count",
    "Logs that are not compacted until the broker starts again, because an attempt failed. The log has the reasons.",
    jmx="kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count",
)
ROUNDS: Final = counter(
    "kraft_upkeep_rounds",
    "How often a task was through with all logs: retention, flush, producer_expiry, disk_space, scrub, and cleaner,"
    " once it finds nothing more to compact.",
    "task",
)
ROUND_AGE: Final = gauge("kraft_upkeep_round_age_seconds", "Time since it last was.", "task")
FREE_BYTES: Final = gauge(
    "kraft_log_directory_free_bytes",
    "Free space on the disk of a log directory, as it was measured last, once something was appended there.",
    "directory",
)
LIMITED: Final = counter(
    "kraft_replication_throttled_bytes",
    "Bytes of replication that counted for a throttle: of the leader, to followers out of sync, and of the follower.",
    "side",
)
RATE: Final = gauge(
    "kraft_replication_throttle_rate_bytes",
    "Rate of a throttle of replication, in bytes a second, if it is set.",
    "side",
)
THROTTLE_WAIT: Final = gauge(
    "kraft_replication_throttle_wait_seconds",
    "Time until more of what a throttle limits may pass, if it is set.",
    "side",
)

METRICS: Final[tuple[Metric, ...]] = (
    ROUNDS,
    ROUND_AGE,
    SCRUBBED_SEGMENTS,
    SCRUBBED_BYTES,
    CORRUPT,
    PROGRESS,
    UNCLEANABLE,
    FREE_BYTES,
    LIMITED,
    RATE,
    THROTTLE_WAIT,
)


async def collect(parts: NodeParts, snapshot: Snapshot) -> None:
    if parts.broker is not None:
        _collect_logs(parts.broker.logs, snapshot)
        _collect_throttles(parts.broker.replicas.throttles, snapshot)


def _collect_logs(logs: BrokerLogs, snapshot: Snapshot) -> None:
    counts, now_s = logs.maintenance.counts, loop_time_s()
    for task, rounds in counts.rounds.items():
        snapshot.add(ROUNDS, rounds.count, task)
        if rounds.ended_s is not None:
            snapshot.add(ROUND_AGE, now_s - rounds.ended_s, task)
    snapshot.add(SCRUBBED_SEGMENTS, counts.scrubbed_segments)
    snapshot.add(SCRUBBED_BYTES, counts.scrubbed_bytes)
    snapshot.add(CORRUPT, counts.scrubbed_corrupt)
    if counts.scrub_progress is not None:
        snapshot.add(PROGRESS, counts.scrub_progress)
    snapshot.add(UNCLEANABLE, counts.uncleanable)
    for directory, free_bytes in logs.disk_space.free_bytes().items():
        snapshot.add(FREE_BYTES, free_bytes, directory)


def _collect_throttles(throttles: ReplicationThrottles, snapshot: Snapshot) -> None:
    for side, throttle in (("leader", throttles.leader), ("follower", throttles.follower)):
        snapshot.add(LIMITED, throttle.limited_bytes, side)
        if (rate := throttle.rate) is not None:
            snapshot.add(RATE, rate, side)
            snapshot.add(THROTTLE_WAIT, throttle.wait_ms() / 1_000, side)
