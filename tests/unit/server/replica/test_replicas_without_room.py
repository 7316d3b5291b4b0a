"""New replicas for which there is no room on the disk: no directory fails, and they are created once there is room."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from errno import ENOSPC
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from kraft.metadata.records import TopicDeleted
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import Offset, TopicId, TopicIdPartition
from kraft.server.replica.high_watermarks import FILE_NAME, read_high_watermarks
from kraft.server.replica.log_directories import as_log_directory
from kraft.server.replica.openings import CREATION_RETRY_S
from kraft.server.replica.partitions import Damage, OfflineReplica
from kraft.server.replica.replica_directories import METADATA_FILE
from tests.support.cluster_images import ORDERS, cluster, partition, with_topic
from tests.support.server.replicas import ORDERS_0, Broker, FailingDisk, outcome, until, values_in
from tests.unit.server.replica.failing_replicas import (
    Cluster,
    as_registered_anew,
    corrupt,
    filled,
    reporting,
    restarted,
    running,
    unfenced,
)
from tests.unit.server.replica.publishing import Host

LATER = TopicId(UUID(int=200))
WAIT_S = 3 * CREATION_RETRY_S


class FullDisk(FailingDisk):
    """Has no room for files whose path contains `refused`, until the test says otherwise."""

    refused = ""

    def open(self, path: str, create: bool) -> Any:
        self._check(path)
        return super().open(path, create)

    def write_atomically(self, path: str, data: bytes) -> None:
        self._check(path)
        super().write_atomically(path, data)

    def _check(self, path: str) -> None:
        if self.refused and self.refused in path:
            raise OSError(ENOSPC, "No space left on device")


@pytest.fixture
def disk() -> FullDisk:
    return FullDisk()


@pytest.fixture
def host(tmp_path: Path, disk: FullDisk) -> Host:
    return Host(Broker(tmp_path, disk=disk)).start()


@asynccontextmanager
async def creating(host: Host) -> AsyncIterator[Cluster]:
    """The host acts on an image without topics, and tries again to create what it could not."""
    async with reporting(host, cluster(1, 2, 3)) as controller, running(host.publisher.create_delayed()):
        yield controller


def offline(host: Host) -> OfflineReplica:
    (replica,) = host.broker.partitions.offline
    return replica


def is_open(host: Host, number: int = 0, topic_id: TopicId = ORDERS) -> bool:
    return host.broker.partitions.find(TopicIdPartition(topic_id, number)) is not None


def in_checkpoint(host: Host) -> bool:
    return ORDERS_0 in read_high_watermarks(host.broker.disk, as_log_directory(host.path()))


@pytest.mark.parametrize("refused", [METADATA_FILE, FILE_NAME])
async def test_the_only_replica_of_a_partition_is_created_and_leads_once_there_is_room(
    host: Host, disk: FullDisk, refused: str
) -> None:
    async with creating(host) as controller:
        disk.refused = refused
        controller.image = with_topic(controller.image, [1])
        await controller.publish()
        assert offline(host).damage is Damage.NOT_CREATED
        assert (host.directories(), host.broker.failures, len(host.log_directories.online)) == ([], [], 1)
        with pytest.raises(Refusal, match="no room on the disk to create it") as refusal:
            host.partition()
        assert refusal.value.error_code is ErrorCode.KAFKA_STORAGE_ERROR
        await asyncio.sleep(WAIT_S)
        assert (offline(host).damage, host.directories(), host.broker.failures) == (Damage.NOT_CREATED, [], [])
        assert controller.reports == [], "nobody else could lead, and a report would end its leadership"
        disk.refused = ""
        await until(lambda: is_open(host), within_s=WAIT_S)
        parked = filled(host).park_produce(Offset(2))
        assert outcome(parked) is ErrorCode.NONE
        assert (host.broker.partitions.offline, in_checkpoint(host)) == ([], True)


async def test_a_replica_without_room_leaves_the_isr_and_follows_the_next_leader(host: Host, disk: FullDisk) -> None:
    async with creating(host) as controller:
        disk.is_full = True
        controller.image = with_topic(controller.image, [1, 2, 3])
        await controller.publish()
        await until(lambda: partition(controller.image).isr == (2, 3))
        await controller.publish()
        await asyncio.sleep(WAIT_S)
        assert not is_open(host)
        disk.is_full = False
        await until(lambda: is_open(host), within_s=WAIT_S)
        assert (host.partition().followed, [each.leader_id for each in host.fetchers]) == (2, [2])


async def test_a_corrupt_replica_is_copied_again_once_there_is_room(host: Host, disk: FullDisk) -> None:
    async with creating(host) as controller:
        controller.image = with_topic(controller.image, [2, 1, 3])
        await controller.publish()
        filled(host)
        disk.refused = METADATA_FILE
        corrupt(host)
        await until(lambda: partition(controller.image).isr == (2, 3))
        await controller.publish()
        assert host.directories() == ["orders-0.0-quarantine"]
        disk.refused = ""
        await until(lambda: is_open(host), within_s=WAIT_S)
        assert (host.partition().followed, host.partition().log.log_end_offset) == (2, 0)


async def test_a_replica_that_was_never_created_is_not_missed_after_a_restart(
    tmp_path: Path, host: Host, disk: FullDisk
) -> None:
    async with creating(host) as controller:
        disk.refused = "orders-0/"
        controller.image = with_topic(controller.image, [1])
        await controller.publish()
        await host.publisher.checkpoint()
        assert offline(host).damage is Damage.NOT_CREATED
        image = controller.image
    again = restarted(tmp_path)
    async with reporting(again, unfenced(as_registered_anew(image))):
        assert again.partition().leader is not None


async def test_a_replica_without_room_is_deleted_with_its_topic(host: Host, disk: FullDisk) -> None:
    async with creating(host) as controller:
        disk.is_full = True
        controller.image = with_topic(controller.image, [1])
        await controller.publish()
        controller.image = controller.image.replay([TopicDeleted(topic_id=ORDERS)])
        await controller.publish()
        disk.is_full = False
        await asyncio.sleep(WAIT_S)
        assert (host.broker.partitions.offline, host.directories()) == ([], [])


async def test_a_topic_is_deleted_from_a_full_disk(host: Host, disk: FullDisk) -> None:
    async with creating(host) as controller:
        controller.image = with_topic(controller.image, [1])
        await controller.publish()
        disk.is_full = True
        controller.image = controller.image.replay([TopicDeleted(topic_id=ORDERS)])
        await controller.publish()
        await host.marked()
        assert (host.directories(), host.broker.failures) == (["orders-0.0-delete"], [])
        await host.remover.remove_waiting()
        disk.is_full = False
        controller.image = with_topic(controller.image, [1], topic_id=LATER)
        await controller.publish()
        assert values_in(host.partition(topic_id=LATER)) == []


async def test_metadata_is_applied_while_replicas_wait_for_room(host: Host, disk: FullDisk) -> None:
    async with creating(host) as controller:
        controller.image = with_topic(controller.image, [1])
        await controller.publish()
        disk.refused = "later-"
        controller.image = with_topic(controller.image, [1], [1], topic="later", topic_id=LATER)
        await controller.publish()
        assert host.partition().leader is not None
        assert len(host.broker.partitions.offline) == 2
        disk.refused = "later-1"
        await until(lambda: is_open(host, topic_id=LATER), within_s=WAIT_S)
        assert offline(host).topic_partition.partition == 1


async def test_a_log_directory_with_room_is_used_instead_of_a_full_one(tmp_path: Path, disk: FullDisk) -> None:
    two = Host(Broker(tmp_path, disk=disk), names=["a", "b"]).start()
    async with reporting(two, cluster(1, 2, 3)) as controller:
        disk.refused = f"{two.path('a')}/orders"
        controller.image = with_topic(controller.image, [1], [1])
        await controller.publish()
        assert (two.directories("a"), two.directories("b")) == ([], ["orders-0", "orders-1"])


async def test_a_checkpoint_without_room_is_logged_once_until_there_is_room(host: Host, disk: FullDisk) -> None:
    async with creating(host):
        pass
    with capture_logs() as lines:
        for refused in (FILE_NAME, FILE_NAME, "", FILE_NAME, FILE_NAME):
            disk.refused = refused
            await host.publisher.checkpoint()
    skipped = [each for each in lines if each["event"] == "high watermark checkpoint skipped, disk full"]
    assert [each["log_level"] for each in skipped] == ["warning"] * 2
