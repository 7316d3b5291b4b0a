"""Implements `Cluster` with `kraft.client`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from kraft.client import Admin, ArrowChunk, Consumer, ErrorCode, Refusal, TopicPartition, WantedColumns
from spark_connector import kraft_reads
from spark_connector.cluster import Cluster, TopicMissing

FIRST_CONTACT_TIMEOUT_MS = 10_000
"""Short, so that a wrong address fails soon. Calls after the first answer have the client's default timeout."""

MISSING_TOPIC_GRACE_S = 3.0
"""Time for which a topic may be unknown before it counts as missing: a broker may learn of it late after its start."""

_MISSING_TOPIC_POLL_S = 0.2


class KraftCluster:
    """A cluster reached by an Admin and a Consumer. They connect at their first call, and only in this process."""

    def __init__(self, bootstrap_servers: Sequence[str], isolation_level: str = "read_committed") -> None:
        self._admin = Admin(bootstrap_servers)
        self._consumer = Consumer(bootstrap_servers, isolation_level=isolation_level)
        self._timeout_ms: int | None = FIRST_CONTACT_TIMEOUT_MS

    def partitions(self, topic: str) -> Sequence[int]:
        deadline = time.monotonic() + MISSING_TOPIC_GRACE_S
        while True:
            try:
                return self._partitions_now(topic)
            except TopicMissing:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_MISSING_TOPIC_POLL_S)

    def _partitions_now(self, topic: str) -> Sequence[int]:
        # The consumer caches a topic's partitions for minutes; a stream must see new ones soon.
        try:
            [described] = self._admin.describe_topics([topic], timeout_ms=self._timeout_ms)
        except Refusal as refusal:
            self._timeout_ms = None
            if refusal.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise TopicMissing(topic) from None
            raise
        self._timeout_ms = None
        return [each.partition for each in described.metadata.partitions]

    def earliest_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return self._consumer.beginning_offsets(partitions)

    def latest_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return self._consumer.end_offsets(partitions)

    def read(self, partition: TopicPartition, start: int, end: int, wanted: WantedColumns) -> Iterator[ArrowChunk]:
        return kraft_reads.read(self._consumer, partition, start, end, wanted)

    def close(self) -> None:
        self._consumer.close()
        self._admin.close()


def connect(bootstrap_servers: Sequence[str]) -> Cluster:
    """Return the cluster at these addresses, for committed records. The first call connects."""
    return KraftCluster(bootstrap_servers)


def connect_uncommitted(bootstrap_servers: Sequence[str]) -> Cluster:
    """Return the cluster at these addresses, also for records of open and aborted transactions."""
    return KraftCluster(bootstrap_servers, "read_uncommitted")
