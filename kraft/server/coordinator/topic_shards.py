"""The shards of one internal topic on this broker: one for each partition that it leads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from kraft.coordinator.group_partition import partition_of
from kraft.coordinator.shard import DecisionContext, ShardKind
from kraft.coordinator.shard_refusals import broker_stopping, not_coordinator
from kraft.metadata.image import CurrentImage, MetadataImage
from kraft.runtime.clock import Clock
from kraft.runtime.entropy import Entropy, random_uuid
from kraft.server.coordinator.shard_host import ShardHost, ShardHostServices
from kraft.server.loop.purgatory import Watch
from kraft.server.replica.partition import Partition

Replicated = TypeVar("Replicated")
Volatile = TypeVar("Volatile")
Command = TypeVar("Command")
Record = TypeVar("Record")

DRAIN_S_MAX: Final = 2.0
"""How long a broker that stops waits for the commit of what was decided."""


def decision_context(clock: Clock, entropy: Entropy, image: MetadataImage) -> DecisionContext:
    """Return what decisions depend on now, besides the shard."""
    return DecisionContext(now_ms=clock.wall_ms(), image=image, random_id=str(random_uuid(entropy)))


class TopicShards(Generic[Replicated, Volatile, Command, Record]):
    """Starts and stops shards as this broker begins and ceases to lead partitions of the topic."""

    def __init__(
        self,
        topic: str,
        kind: ShardKind[Replicated, Volatile, Command, Record],
        services: ShardHostServices,
        image: CurrentImage,
    ) -> None:
        self._topic = topic
        self._kind = kind
        self._services = services
        self._image = image
        self._by_number: dict[int, ShardHost[Replicated, Volatile, Command, Record]] = {}
        self.is_stopping = False

    def __iter__(self) -> Iterator[ShardHost[Replicated, Volatile, Command, Record]]:
        """Iterate over the hosts in the order of their partitions."""
        return iter([self._by_number[number] for number in sorted(self._by_number)])

    def running(self, partition: Partition) -> ShardHost[Replicated, Volatile, Command, Record] | None:
        """Return the host of the partition's shard; None if this broker no longer leads it."""
        host = self._by_number.get(partition.topic_partition.partition)
        return host if host is not None and host.is_running else None

    def host_of(self, key: str) -> ShardHost[Replicated, Volatile, Command, Record]:
        """Return the host of the partition that a group id or transactional id selects. Raises Refusal."""
        if self.is_stopping:
            raise broker_stopping()
        topic = self._image().topic(self._topic)
        if topic is None:
            raise not_coordinator(f"there is no topic {self._topic}")
        return self.host(partition_of(key, len(topic.partitions)))

    def host(self, number: int) -> ShardHost[Replicated, Volatile, Command, Record]:
        """Return the host of a partition. Raises Refusal."""
        if self.is_stopping:
            raise broker_stopping()
        host = self._by_number.get(number)
        if host is None:
            raise not_coordinator(f"this broker does not lead {self._topic}-{number}")
        return host

    def role_changed(self, partition: Partition) -> None:
        """Start a shard where this broker begins to lead, and stop it where it no longer does."""
        if partition.topic_partition.topic != self._topic:
            return
        number = partition.topic_partition.partition
        earlier = self._by_number.get(number)
        if earlier is not None and earlier.partition is partition:
            del self._by_number[number]
            earlier.resign(f"this broker stopped leading {partition.topic_partition}")
        if partition.leader is not None and not self.is_stopping:
            host = self._by_number[number] = ShardHost(partition, self._kind, self._services)
            host.start()

    async def drain(self) -> None:
        """Refuse new requests, wait briefly for the commit of what was decided, and refuse those that wait longer."""
        self.is_stopping = True
        loop = asyncio.get_running_loop()
        until_s = loop.time() + DRAIN_S_MAX
        with Watch([host.partition.committed for host in self]) as watch:
            while any(not host.is_settled for host in self) and loop.time() < until_s:
                watch.again()
                await watch.wait(min(until_s - loop.time(), DRAIN_S_MAX / 10))
        hosts, self._by_number = tuple(self), {}
        for host in hosts:
            host.resign("this broker is stopping")
        await asyncio.gather(*(host.close() for host in hosts))
