"""A node that dies while it is needed, and comes back: what happens to the partitions that it led."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from kraft.cli.demo.failure import DemoFailed
from kraft.cli.demo.publishing import Acknowledgement
from kraft.client import Admin, TopicPartition
from kraft.local.local_cluster import LocalCluster
from kraft.model.metadata import PartitionMetadata

RESTART_AFTER_S: Final = 5.0
"""Longer than a new leader takes by default, so that the old one does not come back into its own election."""

_ANSWER_DEADLINE_MS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageFigures:
    """`elected_after_s`: from the kill until a broker that lives named another leader of the partition.

    `unacknowledged_s`: the longest time from the kill on in which no flight of the partition was acknowledged, which
    is what a user feels. `in_sync_after_s`: from the kill until the node was an in-sync replica of everything again.
    """

    node_id: int
    partition: TopicPartition
    elected_after_s: float
    unacknowledged_s: float
    in_sync_after_s: float


class Outage:
    """Begins in the publisher's thread; then `step` brings it forward, from one thread, until `is_over`."""

    def __init__(
        self, cluster: LocalCluster, admin: Admin, partition: TopicPartition, say: Callable[[str], None]
    ) -> None:
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
        """kill -9 for the node that leads the partition."""
        self._node_id = self._partitions()[self._partition.partition].leader_id
        if self._node_id not in self._cluster.nodes:
            raise DemoFailed(f"{self._partition} has no leader that could be killed")
        node = self._cluster.nodes[self._node_id]
        self._say(f"Halfway: kill -9 for node {self._node_id} (pid {node.pid}), the leader of {self._partition}")
        killed_at_s = time.monotonic()
        node.kill()
        self._killed_at_s = killed_at_s

    def step(self) -> None:
        """One look at what is awaited next. Returns soon."""
        if self._killed_at_s is None or self.is_over:
            return
        if self._elected_at_s is None:
            self._look_for_leader(self._killed_at_s)
        elif self._restarted_at_s is None:
            self._restart_when_due(self._killed_at_s)
        else:
            self._look_for_replica(self._killed_at_s)

    def figures(self, acknowledgements: Iterable[Acknowledgement]) -> OutageFigures:
        """When it is over. `acknowledgements` are those of everything that was published."""
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
            self._say(f"Node {leader_id} leads {self._partition} now, {took_s:.2f} s after the kill")

    def _restart_when_due(self, killed_at_s: float) -> None:
        if time.monotonic() >= killed_at_s + RESTART_AFTER_S:
            self._say(f"Starting node {self._node_id} again")
            self._cluster.nodes[self._node_id].start()
            self._restarted_at_s = time.monotonic()

    def _look_for_replica(self, killed_at_s: float) -> None:
        self._cluster.nodes[self._node_id].check_running()
        if all(self._node_id in partition.isr for partition in self._partitions()):
            self._in_sync_at_s = time.monotonic()
            took_s = self._in_sync_at_s - killed_at_s
            self._say(f"Node {self._node_id} is in sync again, {took_s:.2f} s after the kill")

    def _partitions(self) -> list[PartitionMetadata]:
        """By number; every broker answers, so one that is dead is not in the way."""
        (topic,) = self._admin.describe_topics([self._partition.topic], timeout_ms=_ANSWER_DEADLINE_MS)
        return sorted(topic.metadata.partitions, key=lambda partition: partition.partition)


def silence_s(acknowledgements: Iterable[Acknowledgement], partition: TopicPartition, since_s: float) -> float:
    """The longest time, from `since_s` on, in which nothing that was sent to the partition was acknowledged."""
    times_s = [since_s]
    times_s += sorted(
        acknowledgement.acknowledged_at_s
        for acknowledgement in acknowledgements
        if acknowledgement.acknowledged_at_s > since_s and partition in acknowledgement.partitions
    )
    return max((later_s - earlier_s for earlier_s, later_s in pairwise(times_s)), default=0.0)
