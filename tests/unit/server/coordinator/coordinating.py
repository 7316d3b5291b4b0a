"""Coordinators that count, on one broker with real logs and virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any
from uuid import UUID

from kraft.coordinator.groups.settings import GroupShardSettings
from kraft.coordinator.shard import ShardKind
from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.metadata.image import MetadataImage
from kraft.metadata.topic_names import OFFSETS_TOPIC
from kraft.model.errors import ErrorCode, KraftError, Refusal
from kraft.model.ids import TopicId, TopicPartition
from kraft.server.coordinator.group_coordinators import GroupCoordinators
from kraft.server.coordinator.shard_host import HostSettings
from kraft.server.replica.partition import Partition
from kraft.server.replica.waiting_appends import WaitingAppends
from tests.support.cluster_images import cluster, with_topic
from tests.support.counter_shard import CounterShard, decode, encode
from tests.support.server.replicas import Broker, InlineExecutor, append_to, lead, settle
from tests.support.virtual_time import LoopClock, Unchanging

OFFSETS = TopicId(UUID(int=50))
OFFSETS_0 = TopicPartition(OFFSETS_TOPIC, 0)


def decode_or_raise(key: bytes | None, value: bytes | None) -> bytes | None:
    try:
        return decode(key, value)
    except ValueError as error:
        raise KraftError(str(error)) from error


class Count(int):
    """A count in place of groups: no member subscribes by a regular expression."""

    with_regexes: Mapping[str, bool] = {}


class CountingGroups(CounterShard):
    def empty(self) -> int:
        return Count(0)

    def replay(self, replicated: int, record: bytes) -> int:
        return Count(super().replay(replicated, record))


class Coordinating:
    """Broker 1 and its coordinators; the topic has one partition, by default with broker 1 as its only replica."""

    def __init__(
        self,
        directory: Path,
        *,
        executor: Executor | None = None,
        settings: HostSettings | None = None,
        sync_before_ack: bool = False,
        partitions: int = 1,
    ) -> None:
        self.crashes: list[str] = []
        self.image: MetadataImage = with_topic(cluster(1), *[[1]] * partitions, topic=OFFSETS_TOPIC, topic_id=OFFSETS)
        self.waiting_appends = WaitingAppends(InlineExecutor())
        self.coordinators = GroupCoordinators(
            ShardKind(shard=CountingGroups(), encode=encode, decode=decode_or_raise),  # type: ignore[arg-type]  # Its commands are not those of groups.
            settings or HostSettings(),
            group_settings=GroupShardSettings(),
            image=lambda: self.image,
            clock=LoopClock(),
            entropy=Unchanging(),
            waiting_appends=self.waiting_appends,
            executor=executor or InlineExecutor(),
            fatal=self.crashes.append,
            index=lambda: 0,
        )
        self.broker = Broker(directory, sync_before_ack=sync_before_ack, role_changed=self.coordinators.role_changed)

    def open(self, **configs: Any) -> Partition:
        return self.broker.open(OFFSETS_0, OFFSETS, **configs)

    async def leading(self, *, epoch: int = 1, replicas: tuple[int, ...] = (1,), **configs: Any) -> Partition:
        """Return the partition that this broker leads, after its coordinator was loaded."""
        partition = self.open(**configs)
        lead(partition, epoch=epoch, replicas=replicas)
        await settle()
        return partition

    async def loading(self, *numbers: int) -> Partition:
        """Return the partition, with these records, that this broker leads; its coordinator has not been loaded."""
        partition = self.open()
        lead(partition, replicas=(1,))
        append_counts(partition, *numbers)
        await settle()
        return partition

    def send(self, command: Any, group_id: str = "group") -> asyncio.Task[Any]:
        """Send a command. The result is the response, or the error code of the refusal."""

        async def sent() -> Any:
            try:
                return await self.coordinators.decide(group_id, command)
            except Refusal as refusal:
                return refusal.error_code

        return asyncio.create_task(sent())

    async def do(self, command: Any) -> Any:
        return await self.send(command)

    async def close(self) -> None:
        await self.coordinators.drain()
        await self.waiting_appends.close()
        assert self.crashes == []


def append_foreign(partition: Partition, *records: tuple[bytes | None, bytes | None]) -> None:
    """Append records that the coordinator did not write."""
    append_to(partition, build_batch([Record(at, 1_000, key, value) for at, (key, value) in enumerate(records)]), -1)


def append_counts(partition: Partition, *numbers: int) -> None:
    """Append records as an earlier coordinator wrote them."""
    append_foreign(partition, *(encode(b"%d" % number) for number in numbers))


class HeldExecutor(Executor):
    """Runs work when the test says so."""

    def __init__(self) -> None:
        self.held: list[Callable[[], None]] = []

    def submit(self, work: Any, /, *arguments: Any, **named: Any) -> Any:
        done: Future[Any] = Future()

        def run() -> None:
            if done.set_running_or_notify_cancel():
                done.set_result(work(*arguments, **named))

        self.held.append(run)
        return done

    async def release(self) -> None:
        """Run what is held, and what follows from it."""
        while self.held:
            self.held.pop(0)()
            await settle()


LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
