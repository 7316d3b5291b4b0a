from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from kraft.log.change import run_now
from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.model.ids import Offset, TopicId, TopicPartition
from kraft.runtime.disk import RealDisk
from kraft.server.replica.log_directories import as_log_directory
from kraft.server.replica.partition import Partition
from kraft.server.upkeep.disk_space import DiskSpace
from kraft.server.upkeep.maintenance import LogMaintenanceTasks
from kraft.server.upkeep.throttle import Throttle
from tests.support.server.replicas import (
    DEFAULTS,
    WALL_MS,
    Broker,
    InlineExecutor,
    append_to,
    follow,
    lead,
    made,
    remove_directory,
)
from tests.unit.server.upkeep.cleaning import CONFIG, contents, roll


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


@asynccontextmanager
async def maintaining(broker: Broker, **config: Any) -> AsyncIterator[LogMaintenanceTasks]:
    tasks = LogMaintenanceTasks(
        partitions=broker.partitions,
        disk=RealDisk(),
        disk_space=DiskSpace(RealDisk(), 0, lambda: broker.now_ms),
        config=replace(CONFIG, **config),
        wall_ms=lambda: broker.wall_ms,
        worker_threads=InlineExecutor(),
        store_threads={as_log_directory(broker.directory): InlineExecutor()},
    )
    running = asyncio.create_task(tasks.run())
    try:
        yield tasks
    finally:
        running.cancel()
        await asyncio.wait([running])
    assert running.cancelled()


def write(partition: Partition, *keys: str, age_ms: int = 0) -> None:
    """A batch with a record for each key, that was made so long ago."""
    records = [Record(0, WALL_MS - age_ms, key.encode(), b"v" * 100) for key in keys]
    append_to(partition, build_batch(records), 1)


def filled(broker: Broker, *ages_ms: int, **configs: Any) -> Partition:
    """One segment for each age, the last one active, all committed."""
    partition = broker.open(**{"segment_ms": 10**15, **configs})
    lead(partition, replicas=(1,))
    for number, age_ms in enumerate(ages_ms):
        if number:
            run_now(partition.log.rolling())
        write(partition, f"k{number}", age_ms=age_ms)
    broker.sync()
    return partition


def files(partition: Partition, suffix: str) -> list[str]:
    return sorted(path.name for path in Path(partition.log.directory).iterdir() if path.name.endswith(suffix))


# --- retention -----------------------------------------------------------------------------------------------


async def test_old_segments_are_deleted_at_the_next_check(broker: Broker) -> None:
    partition = filled(broker, 50_000, 40_000, 0, retention_ms=30_000)
    before = partition.log.size_bytes
    with capture_logs() as logged:
        async with maintaining(broker) as tasks:
            await asyncio.sleep(0.9)
            assert partition.log.log_start_offset == 0
            await asyncio.sleep(0.2)
            assert partition.log.log_start_offset == 2
    assert tasks.counts.retention_deletions == 1
    assert tasks.counts.retention_bytes == before - partition.log.size_bytes > 0
    assert [each["event"] for each in logged] == ["segments deleted by retention"]


async def test_the_active_segment_is_deleted_too_when_all_of_it_is_too_old(broker: Broker) -> None:
    partition = filled(broker, 50_000, 40_000, retention_ms=30_000)
    async with maintaining(broker):
        await asyncio.sleep(1.1)
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (2, 2)
    write(partition, "next")
    broker.sync()
    assert [offset for offset, _, _ in contents(partition)] == [2]
    assert partition.high_watermark == 3


async def test_uncommitted_records_stay(broker: Broker) -> None:
    partition = broker.open(segment_ms=10**15, retention_ms=1)
    lead(partition, replicas=(1, 2))
    write(partition, "a", age_ms=50_000)
    broker.sync()
    async with maintaining(broker):
        await asyncio.sleep(5)
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (0, 1)


