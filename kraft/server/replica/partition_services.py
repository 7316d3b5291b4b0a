"""Settings and callbacks that all partitions of a broker share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from kraft.model.callbacks import BrokerCondition, NowMs
from kraft.model.ids import BrokerId, LogDirectory
from kraft.replication.effects import ProposeIsr

if TYPE_CHECKING:
    from kraft.server.replica.partition import Partition
    from kraft.server.replica.replica_log import ReplicaLog


Admit = Callable[[LogDirectory, int], None]
"""Raises Refusal KAFKA_STORAGE_ERROR while the disk of that log directory has no room for that many bytes."""

OnPartition = Callable[["Partition"], None]
"""Called when something has happened to a partition."""

PartitionFailed = Callable[["Partition", str], None]
"""Called when a partition has failed, with the reason in one line."""


class PartitionServices(Struct, frozen=True, kw_only=True):
    """Settings and callbacks that all partitions of a broker share. Times are monotonic ms, except `wall_ms`."""

    broker_id: BrokerId
    replica_lag_time_max_ms: int
    sync_before_ack: bool
    """True for log.durability=fsync; with page-cache, written bytes count as durable."""
    monotonic_ms: NowMs
    wall_ms: NowMs
    request_sync: Callable[[ReplicaLog], None]
    holds_writes: Callable[[LogDirectory], bool]
    """Returns True for a log directory whose syncs take so long that no write to a file should meet a sync of it."""
    propose_isr: Callable[[Partition, ProposeIsr], None]
    directory_failed: PartitionFailed
    """Reports a failed write or sync in the partition's log directory: all its replicas go offline."""
    replica_is_corrupt: PartitionFailed
    """Reports that durable bytes of this replica have changed: it alone goes offline."""
    is_active: BrokerCondition
    """Returns False for a broker that is fenced or shutting down in the metadata."""
    admit: Admit
    role_changed: OnPartition
    """Called when this broker begins to lead a partition, in each leader epoch, and when it no longer does."""
