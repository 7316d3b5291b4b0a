"""What lies around the partitions of a broker, as they see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kraft.model.ids import BrokerId
from kraft.replication.effects import ProposeIsr

if TYPE_CHECKING:
    from kraft.server.replica.partition import Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSurroundings:
    """What every partition of a broker shares. Times are monotonic milliseconds."""

    broker_id: BrokerId
    replica_lag_time_max_ms: int
    sync_before_ack: bool
    """log.durability=fsync; with page-cache what is written counts as durable."""
    monotonic_ms: Callable[[], int]
    wall_ms: Callable[[], int]
    request_sync: Callable[[Partition], None]
    propose_isr: Callable[[Partition, ProposeIsr], None]
    directory_failed: Callable[[Partition, str], None]
    """A write or a sync failed in the partition's log directory: nothing in there can be relied on any more."""
    replica_is_corrupt: Callable[[Partition, str], None]
    """Bytes of this replica that were whole are not any more. It alone can no longer be relied on."""
    is_active: Callable[[BrokerId], bool] = lambda broker_id: True
    """False of a broker that the metadata has for fenced or shutting down."""
    off_loop: bool = False
    """Changes of a log are made step by step by whoever syncs it, not where they are asked for."""
    admit: Callable[[str, int], None] = lambda directory, size_bytes: None
    """Raises Refusal KAFKA_STORAGE_ERROR while the disk of that log directory has no room for so many bytes."""
