"""The throttles of this broker's replication: which replicas they are for, and what passed.

A follower in the ISR is never throttled, nor one that the leader has proposed for it: acknowledgements wait for these.
Bytes count only where they could also have waited. Source: KIP-73.
"""

from __future__ import annotations

import structlog

from kraft.metadata.image import EMPTY_IMAGE, MetadataImage
from kraft.model.callbacks import NowMs
from kraft.model.ids import BrokerId
from kraft.quotas.replication_throttle import UNLIMITED, ReplicationThrottle
from kraft.replication.follower import PartitionFollower
from kraft.server.config.components import ReplicationConfig
from kraft.server.replica.partition import Partition

log = structlog.get_logger()


class SideThrottle:
    """What both sides of replication have."""

    def __init__(self, broker_id: BrokerId, rate: int, monotonic_ms: NowMs) -> None:
        self._broker_id = broker_id
        self._monotonic_ms = monotonic_ms
        self._throttle = ReplicationThrottle(rate, monotonic_ms())
        self.limited_bytes = 0
        """Bytes that counted since the process began."""

    def set_rate(self, rate: int) -> None:
        self._throttle.set_rate(rate, self._monotonic_ms())

    @property
    def rate(self) -> int | None:
        """Bytes per second; None: there is no limit."""
        return self._throttle.rate if self._throttle.is_set else None

    def wait_ms(self) -> int:
        """Return the time until what is limited may be sent, or fetched; 0: now."""
        return self._throttle.wait_ms(self._monotonic_ms())


class LeaderThrottle(SideThrottle):
    """What this broker sends to followers that are out of sync."""

    def limits(self, partition: Partition, follower: BrokerId) -> bool:
        """Return whether records of the partition count, and may wait, when they are sent to this follower."""
        if not self._throttle.is_set:
            return False
        named, leader = partition.log.config.leader_replication_throttled_replicas, partition.leader
        if leader is None or not named.includes(partition.topic_partition.partition, self._broker_id):
            return False
        return follower not in leader.maximal_isr

    def sent(self, size_bytes: int) -> None:
        """Count bytes that are limited."""
        self.limited_bytes += size_bytes
        self._throttle.take(size_bytes, self._monotonic_ms())


class FollowerThrottle(SideThrottle):
    """What this broker fetches while it is out of sync."""

    def __init__(self, broker_id: BrokerId, rate: int, fetch_bytes_max: int, monotonic_ms: NowMs) -> None:
        """`fetch_bytes_max` is the most that a fetch returns of one partition, except for a single batch."""
        super().__init__(broker_id, rate, monotonic_ms)
        self.image: MetadataImage = EMPTY_IMAGE
        """The latest metadata, which says whether this broker is in sync."""
        self._fetch_bytes_max = fetch_bytes_max

    def limits(self, partition: Partition, follower: PartitionFollower) -> bool:
        """Return whether a fetch of the partition counts, and may wait.

        One that lacks nothing committed tells the leader so: without it the replica would not join the ISR.
        """
        if not self._throttle.is_set or follower.has_all_committed:
            return False
        named = partition.log.config.follower_replication_throttled_replicas
        if not named.includes(partition.topic_partition.partition, self._broker_id):
            return False
        state = self.image.partition_by_id(partition.topic_id, partition.topic_partition.partition)
        return state is None or self._broker_id not in state.isr

    def reserve(self) -> int:
        """Count a fetch that is limited before it is sent, because others are sent before its answer is there.

        Returns the number of bytes, which is the most that the fetch may ask for.
        """
        # What is lost with a connection then takes no longer than a second.
        size_bytes = max(1, min(self._fetch_bytes_max, self._throttle.rate))
        self._throttle.take(size_bytes, self._monotonic_ms())
        return size_bytes

    def received(self, reserved_bytes: int, size_bytes: int) -> None:
        """Count what the fetch has brought, in place of what was reserved for it."""
        self.limited_bytes += size_bytes
        self._throttle.take(size_bytes - reserved_bytes, self._monotonic_ms())


class ReplicationThrottles:
    """Those of one broker."""

    def __init__(self, config: ReplicationConfig, broker_id: BrokerId, monotonic_ms: NowMs) -> None:
        self._monotonic_ms = monotonic_ms
        self._config = config
        self.leader = LeaderThrottle(broker_id, config.leader_throttled_rate, monotonic_ms)
        self.follower = FollowerThrottle(
            broker_id, config.follower_throttled_rate, config.fetch_bytes_max, monotonic_ms
        )
        self.directory_moves = ReplicationThrottle(config.directory_move_rate, monotonic_ms())

    def reconfigure(self, config: ReplicationConfig) -> None:
        """Use these rates from now on, for what waits too."""
        if _rates(config) != _rates(self._config):
            log.info("replication throttles changed", **_rates(config))
        self._config = config
        self.leader.set_rate(config.leader_throttled_rate)
        self.follower.set_rate(config.follower_throttled_rate)
        self.directory_moves.set_rate(config.directory_move_rate, self._monotonic_ms())


def _rates(config: ReplicationConfig) -> dict[str, int | None]:
    """Return the rates in bytes per second, None for no limit."""
    rates = {
        "leader": config.leader_throttled_rate,
        "follower": config.follower_throttled_rate,
        "log_directories": config.directory_move_rate,
    }
    return {name: rate if rate < UNLIMITED else None for name, rate in rates.items()}
