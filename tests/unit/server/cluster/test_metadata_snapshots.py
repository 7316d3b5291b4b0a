from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Event
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from kraft.log.disk import Disk
from kraft.metadata.image import EMPTY_IMAGE
from kraft.metadata.records import TopicCreated
from kraft.metadata.replayed_image import ContradictoryEntry
from kraft.model.errors import Corruption
from kraft.model.ids import TopicId
from kraft.quorum.snapshots import SnapshotId, SnapshotStore
from kraft.server.cluster.metadata_snapshots import (
    CHECK_INTERVAL_S,
    CHUNK_BYTES,
    NOTHING_LOADED,
    LoadedImage,
    MetadataSnapshots,
    SnapshotPolicy,
    decode_image,
    encode_image,
)
from tests.support.cluster_images import CLUSTER, cluster, with_topic
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.server.replicas import settle, until

pytestmark = pytest.mark.real_time

POLICY = SnapshotPolicy(entry_bytes_between=1_000, interval_ms=60_000)


class Holder:
    """Has an image of so many topics, at an index ten times that."""

    def __init__(self) -> None:
        self.image = cluster(1, 2)
        self.index = 10
        self.entry_bytes_total = 0

    def current_image(self) -> LoadedImage:
        return LoadedImage(image=self.image, index=self.index, term=3)

    def commit(self, entry_bytes: int = 10) -> None:
        self.index += 10
        self.image = self.image.replay([TopicCreated(topic=f"t{self.index}", topic_id=TopicId(UUID(int=self.index)))])
        self.entry_bytes_total += entry_bytes


class Parts:
    def __init__(self, disk: Disk, policy: SnapshotPolicy, cluster_id: str) -> None:
        self.store = SnapshotStore(disk, "metadata")
        self.holder = Holder()
        self.now_ms = 0
        self.failures: list[str] = []
        self.written: list[int] = []
        self.snapshots = MetadataSnapshots(
            self.store,
            self.holder,
            policy=policy,
            cluster_id=cluster_id,
            monotonic_ms=lambda: self.now_ms,
            failed=self.failures.append,
            written=lambda index, _: self.written.append(index),
        )

    def indexes(self) -> list[int]:
        return [snapshot_id.index for snapshot_id in self.store.generations()]


@asynccontextmanager
async def parts_on(disk: Disk, policy: SnapshotPolicy = POLICY, cluster_id: str = CLUSTER) -> AsyncIterator[Parts]:
    parts = Parts(disk, policy, cluster_id)
    try:
        yield parts
    finally:
        parts.snapshots.close()


def damage(disk: MemoryDisk, path: str) -> None:
    disk.write_file(path, disk.read_file(path)[:-1])


# --- images as chunks ---------------------------------------------------------------------------------------------


def test_an_image_comes_back_from_its_chunks() -> None:
    image = with_topic(cluster(1, 2, 3), *([1, 2, 3] for _ in range(3_000)))
    chunks = list(encode_image(image))
    assert len(chunks) > 1
    assert max(map(len, chunks)) < CHUNK_BYTES + 200
    assert decode_image(chunks, 7) == image


def test_the_empty_image_has_no_chunks() -> None:
    assert list(encode_image(EMPTY_IMAGE)) == []
    assert decode_image([], 0) == EMPTY_IMAGE


def test_a_chunk_that_this_version_does_not_know_is_corruption() -> None:
    with pytest.raises(Corruption):
        decode_image([b"\xff\xff"], 7)


def test_records_that_do_not_fit_together_are_refused_in_words_for_an_operator() -> None:
    chunks = list(encode_image(with_topic(cluster(1), [1])))
    with pytest.raises(ContradictoryEntry, match="contradicts the metadata before it"):
        decode_image([*chunks, *chunks], 7)


# --- writing ------------------------------------------------------------------------------------------------------


async def test_a_written_snapshot_is_loaded_by_the_next_process() -> None:
    disk = MemoryDisk()
    async with parts_on(disk) as parts:
        assert await parts.snapshots.load() == NOTHING_LOADED
        parts.holder.commit()
        await parts.snapshots.write()
        expected = parts.holder.current_image()
    disk.crash()
    async with parts_on(disk) as parts:
        assert await parts.snapshots.load() == expected


async def test_nothing_is_written_when_nothing_is_new() -> None:
    disk = MemoryDisk()
    async with parts_on(disk) as parts:
        await parts.snapshots.write()
        syncs = disk.syncs
        await parts.snapshots.write()
        assert (disk.syncs, parts.written) == (syncs, [10])


