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


class PartitionServices(Struct, frozen=True, kw_only=True):
    """Settings and callbacks that all partitions of a broker share. Times are monotonic ms, except `wall_ms`."""

    broker_id: BrokerId
    replica_lag_time_max_ms: int
    sync_before_ack: bool
    """True for log.durability=fsync; with page-cache, written bytes count as durable."""
    monotonic_ms: NowMs
    wall_ms: NowMs
    request_sync: Callable[[ReplicaLog], None]
    propose_isr: Callable[[Partition, ProposeIsr], None]
    directory_failed: Callable[[Partition, str], None]
    """Reports a failed write or sync in the partition's log directory: all its replicas go offline."""
    replica_is_corrupt: Callable[[Partition, str], None]
    """Reports that durable bytes of this replica have changed: it alone goes offline."""
    is_active: BrokerCondition
    """Returns False for a broker that is fenced or shutting down in the metadata."""
    admit: Callable[[LogDirectory, int], None]
    """Raises Refusal KAFKA_STORAGE_ERROR while the disk of that log directory has no room for that many bytes."""
    role_changed: Callable[[Partition], None]
    """Called when this broker begins to lead a partition, in each leader epoch, and when it no longer does."""