async def test_a_new_bound_on_the_size_holds_from_the_next_check_on(broker: Broker) -> None:
    partition = filled(broker, 0, 0, 0, 0)
    async with maintaining(broker):
        await asyncio.sleep(1.1)
        assert len(partition.log.segments()) == 4
        config = replace(DEFAULTS, retention_bytes=2 * partition.log.segments()[0].size_bytes)
        partition.reconfigure(config)
        await asyncio.sleep(1.1)
    assert partition.log.log_start_offset == 2


async def test_a_follower_keeps_its_own_retention(broker: Broker) -> None:
    partition = filled(broker, 50_000, 0, retention_ms=30_000)
    follow(partition, epoch=1)
    async with maintaining(broker):
        await asyncio.sleep(1.1)
    assert partition.log.log_start_offset == 1


async def test_a_segment_is_rolled_when_it_is_old_without_a_write(broker: Broker) -> None:
    partition = filled(broker, 0, segment_ms=10_000)
    async with maintaining(broker):
        await asyncio.sleep(1.1)
        assert len(partition.log.segments()) == 1
        broker.wall_ms += 10_001
        await asyncio.sleep(1.1)
    assert [segment.size_bytes > 0 for segment in partition.log.segments()] == [True, False]


async def test_deleted_records_give_their_space_back_without_waiting_for_the_check(broker: Broker) -> None:
    partition = filled(broker, 0, 0, 0)
    async with maintaining(broker, retention_check_interval_ms=300_000) as tasks:
        made(partition, partition.delete_records(2)[1])
        tasks.records_deleted()
        await asyncio.sleep(0.1)
    assert [segment.base_offset for segment in partition.log.segments()] == [2]


async def test_a_log_that_cannot_be_maintained_does_not_block_others(broker: Broker) -> None:
    broken = filled(broker, 50_000, retention_ms=1)
    sound = filled(
        broker, 50_000, retention_ms=1, topic_partition=TopicPartition("payments", 0), topic_id=TopicId(UUID(int=7))
    )
    broker.disk.fails_syncs_in = (broken.log.directory,)
    with capture_logs() as logged:
        async with maintaining(broker):
            await asyncio.sleep(3)
    assert len(broker.failures) == 1
    assert not broken.is_open
    assert [each["event"] for each in logged] == ["retention delayed", "segments deleted by retention"]
    assert (broken.log.log_start_offset, sound.log.log_start_offset) == (0, 1)


async def test_retention_that_finds_no_room_in_the_thread_is_applied_later(tmp_path: Path) -> None:
    filled(Broker(tmp_path), 50_000, 0).close()
    broker = Broker(tmp_path)
    broker.thread.holds_steps = True
    partition = broker.open(high_watermark=2, segment_ms=10**15, retention_ms=30_000)
    follow(partition)
    with capture_logs() as logged:
        async with maintaining(broker):
            for is_full in (True, False):
                broker.disk.is_full = is_full
                await asyncio.sleep(1.1)
                broker.sync_all()
    assert [each["event"] for each in logged] == ["retention delayed", "segments deleted by retention"]
    assert partition.log.log_start_offset == 1


# --- files ---------------------------------------------------------------------------------------------------


async def test_files_outlive_their_segment_by_the_configured_time(broker: Broker) -> None:
    partition = filled(broker, 50_000, 0, retention_ms=30_000, file_delete_delay_ms=60_000)
    async with maintaining(broker):
        await asyncio.sleep(1.1)
        assert files(partition, ".deleted")
        assert files(partition, ".log") == ["00000000000000000001.log"]
        await asyncio.sleep(59)
        assert files(partition, ".deleted")
        await asyncio.sleep(1.1)
        assert files(partition, ".deleted") == []


async def test_files_of_a_partition_that_was_deleted_meanwhile_cause_no_error(broker: Broker) -> None:
    partition = filled(broker, 50_000, 0, retention_ms=30_000)
    with capture_logs() as logged:
        async with maintaining(broker):
            await asyncio.sleep(1.1)
            broker.partitions.remove(partition)
            partition.retire()
            remove_directory(partition)
            await asyncio.sleep(100)
    assert [each["event"] for each in logged] == ["segments deleted by retention"]