async def test_a_snapshot_is_due_after_enough_bytes_or_after_the_interval_if_anything_is_new() -> None:
    async with parts_on(MemoryDisk()) as parts:
        snapshots, holder = parts.snapshots, parts.holder
        await snapshots.write()
        parts.now_ms += 1_000_000
        due = [snapshots.is_due]
        holder.commit()
        due.append(snapshots.is_due)
        await snapshots.write()
        holder.commit(999)
        due.append(snapshots.is_due)
        holder.commit(1)
        due.append(snapshots.is_due)
        await snapshots.write()
        due.append(snapshots.is_due)
        # Nothing is new; the time is over; 999 bytes are not enough; 1,000 are; nothing is new.
        assert due == [False, True, False, True, False]
        assert parts.indexes() == [40, 20]


async def test_an_interval_of_0_disables_snapshots_by_time() -> None:
    async with parts_on(MemoryDisk(), SnapshotPolicy(entry_bytes_between=1_000, interval_ms=0)) as parts:
        parts.now_ms += 10**9
        parts.holder.commit()
        assert not parts.snapshots.is_due


async def test_the_task_writes_what_is_due() -> None:
    async with parts_on(MemoryDisk()) as parts:
        running = asyncio.create_task(parts.snapshots.run())
        parts.holder.commit(5_000)
        await until(lambda: parts.written == [20], CHECK_INTERVAL_S + 5)
        running.cancel()
        await asyncio.wait([running])


@pytest.mark.parametrize("failing", ["fails_writes", "fails_next_sync"])
async def test_a_failed_disk_is_reported_once_and_never_written_to_again(failing: str) -> None:
    disk = MemoryDisk()
    async with parts_on(disk) as parts:
        setattr(disk, failing, True)
        await parts.snapshots.write()
        (failure,) = parts.failures
        assert failure.startswith("the metadata snapshot cannot be written to metadata: ")
        disk.fails_writes = False
        parts.holder.commit(5_000)
        assert not parts.snapshots.is_due
        await parts.snapshots.write()
        assert (parts.indexes(), parts.written, len(parts.failures)) == ([], [], 1)


async def test_a_write_that_waited_behind_one_that_failed_is_not_carried_out() -> None:
    disk = MemoryDisk()
    async with parts_on(disk) as parts:
        disk.fails_next_sync = True
        thread_is_free = Event()
        parts.snapshots._thread.submit(thread_is_free.wait)
        writes = [asyncio.create_task(parts.snapshots.write()) for _ in range(2)]
        await settle()
        thread_is_free.set()
        await asyncio.gather(*writes)
        assert (parts.indexes(), parts.written, len(parts.failures)) == ([], [], 1)


# --- loading ------------------------------------------------------------------------------------------------------


async def two_generations(disk: MemoryDisk) -> tuple[LoadedImage, LoadedImage]:
    async with parts_on(disk) as parts:
        await parts.snapshots.write()
        first = parts.holder.current_image()
        parts.holder.commit()
        await parts.snapshots.write()
        return first, parts.holder.current_image()


async def test_a_damaged_snapshot_is_skipped_for_the_one_before() -> None:
    disk = MemoryDisk()
    first, second = await two_generations(disk)
    async with parts_on(disk) as parts:
        damage(disk, parts.store.path(SnapshotId(index=second.index, term=3)))
        assert await parts.snapshots.load() == first


async def test_without_a_whole_snapshot_a_voter_fails_and_a_broker_starts_empty() -> None:
    disk = MemoryDisk()
    await two_generations(disk)
    async with parts_on(disk) as parts:
        for snapshot_id in parts.store.generations():
            damage(disk, parts.store.path(snapshot_id))
        with pytest.raises(Corruption, match=r"00000000000000000020-0000000003.checkpoint at byte"):
            await parts.snapshots.load()
        with capture_logs() as events:
            assert await parts.snapshots.load_or_start_empty() == NOTHING_LOADED
        assert [event["log_level"] for event in events] == ["error"]
        assert parts.indexes() == []
        await parts.snapshots.write()
        assert parts.indexes() == [10]


async def test_a_snapshot_of_another_cluster_is_refused() -> None:
    disk = MemoryDisk()
    await two_generations(disk)
    async with parts_on(disk, cluster_id="another") as parts:
        with pytest.raises(Corruption, match=f"the snapshot is of cluster '{CLUSTER}', not 'another'"):
            await parts.snapshots.load()


async def test_a_disk_that_cannot_be_read_is_reported() -> None:
    class Unreadable(MemoryDisk):
        def read_file(self, path: str) -> bytes:
            raise OSError("input/output error")

    disk = Unreadable()
    await two_generations(disk)
    async with parts_on(disk) as parts:
        assert await parts.snapshots.load_or_start_empty() == NOTHING_LOADED
        assert parts.failures == ["the metadata snapshot cannot be read from metadata: input/output error"]
        await parts.snapshots.write()
        assert parts.written == []
