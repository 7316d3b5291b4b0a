"""Kills the leader of a partition, restarts it, and measures the outage."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from msgspec import Struct

from kraft.cli.demo.failure import DemoFailed
from kraft.cli.demo.publishing import Acknowledgement
from kraft.cli.printing import Say
from kraft.client import Admin, TopicPartition
from kraft.local.local_cluster import LocalCluster
from kraft.wire.schema.describe_topic_partitions import DescribeTopicPartitionsResponsePartition

RESTART_AFTER_S: Final = 5.0
"""Longer than an election takes by default, so that the old leader does not return during it."""

_ANSWER_DEADLINE_MS: Final = 10_000


class OutageFigures(Struct, frozen=True, kw_only=True):
    """Times of an outage, in seconds.

    `elected_after_s`: from the kill until a live broker named another leader. `unacknowledged_s`: the longest time
    since the kill without an acknowledged flight of the partition, which is what a user notices. `in_sync_after_s`:
    from the kill until the node was an in-sync replica of every partition again.
    """

    node_id: int
    partition: TopicPartition
    elected_after_s: float
    unacknowledged_s: float
    in_sync_after_s: float


class Outage:
    """An outage: `begin` in the publisher's thread, then `step` in one other thread until `is_over`."""

    def __init__(self, cluster: LocalCluster, admin: Admin, partition: TopicPartition, say: Say) -> None:
        self._cluster = cluster
        self._admin = admin
        self._partition = partition
        self._say = say
        self._node_id = -1
        self._killed_at_s: float | None = None
        self._elected_at_s: float | None = None
        self._restarted_at_s: float | None = None
        self._in_sync_at_s: float | None = None

    @property
    def is_over(self) -> bool:
        return self._in_sync_at_s is not None

    def begin(self) -> None:
        """Kill the leader of the partition with SIGKILL."""
        self._node_id = self._partitions()[self._partition.partition].leader_id
        if self._node_id not in self._cluster.nodes:
            raise DemoFailed(f"{self._partition} has no leader to kill")
        node = self._cluster.nodes[self._node_id]
        self._say(f"Halfway: killing node {self._node_id} (kill -9 {node.pid}), the leader of {self._partition}")
        killed_at_s = time.monotonic()
        node.kill()
        self._killed_at_s = killed_at_s

    def step(self) -> None:
        """Check the next expected change once, and return without waiting for it."""
        if self._killed_at_s is None or self.is_over:
            return
        if self._elected_at_s is None:
            self._look_for_leader(self._killed_at_s)
        elif self._restarted_at_s is None:
            self._restart_when_due(self._killed_at_s)
        else:
            self._look_for_replica(self._killed_at_s)

    def figures(self, acknowledgements: Iterable[Acknowledgement]) -> OutageFigures:
        """Return the figures once the outage is over. `acknowledgements` are those of all flights."""
        assert self._killed_at_s is not None
        assert self._elected_at_s is not None
        assert self._in_sync_at_s is not None
        return OutageFigures(
            node_id=self._node_id,
            partition=self._partition,
            elected_after_s=self._elected_at_s - self._killed_at_s,
            unacknowledged_s=silence_s(acknowledgements, self._partition, self._killed_at_s),
            in_sync_after_s=self._in_sync_at_s - self._killed_at_s,
        )

    def _look_for_leader(self, killed_at_s: float) -> None:
        leader_id = self._partitions()[self._partition.partition].leader_id
        if leader_id in self._cluster.nodes and leader_id != self._node_id:
            self._elected_at_s = time.monotonic()
            took_s = self._elected_at_s - killed_at_s
            self._say(f"Node {leader_id} leads {self._partition} {took_s:.2f} s after the kill")

    def _restart_when_due(self, killed_at_s: float) -> None:
        if time.monotonic() >= killed_at_s + RESTART_AFTER_S:
            self._say(f"Restarting node {self._node_id}")
            self._cluster.nodes[self._node_id].start()
            self._restarted_at_s = time.monotonic()

    def _look_for_replica(self, killed_at_s: float) -> None:
        self._cluster.nodes[self._node_id].check_running()
        if all(self._node_id in partition.isr_nodes for partition in self._partitions()):
            self._in_sync_at_s = time.monotonic()
            took_s = self._in_sync_at_s - killed_at_s
            self._say(f"Node {self._node_id} is in sync again {took_s:.2f} s after the kill")

    def _partitions(self) -> list[DescribeTopicPartitionsResponsePartition]:
        """Return the partitions by number. Any live broker can answer."""
        (topic,) = self._admin.describe_topics([self._partition.topic], timeout_ms=_ANSWER_DEADLINE_MS)
        return sorted(topic.metadata.partitions, key=lambda partition: partition.partition_index)


def silence_s(acknowledgements: Iterable[Acknowledgement], partition: TopicPartition, since_s: float) -> float:
    """Return the longest time since `since_s` without an acknowledgement for the partition."""
    times_s = [since_s]
    times_s += sorted(
        acknowledgement.acknowledged_at_s
        for acknowledgement in acknowledgements
        if acknowledgement.acknowledged_at_s > since_s and partition in acknowledgement.partitions
    )
    return max((later_s - earlier_s for earlier_s, later_s in pairwise(times_s)), default=0.0)
