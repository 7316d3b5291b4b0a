"""Consumers in groups of a simulated cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from kraft.client.aio.consumer import Consumer
from kraft.client.cluster.network import Network
from kraft.client.model.values import ConsumerRecord
from kraft.coordinator.groups.settings import GroupShardSettings
from kraft.model.ids import TopicPartition
from tests.support import cluster_images
from tests.support.client.fake_cluster import FakeCluster
from tests.support.client.fake_groups import FakeGroups
from tests.support.client.fake_partition import FakePartition
from tests.support.virtual_time import LoopClock, Unchanging
from tests.unit.client.clients import fill

GROUP = "billing"
RECORDS = 20

PROTOCOLS: dict[str, dict[str, Any]] = {
    "consumer": {"group_protocol": "consumer"},
    "eager": {"group_protocol": "classic"},
    "roundrobin": {"partition_assignment_strategy": "roundrobin"},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
}
"""Settings of members."""


class _Numbered(Unchanging):
    """Bytes that differ from one consumer to the next, for member ids."""

    def __init__(self, number: int) -> None:
        self._number = number

    def bytes(self, count: int) -> bytes:
        return self._number.to_bytes(count, "big")


@asynccontextmanager
async def cluster_with_orders(
    partitions: int = 4, records: int = RECORDS, settings: GroupShardSettings | None = None
) -> AsyncIterator[tuple[FakeCluster, FakeGroups]]:
    """Yield a cluster whose topic `orders` has as many records in each partition, and the coordinator of its groups."""
    cluster = FakeCluster()
    place(cluster, "orders", partitions)
    for number in range(partitions):
        fill(cluster, "orders", records, number)
    groups = cluster.groups = FakeGroups(cluster, settings)
    try:
        yield cluster, groups
    finally:
        groups.close()


def place(cluster: FakeCluster, topic: str, partitions: int) -> None:
    cluster.place(topic, *([number % 3 + 1] for number in range(partitions)))


def grow(cluster: FakeCluster, topic: str) -> int:
    """Add a partition to the topic, and return its number."""
    number = len(cluster.topics[topic])
    cluster.topics[topic].append(FakePartition(leader_id=number % 3 + 1))
    cluster.image = cluster_images.with_partition(
        cluster.image, number, [number % 3 + 1], topic_id=cluster.topic_id(topic)
    )
    return number


def member_of(cluster: FakeCluster, number: int = 1, **settings: Any) -> Consumer:
    """Return a consumer of the group; members differ by their numbers."""
    network = Network(connect=lambda: cluster, clock=LoopClock(), entropy=_Numbered(number))
    given = {"group_id": GROUP, "auto_offset_reset": "earliest", **settings}
    return Consumer(cluster.bootstrap_servers, network=network, **given)


class Reader:
    """A member that polls in a task of its own until it is stopped, and what it has seen."""

    def __init__(self, consumer: Consumer, *, commits: bool = False) -> None:
        self.consumer = consumer
        self.records: list[ConsumerRecord] = []
        self.events: list[tuple[str, list[TopicPartition]]] = []
        self._commits = commits
        self._is_stopped = False
        self._task = asyncio.create_task(self._read())

    def subscribe(self, *topics: str, **more: Any) -> None:
        self.consumer.subscribe(
            topics,
            on_assigned=self._noted("assigned"),
            on_revoked=self._noted("revoked"),
            on_lost=self._noted("lost"),
            **more,
        )

    def _noted(self, event: str) -> Callable[[list[TopicPartition]], None]:
        return lambda partitions: self.events.append((event, partitions))

    async def _read(self) -> None:
        while not self._is_stopped:
            self.records += await self.consumer.poll(timeout_ms=100)
            if self._commits:
                await self.consumer.commit()

    async def stop(self) -> None:
        """Stop polling; the consumer stays open."""
        self._is_stopped = True
        await self._task

    async def close(self) -> None:
        await self.stop()
        await self.consumer.close()


def reader(cluster: FakeCluster, number: int = 1, *, commits: bool = False, **settings: Any) -> Reader:
    """Return a member of the group that subscribes to `orders` and polls."""
    started = Reader(member_of(cluster, number, **settings), commits=commits)
    started.subscribe("orders")
    return started


async def until(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds, on virtual time."""
    async with asyncio.timeout(600):
        while not condition():  # noqa: ASYNC110  The coordinator tells nobody.
            await asyncio.sleep(0.05)
