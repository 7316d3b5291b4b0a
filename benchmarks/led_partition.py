"""A partition that this process leads alone, without a node: real files, no sync before an acknowledgement."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from benchmarks.log_batches import BASE_TIMESTAMP_MS, batches, stamp
from kraft.log.append_work import AppendMustWait
from kraft.log.partition_log import PartitionLog
from kraft.metadata.configs import broker_defaults
from kraft.metadata.image import PartitionImage
from kraft.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch, TopicId, TopicPartition
from kraft.runtime.disk import RealDisk
from kraft.server.replica.partition import Partition
from kraft.server.replica.partition_services import PartitionServices
from kraft.server.upkeep.disk_space import DiskSpace
from kraft.wire.declaration import ZERO_UUID

_NO_ID: Final = TopicId(ZERO_UUID)
_BROKER: Final = BrokerId(1)
_FREE_BYTES_MIN: Final = 1 << 20
_GIVEN_UP_BYTES: Final = 1 << 10


def led_partition(directory: Path, topic: str, number: int = 0, topic_id: TopicId = _NO_ID) -> Partition:
    disk, topic_partition, config = RealDisk(), TopicPartition(topic, number), broker_defaults({})
    space = DiskSpace(disk, _FREE_BYTES_MIN, _monotonic_ms)
    path = f"{directory}/{topic_partition}"
    partition = Partition(
        topic_partition=topic_partition,
        topic_id=topic_id,
        log=PartitionLog.open(disk, path, config, topic_partition),
        high_watermark=Offset(0),
        config=config,
        services=PartitionServices(
            broker_id=_BROKER,
            replica_lag_time_max_ms=30_000,
            sync_before_ack=False,
            monotonic_ms=_monotonic_ms,
            wall_ms=lambda: BASE_TIMESTAMP_MS,
            request_sync=lambda partition: None,
            holds_writes=lambda directory: False,
            propose_isr=lambda partition, proposal: None,
            directory_failed=lambda partition, reason: None,
            replica_is_corrupt=lambda partition, reason: None,
            is_active=lambda broker_id: True,
            admit=space.admit,
            role_changed=lambda partition: None,
        ),
    )
    partition.lead(led_state(number), BrokerEpoch(1))
    _begin_epoch(partition)
    return partition


def led_state(number: int) -> PartitionImage:
    """Return the metadata of such a partition."""
    return PartitionImage(
        partition=number,
        replicas=(_BROKER,),
        isr=(_BROKER,),
        leader=_BROKER,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
    )


def _begin_epoch(partition: Partition) -> None:
    """Write the leader's epoch, as an append does whose producer gives up: no measured request waits for it."""
    with suppress(AppendMustWait):
        partition.append(stamp(next(batches(_GIVEN_UP_BYTES))), acks=1)
    while (step := partition.replica_log.prepare_sync()) is not None:
        step.run()
        partition.replica_log.complete_sync(step)


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
