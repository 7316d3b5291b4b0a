"""The power fails, or the process dies, at every point of the creation of a topic's replicas.

The next process opens every replica: none seems to be lost. One that had its role, and so may have had records, has its
directory and its entry in the checkpoint, so that its loss would be noticed.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, cast
from uuid import UUID

import pytest

from kraft.metadata.image import MetadataImage
from kraft.model.ids import LogDirectory, TopicId, TopicPartition
from kraft.server.replica.high_watermarks import read_high_watermarks
from tests.support.cluster_images import cluster, with_topic
from tests.support.disks.sim_content import CrashMode
from tests.support.disks.sim_disk import SimDisk
from tests.support.server.replicas import Broker
from tests.unit.server.replica.failing_replicas import as_registered_anew
from tests.unit.server.replica.publishing import Host

ROOT = LogDirectory("data")
BEFORE = with_topic(cluster(1, 2, 3), [1, 2])
AFTER = with_topic(BEFORE, [1, 2], [2, 1], [1], topic="later", topic_id=TopicId(UUID(int=200)))


def host_of(disk: SimDisk) -> Host:
    return Host(Broker(Path(ROOT), disk=cast(Any, disk))).start()


def served(host: Host) -> set[TopicPartition]:
    return {each.topic_partition for each in host.broker.partitions if each.leader_epoch >= 0}


async def moments_of_a_creation(*, at_the_start: bool) -> list[tuple[SimDisk, str, set[TopicPartition]]]:
    """Return the disk at each point, in the middle of the operation named, and the replicas with roles by then."""
    disk = SimDisk()
    disk.make_dir(ROOT)
    disk.sync_dir("")
    host, moments = host_of(disk), list[tuple[SimDisk, str, set[TopicPartition]]]()
    if not at_the_start:
        await host.act_on(BEFORE)
    disk.on_point = lambda: moments.append((disk.clone(), disk.last_operation, served(host)))
    await host.act_on(AFTER)
    assert len(served(host)) == 4
    disk.on_point = None
    await host.publisher.checkpoint()
    moments.append((disk.clone(), "none", served(host)))
    await host.publisher.fetchers.close()
    return moments


async def open_again(disk: SimDisk, image: MetadataImage, operation: str) -> None:
    host = host_of(disk)
    await host.act_on(as_registered_anew(image))
    assert host.broker.partitions.offline == [], operation
    assert all(each.log.log_end_offset == 0 for each in host.broker.partitions)
    assert len(host.broker.partitions) == 4
    await host.publisher.fetchers.close()


@pytest.mark.parametrize("at_the_start", [True, False])
@pytest.mark.parametrize("mode", CrashMode)
async def test_a_crash_anywhere_in_a_creation_loses_no_replica(mode: CrashMode, at_the_start: bool) -> None:
    moments = await moments_of_a_creation(at_the_start=at_the_start)
    assert len(moments) > 20
    repeats = (30 if at_the_start else 3) if mode is CrashMode.REORDER else 1
    for seed, (disk, operation, with_roles) in enumerate(moments * repeats):
        crashed = disk.clone()
        crashed.crash(mode, Random(seed))
        in_checkpoint = read_high_watermarks(crashed, ROOT).keys()
        assert with_roles <= in_checkpoint, operation
        assert {str(each) for each in in_checkpoint} <= set(crashed.list(ROOT)), operation
        if not at_the_start:
            # Without an earlier checkpoint, one that the metadata counts on may be lost with a log directory.
            await open_again(crashed, AFTER, operation)
