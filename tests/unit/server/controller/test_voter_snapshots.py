from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from kraft.metadata.records import ClusterInitialised, TopicCreated
from kraft.metadata.snapshot_records import snapshot_records
from kraft.model.errors import Corruption
from kraft.model.ids import TopicId
from kraft.quorum.snapshots import Snapshot, SnapshotId, SnapshotStore
from kraft.rpc.metadata_codec import encode_records
from kraft.server.cluster.metadata_snapshots import SnapshotPolicy, encode_image
from kraft.server.controller.state_machine_host import StateMachineHost
from kraft.server.controller.voter_snapshots import READ_SNAPSHOT_KEPT_MS, VoterSnapshots
from tests.support.cluster_images import CLUSTER, cluster
from tests.support.disks.memory_disk import MemoryDisk

pytestmark = pytest.mark.real_time


class Journal:
    def __init__(self) -> None:
        self.forgotten: list[int] = []

    def forget_entries_to(self, index: int) -> None:
        self.forgotten.append(index)


class Parts:
    def __init__(self, disk: MemoryDisk) -> None:
        self.store = SnapshotStore(disk, "metadata")
        self.host = StateMachineHost(lambda active: None)
        self.journal = Journal()
        self.failures: list[str] = []
        self.now_ms = 0
        self.snapshots = VoterSnapshots(
            self.store,
            self.host,
            policy=SnapshotPolicy(entry_bytes_between=1, interval_ms=0),
            cluster_id=CLUSTER,
            monotonic_ms=lambda: self.now_ms,
            failed=self.failures.append,
        )
        self.snapshots.attach(self.journal)

    def commit(self, index: int) -> None:
        first = ClusterInitialised(cluster_id=CLUSTER)
        later = TopicCreated(topic=f"t{index}", topic_id=TopicId(UUID(int=index)))
        self.host.on_committed(index, 2, encode_records([later if self.host.image.cluster_id else first]))

    async def commit_and_write(self, *indexes: int) -> None:
        for index in indexes:
            self.commit(index)
            await self.snapshots.write()


@asynccontextmanager
async def loaded(disk: MemoryDisk) -> AsyncIterator[Parts]:
    parts = Parts(disk)
    try:
        await parts.snapshots.load()
        yield parts
    finally:
        parts.snapshots.close()


async def latest(snapshots: VoterSnapshots) -> Snapshot | None:
    """Ask for the snapshot, let it be read, and ask again."""
    found = snapshots.latest()
    if found is None and snapshots._reading is not None:
        await snapshots._reading
        found = snapshots.latest()
    return found


async def test_a_new_voter_starts_from_nothing() -> None:
    async with loaded(MemoryDisk()) as parts:
        assert (parts.snapshots.start_id, await latest(parts.snapshots)) == (None, None)
        assert parts.host.committed_index == 0


async def test_the_host_goes_on_from_the_latest_snapshot() -> None:
    disk = MemoryDisk()
    async with loaded(disk) as parts:
        await parts.commit_and_write(2, 5)
        image = parts.host.image
    async with loaded(disk) as parts:
        assert parts.snapshots.start_id == SnapshotId(index=5, term=2)
        assert (parts.host.image, parts.host.committed_index) == (image, 5)


async def test_the_journal_is_trimmed_behind_the_earlier_of_two_snapshots() -> None:
    async with loaded(MemoryDisk()) as parts:
        await parts.commit_and_write(2)
        assert parts.journal.forgotten == [], "a single one might be damaged"
        await parts.commit_and_write(5, 9)
        assert parts.journal.forgotten == [2, 5]


async def test_no_directory_is_listed_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()
    threads: list[threading.Thread] = []
    listed = disk.list

    def noted(directory: str) -> Sequence[str]:
        threads.append(threading.current_thread())
        return listed(directory)

    monkeypatch.setattr(disk, "list", noted)
    async with loaded(disk) as parts:
        await parts.commit_and_write(2, 5, 9)
        assert parts.journal.forgotten == [2, 5]
    assert threads
    assert threading.current_thread() not in threads


async def test_a_voter_that_lags_is_sent_what_is_on_the_disk() -> None:
    async with loaded(MemoryDisk()) as parts:
        await parts.commit_and_write(2)
        image = parts.host.image
        parts.commit(5)
        snapshot = Snapshot(id=SnapshotId(index=2, term=2), chunks=tuple(encode_image(image)))
        assert parts.snapshots.latest() is None, "it is read in a thread"
        assert await latest(parts.snapshots) == snapshot


async def test_a_snapshot_that_was_read_long_ago_is_read_again() -> None:
    async with loaded(MemoryDisk()) as parts:
        await parts.commit_and_write(2)
        assert parts.snapshots.latest() is None
        assert parts.snapshots._reading is not None
        await parts.snapshots._reading
        # The voter that lagged was gone meanwhile.
        await parts.commit_and_write(5)
        parts.now_ms += READ_SNAPSHOT_KEPT_MS + 1
        found = await latest(parts.snapshots)
        assert found is not None
        assert found.id.index == 5


async def test_a_snapshot_is_read_once_however_many_voters_wait_for_it() -> None:
    async with loaded(MemoryDisk()) as parts:
        await parts.commit_and_write(2)
        assert parts.snapshots.latest() is None
        reading = parts.snapshots._reading
        assert reading is not None
        assert parts.snapshots.latest() is None
        assert parts.snapshots._reading is reading
        await reading


async def test_what_cannot_be_read_is_not_sent_and_said() -> None:
    disk = MemoryDisk()
    async with loaded(disk) as parts:
        await parts.commit_and_write(2)
        path = parts.store.path(SnapshotId(index=2, term=2))
        whole = disk.read_file(path)
        disk.write_file(path, b"damaged")
        with capture_logs() as events:
            assert await latest(parts.snapshots) is None
        assert [event["log_level"] for event in events] == ["error"]
        disk.write_file(path, whole)
        assert await latest(parts.snapshots) is not None, "it is read again"


async def test_a_snapshot_that_is_taken_over_is_durable_and_the_host_stands_there() -> None:
    disk = MemoryDisk()
    image = cluster(1, 2)
    chunks = tuple(encode_records([record]) for record in snapshot_records(image))
    async with loaded(disk) as parts:
        await parts.commit_and_write(2)
        restore = await asyncio.to_thread(
            parts.snapshots.keep, Snapshot(id=SnapshotId(index=70, term=4), chunks=chunks)
        )
        assert parts.host.committed_index == 2, "the quorum has not taken it over yet"
        assert parts.store.generations() == [SnapshotId(index=70, term=4), SnapshotId(index=2, term=2)]
        restore()
        assert (parts.host.image, parts.host.committed_index) == (image, 70)
        # The snapshot exists already, so nothing is written.
        await parts.snapshots.write()
        assert parts.store.generations() == [SnapshotId(index=70, term=4), SnapshotId(index=2, term=2)]
        disk.crash()
    async with loaded(disk) as parts:
        assert parts.host.image == image


async def test_a_snapshot_that_this_version_cannot_read_is_not_written() -> None:
    """It would end every later start of this voter."""
    async with loaded(MemoryDisk()) as parts:
        unreadable = Snapshot(id=SnapshotId(index=70, term=4), chunks=(b"\xff\xff",))
        with pytest.raises(Corruption):
            await asyncio.to_thread(parts.snapshots.keep, unreadable)
        assert parts.store.generations() == []
