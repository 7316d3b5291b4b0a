"""Replicas that become corrupt, go missing or lose their disk, and a controller that decides as the real one does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kraft.metadata.broker_decisions import register_broker, unfence_broker
from kraft.metadata.image import MetadataImage
from kraft.metadata.partition_decisions import fail_replicas
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.fail_replicas import FailReplicasRequest, FailReplicasResult
from kraft.model.ids import BrokerId, Offset
from kraft.server.replica.partition import Partition
from tests.support.cluster_images import cluster, registration, with_topic
from tests.support.server.replicas import Broker, append_to, batch, leaders_batch, made
from tests.support.virtual_time import run_virtually
from tests.unit.server.replica.publishing import Host

LEADS = with_topic(cluster(1, 2, 3), [1, 2, 3])
FOLLOWS = with_topic(cluster(1, 2, 3), [2, 1, 3])
ALONE = with_topic(cluster(1, 2, 3), [1, 2, 3], isr=[1])


def flip_a_bit(directory: Path, at: int = 65) -> None:
    """Flip a bit in the partition's first segment, after the header of its first batch."""
    file = directory / f"{0:020}.log"
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)


def read(of: Partition) -> bytes:
    return of.replica_log.read(Offset(0), 1 << 20, of.log.log_end_offset, True)


def corrupt(host: Host, number: int = 0) -> None:
    """The replica turns out to be damaged when it is read."""
    damaged = host.partition(number)
    flip_a_bit(Path(damaged.log.directory))
    with pytest.raises(Refusal) as refused:
        read(damaged)
    assert refused.value.error_code is ErrorCode.KAFKA_STORAGE_ERROR


def filled(host: Host, number: int = 0, *values: str) -> Partition:
    """Return a replica with records on the disk, in any role."""
    held = host.partition(number)
    for at, value in enumerate(values or ("a", "b"), start=held.log.log_end_offset):
        if held.leader is not None:
            append_to(held, batch(value), -1)
        else:
            made(held, held.append_as_follower(leaders_batch(value, at=at)))
        host.broker.sync()
    return held


class Cluster:
    """A controller that decides as the real one; its metadata reaches the broker when the test says so."""

    def __init__(self, host: Host, image: MetadataImage) -> None:
        self.host = host
        self.image = image
        host.controllers.answers["fail_replicas"] = self._decide

    def _decide(self, request: FailReplicasRequest) -> FailReplicasResult:
        decision = fail_replicas(self.image, request)
        self.image = self.image.replay(decision.records)
        return decision.response

    @property
    def reports(self) -> list[FailReplicasRequest]:
        return self.host.controllers.requests("fail_replicas")

    async def publish(self) -> None:
        await self.host.act_on(self.image)


@asynccontextmanager
async def reporting(host: Host, image: MetadataImage) -> AsyncIterator[Cluster]:
    """The host acts on `image`, and its failures are reported."""
    controller = Cluster(host, image)
    await controller.publish()
    try:
        async with running(host.failures.run()):
            yield controller
    finally:
        await host.publisher.close()


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run the work as a task, which is cancelled in the end."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def run(scenario: Coroutine[Any, Any, None]) -> None:
    run_virtually(scenario)


def restarted(tmp_path: Path, *names: str, unusable: tuple[str, ...] = (), clean: bool = False) -> Host:
    return Host(Broker(tmp_path), names=names, unusable=unusable).start(clean_shutdown=clean)


def as_registered_anew(image: MetadataImage) -> MetadataImage:
    """Broker 1 has another process."""
    request = registration(1, process=1 + image.next_broker_epoch)
    return image.replay(register_broker(image, request, session_is_alive=False).records)


def unfenced(image: MetadataImage) -> MetadataImage:
    epoch = image.brokers[BrokerId(1)].broker_epoch
    return image.replay(unfence_broker(image, BrokerId(1), epoch).records)