async def test_a_file_that_cannot_be_removed_is_logged_and_the_others_are_removed(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = filled(broker, 50_000, 0, retention_ms=30_000)
    remove = RealDisk.remove

    def remove_no_index(disk: RealDisk, path: str) -> None:
        if path.endswith(".index.deleted"):
            raise OSError("input/output error")
        remove(disk, path)

    monkeypatch.setattr(RealDisk, "remove", remove_no_index)
    with capture_logs() as logged:
        async with maintaining(broker):
            await asyncio.sleep(100)
    assert [each["event"] for each in logged] == ["segments deleted by retention", "file deletion failed"]
    assert files(partition, ".deleted") == ["00000000000000000000.index.deleted"]


# --- the smaller tasks -----------------------------------------------------------------------------------------


async def test_logs_are_compacted_and_what_was_replaced_is_removed(broker: Broker) -> None:
    partition = broker.open(cleanup_policy=("compact",), segment_ms=10**15, file_delete_delay_ms=0)
    lead(partition, replicas=(1,))
    for _ in range(3):
        write(partition, "a", "b")
        roll(partition)
    async with maintaining(broker):
        await asyncio.sleep(5)
    assert [offset for offset, _, _ in contents(partition)] == [4, 5]
    assert files(partition, ".deleted") == []


async def test_without_the_cleaner_nothing_is_compacted(broker: Broker) -> None:
    partition = filled(broker, 0, 0, 0, cleanup_policy=("compact",))
    async with maintaining(broker, cleaner_enabled=False):
        await asyncio.sleep(60)
    assert partition.log.cleaned_end_offset == 0


async def test_silent_producers_expire(broker: Broker) -> None:
    partition = broker.open(segment_ms=10**15)
    lead(partition, replicas=(1,))
    records = [Record(0, WALL_MS, None, b"v")]
    append_to(partition, build_batch(records, producer_id=7, producer_epoch=0, base_sequence=0), 1)
    async with maintaining(broker, producer_id_expiration_ms=10_000):
        await asyncio.sleep(1.1)
        assert set(partition.log.producers) == {7}
        broker.now_ms += 10_001
        await asyncio.sleep(1.1)
        assert set(partition.log.producers) == set()


async def test_with_the_page_cache_records_are_synced_when_they_have_waited_long_enough(broker: Broker) -> None:
    broker.sync_before_ack = False
    partition = broker.open(flush_ms=5_000, segment_ms=10**15)
    lead(partition, replicas=(1,))
    async with maintaining(broker):
        write(partition, "a")
        await asyncio.sleep(1.1)
        assert broker.unsynced == []
        broker.now_ms += 5_000
        await asyncio.sleep(1.1)
        assert broker.unsynced == [partition.replica_log]
        broker.sync()
        assert partition.log.synced_end_offset == Offset(1)
        broker.now_ms += 50_000
        await asyncio.sleep(3)
        assert broker.unsynced == []


async def test_another_pause_of_the_cleaner_holds_from_the_next_one_on(broker: Broker) -> None:
    async with maintaining(broker, cleaner_backoff_ms=10_000) as tasks:
        await asyncio.sleep(1)
        tasks.reconfigure(replace(CONFIG, cleaner_backoff_ms=100))
        await asyncio.sleep(10)
        partition = filled(broker, 0, 0, 0, cleanup_policy=("compact",))
        await asyncio.sleep(0.5)
        assert partition.log.cleaned_end_offset > 0


async def test_other_speeds_of_the_cleaner_and_the_scrub_count_at_once(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: list[int] = []
    monkeypatch.setattr(Throttle, "set_rate", lambda _, bytes_per_second_max: rates.append(bytes_per_second_max))
    async with maintaining(broker) as tasks:
        tasks.reconfigure(replace(CONFIG, cleaner_io_bytes_per_second_max=5, scrub_io_bytes_per_second_max=6))
    assert rates == [5, 6]
