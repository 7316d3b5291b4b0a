"""Broker 1 with a publisher, over real disks, and with controllers that answer what the test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from kraft.metadata.image import EMPTY_IMAGE, MetadataImage
from kraft.metadata.records import PartitionChanged
from kraft.model.fail_replicas import FailReplicasResult
from kraft.model.ids import (
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
    TopicIdPartition,
)
from kraft.server.cluster.own_registration import OwnRegistration
from kraft.server.replica.directory_remover import DirectoryRemover
from kraft.server.replica.failures import ReplicaFailures
from kraft.server.replica.fetcher import ReplicaFetcher
from kraft.server.replica.log_directories import LogDirectories, as_log_directory
from kraft.server.replica.partition import Partition
from kraft.server.replica.publisher import ReplicaPublisher
from kraft.server.replica.replica_directories import ReplicaDirectories
from kraft.server.replica.replica_storage import ReplicaStorage
from tests.support.cluster_images import ORDERS, ids
from tests.support.server.fake_controllers import FakeControllers
from tests.support.server.replicas import DEFAULTS, Broker, InlineExecutor, settle


class FakeFetcher:
    def __init__(self, leader_id: int, breaks: bool) -> None:
        self.leader_id = leader_id
        self.is_running = False
        self.assignments = 0
        self.looks_at_held_back = 0
        self.looks_at_unlimited = 0
        self._breaks = breaks

    def assignment_changed(self) -> None:
        self.assignments += 1

    def look_at_held_back(self) -> None:
        self.looks_at_held_back += 1

    def look_at_unlimited(self) -> None:
        self.looks_at_unlimited += 1

    async def run(self) -> None:
        self.is_running = True
        try:
            assert not self._breaks, "our bug"
            await asyncio.sleep(3_600)
        finally:
            self.is_running = False


class HeldExecutor(Executor):
    """Does nothing before the test says so, as a disk that is slow."""

    def __init__(self) -> None:
        self.held: list[Callable[[], None]] = []

    def submit(self, work: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        self.held.append(lambda: _run(done, lambda: work(*arguments, **named)))
        return done

    async def step(self) -> None:
        """Do the work that was submitted first."""
        self.held.pop(0)()
        await settle()

    async def work(self) -> None:
        """Do all work, also what follows from it."""
        await settle()
        while self.held:
            await self.step()


def _run(done: Future[Any], work: Callable[[], Any]) -> None:
    try:
        done.set_result(work())
    except Exception as error:  # noqa: BLE001  As an executor does.
        done.set_exception(error)


@dataclass(slots=True)
class Host:
    """Its log directories are `names` in the broker's directory, or that one. `broker.failures` end the node."""

    broker: Broker
    names: Sequence[str] = ()
    unusable: Sequence[str] = ()
    indispensable: str | None = None
    fetchers: list[FakeFetcher] = field(default_factory=list)
    fetchers_break: bool = False
    controllers: FakeControllers = field(default_factory=lambda: FakeControllers(fail_replicas=FailReplicasResult()))
    log_directories: LogDirectories = field(init=False)
    failures: ReplicaFailures = field(init=False)
    remover: DirectoryRemover = field(init=False)
    """Removes what is marked for deletion when the test says so."""
    publisher: ReplicaPublisher = field(init=False)
    image: MetadataImage = EMPTY_IMAGE
    registration: OwnRegistration = field(default_factory=lambda: OwnRegistration(broker_id=BrokerId(1)))

    def start(self, *, clean_shutdown: bool = False) -> Host:
        for name in self.names:
            self.path(name).mkdir(exist_ok=True)
        good = [as_log_directory(self.path(name)) for name in self.names or [""] if name not in self.unusable]
        unusable = {as_log_directory(self.path(name)): "no disk" for name in self.unusable}
        self.log_directories = LogDirectories(good, unusable)
        storage = ReplicaStorage(
            disk=self.broker.disk,
            directories=self.log_directories,
            replica_directories=ReplicaDirectories(
                self.broker.disk, self.log_directories, closed_cleanly=good if clean_shutdown else ()
            ),
            thread=InlineExecutor(),
            threads=dict.fromkeys([*good, *unusable], InlineExecutor()),
        )
        self.failures = ReplicaFailures(
            registration=self.registration,
            partitions=self.broker.partitions,
            storage=storage,
            indispensable=None if self.indispensable is None else as_log_directory(self.path(self.indispensable)),
            controllers=self.controllers.as_client(),
            fatal=self.broker.failures.append,
        )
        self.remover = DirectoryRemover(
            disk=self.broker.disk,
            directories=self.log_directories,
            thread=InlineExecutor(),
            directory_failed=self.failures.directory_failed,
        )
        self.publisher = ReplicaPublisher(
            registration=self.registration,
            partitions=self.broker.partitions,
            storage=storage,
            failures=self.failures,
            remover=self.remover,
            defaults=DEFAULTS,
            services=replace(
                self.broker.services(),
                directory_failed=self.failures.partition_directory_failed,
                replica_is_corrupt=self.failures.replica_is_corrupt,
            ),
            make_fetcher=self._make_fetcher,
            fatal=self.broker.failures.append,
        )
        return self

    async def act_on(self, image: MetadataImage) -> None:
        self.registration.broker_epoch = image.brokers[BrokerId(1)].broker_epoch
        await self.publisher.publish(self.image, image)
        self.image = image

    def use_thread(self, thread: Executor, name: str | None = None) -> None:
        """Use the store in that thread from now on, or only the log directory of that name."""
        publisher = self.publisher
        before = publisher._storage
        if name is None:
            storage = replace(before, thread=thread, threads=dict.fromkeys(before.threads, thread))
        else:
            storage = replace(before, threads={**before.threads, as_log_directory(self.path(name)): thread})
        for part in (publisher, publisher._stopper, publisher._openings, publisher._checkpoints):
            part._storage = storage

    async def marked(self) -> None:
        """Wait until deleted replicas are marked as such on the disk."""
        await self.publisher._stopper.wait_for_free_names()

    def partition(self, number: int = 0, topic_id: TopicId = ORDERS) -> Partition:
        return self.broker.partitions.by_id(TopicIdPartition(topic_id, number))

    def path(self, name: str = "") -> Path:
        return self.broker.directory / name if name else self.broker.directory

    def directories(self, name: str = "") -> list[str]:
        return sorted(path.name for path in self.path(name).iterdir() if path.is_dir())

    def _make_fetcher(self, leader_id: BrokerId) -> ReplicaFetcher:
        self.fetchers.append(FakeFetcher(leader_id, self.fetchers_break))
        return cast(ReplicaFetcher, self.fetchers[-1])


def changed(
    leader: int, *, epoch: int, isr: tuple[int, ...] = (1, 2), partition: int = 0, leader_epoch: int | None = None
) -> PartitionChanged:
    """Change to partition epoch `epoch`, and by default to leader epoch `epoch`."""
    return PartitionChanged(
        topic_id=ORDERS,
        partition=partition,
        isr=ids(*isr),
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(epoch if leader_epoch is None else leader_epoch),
        partition_epoch=PartitionEpoch(epoch),
    )
