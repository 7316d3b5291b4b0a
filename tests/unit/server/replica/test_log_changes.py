from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kraft.log.append_work import AppendMustWait, AwaitedChange
from kraft.log.cleaning.cleaned_segments import open_cleaned
from kraft.log.cleaning.cleaning_plan import plan_cleaning
from kraft.log.cleaning.compaction import clean
from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.log.segment.segment import Segment
from kraft.model.errors import Corruption, ErrorCode, Refusal
from kraft.model.ids import Offset
from kraft.model.list_offsets import MAX_TIMESTAMP, ListOffsetsPartition, ListOffsetsPartitionResult, ListOffsetsRequest
from kraft.model.replica_fetch import ReplicaFetchResult
from kraft.replication.effects import AppendRecords, RestartAt, TruncateTo
from kraft.runtime.disk import RealDisk
from kraft.server.config.values import UNLIMITED_BYTES_PER_SECOND
from kraft.server.handlers import list_offsets
from kraft.server.handlers.list_offsets import ListOffsetsHandler
from kraft.server.loop.slow_reads import SlowReads
from kraft.server.replica.log_changes import ChangeOutcome
from kraft.server.replica.log_syncer import LogSyncer
from kraft.server.replica.partition import Partition
from kraft.server.upkeep.scrubber import LogScrubber
from kraft.server.upkeep.throttle import Throttle
from tests.unit.server.replicas import (
    ORDERS_0,
    WALL_MS,
    Broker,
    FailingDisk,
    batch,
    follow,
    lead,
    leaders_batch,
    settle,
    until,
    values_in,
)

DEADLINE_S = 5.0


class WatchingDisk(FailingDisk):
    """Notes the thread of each sync, and holds steps back when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[tuple[int, str]] = []
        self.open_gate = threading.Event()
        self.open_gate.set()
        self.held = threading.Event()
        self.refuses = ""
        """No file with that in its name can be written for want of room."""
        self.holds_swap = ""
        """"before" or "behind": where in the swap of a compaction, at its last rename, the thread is held."""

    def open(self, path: str, create: bool) -> Any:
        file = super().open(path, create)
        sync = file._file.sync

        def noted() -> None:
            self._note(f"sync {path}")
            sync()

        file._file.sync = noted
        return file

    def write_atomically(self, path: str, data: bytes) -> None:
        self._note(f"write {path}")
        if self.refuses and self.refuses in path:
            raise OSError(28, "No space left on device")
        super().write_atomically(path, data)

    def sync_dir(self, path: str) -> None:
        self._note(f"sync directory {path}")
        super().sync_dir(path)

    def rename(self, source: str, target: str) -> None:
        is_swap = source.endswith(".swap")
        if is_swap and self.holds_swap == "before":
            self._hold_swap()
        super().rename(source, target)
        if is_swap and self.holds_swap == "behind":
            self._hold_swap()

    def _hold_swap(self) -> None:
        self.holds_swap = ""
        self.hold()
        self._note("swap")

    def _note(self, what: str) -> None:
        self.threads.append((threading.get_ident(), what))
        if not self.open_gate.is_set() and threading.current_thread() is not threading.main_thread():
            self.held.set()
            assert self.open_gate.wait(DEADLINE_S)

    def on_loop(self) -> list[str]:
        return [what for ident, what in self.threads if ident == threading.main_thread().ident]

    def hold(self) -> None:
        self.held.clear()
        self.open_gate.clear()


class Changing:
    """A replica whose log is changed as on a node: in the thread of its directory."""

    def __init__(
        self, broker: Broker, disk: WatchingDisk, syncer: LogSyncer, *, segment_bytes: int = 1_000, **configs: Any
    ) -> None:
        self.broker, self.disk, self.syncer = broker, disk, syncer
        self.partition = broker.open(ORDERS_0, segment_bytes=segment_bytes, **configs)
        disk.threads.clear()

    async def append(self, *values: str) -> None:
        await self.append_batch(batch(*values))

    async def append_batch(self, records: bytes) -> None:
        """As ProduceHandler does: waits and tries again."""
        while True:
            try:
                self.partition.append(records, 1)
                return
            except AppendMustWait as wait:
                work = wait.work
            assert isinstance(work, AwaitedChange)
            await asyncio.wait_for(work.wait(), DEADLINE_S)

    async def over(self, outcome: ChangeOutcome[Any]) -> Any:
        return await asyncio.wait_for(outcome.wait(), DEADLINE_S)

    async def synced(self) -> None:
        await until(lambda: self.partition.log.synced_end_offset == self.partition.log.log_end_offset)


@asynccontextmanager
async def changing(directory: Path, **configs: Any) -> AsyncIterator[Changing]:
    disk = WatchingDisk()
    syncer = LogSyncer([str(directory)])
    running = asyncio.create_task(syncer.run())
    try:
        yield Changing(
            Broker(directory, disk=disk, request_sync=syncer.request, off_loop=True), disk, syncer, **configs
        )
    finally:
        disk.open_gate.set()
        running.cancel()
        await asyncio.wait([running])
        syncer.close()


def test_no_change_of_a_log_syncs_anything_on_the_event_loops_thread(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with changing(tmp_path, retention_bytes=2_000) as replica:
            partition, disk = replica.partition, replica.disk
            lead(partition, replicas=(1,))
            for number in range(60):
                await replica.append(f"value {number}" * 5)
            await replica.synced()
            assert len(partition.log.segments()) > 3
            _, deleted = partition.delete_records(3)
            await replica.over(deleted)
            assert partition.log.log_start_offset == 3
            assert await replica.over(partition.apply_retention())
            assert partition.log.log_start_offset > 3
            lead(partition, epoch=4, replicas=(1,))
            await replica.append("in another epoch")
            follow(partition, epoch=5)
            end = partition.log.log_end_offset
            await replica.over(partition.cut_back(TruncateTo(offset=Offset(end - 20))))
            assert partition.log.log_end_offset == end - 20
            for at in range(end - 20, end + 20):
                await replica.over(partition.append_as_follower(leaders_batch("copied" * 20, at=at, epoch=5)))
            await replica.over(partition.cut_back(RestartAt(offset=Offset(1_000))))
            await replica.over(partition.append_as_follower(leaders_batch("after", at=1_000, epoch=6)))
            await replica.synced()
            assert values_in(partition) == ["after"]
            # The bytes appended since the last checkpoint are many: the recovery point moves on.
            partition.log._sync.bytes_since_checkpoint = 1 << 40
            await replica.over(partition.append_as_follower(leaders_batch("more", at=1_001, epoch=6)))
            await until(lambda: partition.log._side_files.checkpoint.recovery_point == 1_002)
            assert len(disk.threads) > 100
            assert disk.on_loop() == []
            assert replica.broker.failures == []

    asyncio.run(scenario())


def test_records_wait_in_order_behind_a_roll_and_are_read_meanwhile(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with changing(tmp_path) as replica:
            partition, disk = replica.partition, replica.disk
            lead(partition, replicas=(1,))
            for number in range(4):
                await replica.append(f"{number}" * 150)
            await replica.synced()
            disk.hold()
            appending = asyncio.create_task(replica.append("4" * 150))
            await until(disk.held.is_set)
            with pytest.raises(AppendMustWait):
                partition.append(batch("5"), 1)
            assert len(partition.read(Offset(0), 1 << 20, Offset(4), at_least_one=True)) > 500
            assert partition.log.log_end_offset == 4
            disk.open_gate.set()
            await appending
            await replica.append("5")
            assert [value[0] for value in values_in(partition)] == list("012345")
            assert [segment.base_offset for segment in partition.log.segments()] == [0, 4]

    asyncio.run(scenario())


def test_a_replica_that_gets_another_role_in_the_middle_of_a_truncation_takes_it_up_afterwards(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with changing(tmp_path) as replica:
            partition, disk = replica.partition, replica.disk
            follow(partition)
            for at in range(12):
                await replica.over(partition.append_as_follower(leaders_batch("x" * 150, at=at)))
            await replica.synced()
            disk.hold()
            cut = partition.cut_back(TruncateTo(offset=Offset(2)))
            queued = partition.append_as_follower(leaders_batch("of an epoch that is over", at=2))
            await until(disk.held.is_set)
            lead(partition, epoch=1, replicas=(1,))
            assert partition.leader is None
            with pytest.raises(Refusal, match="NOT_LEADER_OR_FOLLOWER"):
                partition.append(batch("too early"), 1)
            follow(partition, leader=3, epoch=2)
            assert (partition.follower, partition.followed) == (None, 3)
            lead(partition, epoch=3, replicas=(1,))
            disk.open_gate.set()
            await replica.over(cut)
            await until(lambda: partition.leader is not None)
            with pytest.raises(Refusal, match="role has changed"):
                await replica.over(queued)
            assert (partition.log.log_end_offset, partition.as_leader().high_watermark) == (2, 2)
            await replica.append("led")
            assert values_in(partition)[2:] == ["led"]

    asyncio.run(scenario())


def test_a_replica_whose_disk_fails_in_a_truncation_takes_up_no_role_afterwards(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with changing(tmp_path) as replica:
            partition, disk = replica.partition, replica.disk
            follow(partition)
            for at in range(12):
                await replica.over(partition.append_as_follower(leaders_batch("x" * 150, at=at)))
            await replica.synced()
            disk.hold()
            cut = partition.cut_back(TruncateTo(offset=Offset(2)))
            await until(disk.held.is_set)
            lead(partition, epoch=1, replicas=(1,))
            disk.fails_syncs = True
            disk.open_gate.set()
            with pytest.raises(Refusal, match="KAFKA_STORAGE_ERROR"):
                await replica.over(cut)
            await settle()
            assert replica.broker.failures
            assert (partition.leader, partition.follower) == (None, None)

    asyncio.run(scenario())


def test_a_replica_that_is_deleted_in_the_middle_of_a_roll_writes_nothing_more(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with changing(tmp_path) as replica:
            partition, disk = replica.partition, replica.disk
            lead(partition, replicas=(1,))
            for number in range(4):
                await replica.append(f"{number}" * 150)
            await replica.synced()
            disk.hold()
            appending = asyncio.create_task(replica.append("4" * 150))
            await until(disk.held.is_set)
            partition.retire()
            with pytest.raises(Refusal, match="NOT_LEADER_OR_FOLLOWER"):
                await appending
            taking_away = asyncio.create_task(asyncio.to_thread(take_away, partition, tmp_path / "orders-0.0-delete"))
            await settle()
            assert not taking_away.done(), "it waits for the step"
            disk.open_gate.set()
            await asyncio.wait_for(taking_away, DEADLINE_S)
            await asyncio.sleep(0.05)
            assert names(tmp_path) == ["orders-0.0-delete"]
            assert replica.broker.failures == []

    asyncio.run(scenario())


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def take_away(partition: Partition, target: Path) -> None:
    with partition.directory_in_use:
        Path(partition.log.directory).rename(target)


def test_a_step_that_was_not_begun_when_its_replica_was_deleted_touches_no_file(tmp_path: Path) -> None:
    broker = Broker(tmp_path, off_loop=True)
    partition = broker.open()
    lead(partition, replicas=(1,))
    with pytest.raises(AppendMustWait):
        partition.append(batch("a"), 1)
    ticket = partition.prepare_sync()
    assert ticket is not None
    partition.retire()
    take_away(partition, tmp_path / "orders-0.0-delete")
    # A new topic has the name by now.
    (tmp_path / "orders-0").mkdir()
    ticket.run()
    partition.complete_sync(ticket)
    assert names(tmp_path / "orders-0") == []


@pytest.mark.parametrize("off_loop", [True, False])
def test_what_is_asked_of_a_deleted_replica_while_its_last_step_runs_is_refused(
    tmp_path: Path, *, off_loop: bool
) -> None:
    broker = Broker(tmp_path, off_loop=off_loop)
    partition = broker.open()
    follow(partition)
    partition.append_as_follower(leaders_batch("a", "b", at=0))
    while broker.unsynced:
        broker.sync()
    first = None
    if off_loop:
        first = partition.advance_log_start(Offset(1))
    ticket = partition.prepare_sync()
    assert (ticket is not None) == off_loop
    partition.retire()
    with pytest.raises(Refusal, match="NOT_LEADER_OR_FOLLOWER: the replica is closed"):
        partition.advance_log_start(Offset(2))
    assert not partition.is_changing
    if ticket is not None and first is not None:
        ticket.run()
        partition.complete_sync(ticket)
        with pytest.raises(Refusal, match="the replica is closed"):
            first.result()
    assert partition.log.failure == "the log is closed", "its files are given up when the step is over"


def test_a_disk_that_fails_in_a_roll_takes_the_directory_out_of_use(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with changing(tmp_path) as replica:
            partition, disk = replica.partition, replica.disk
            lead(partition, replicas=(1,))
            for number in range(4):
                await replica.append(f"{number}" * 150)
            await replica.synced()
            disk.fails_syncs = True
            with pytest.raises(Refusal, match="KAFKA_STORAGE_ERROR"):
                await replica.append("4" * 150)
            (failure,) = replica.broker.failures
            assert "input/output error" in failure

    asyncio.run(scenario())


def test_a_roll_that_finds_no_room_refuses_the_append_and_is_tried_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with changing(tmp_path) as replica:
            partition, disk = replica.partition, replica.disk
            lead(partition, replicas=(1,))
            for number in range(4):
                await replica.append(f"{number}" * 150)
            disk.refuses = ".index"
            with pytest.raises(Refusal, match="the disk is full"):
                await replica.append("4" * 150)
            assert replica.broker.failures == []
            disk.refuses = ""
            await replica.append("4" * 150)
            assert [segment.base_offset for segment in partition.log.segments()] == [0, 4]

    asyncio.run(scenario())


def test_a_sync_that_is_asked_for_in_a_change_comes_after_it(tmp_path: Path) -> None:
    """Two syncs of one file at once could each take the other's error."""
    broker = Broker(tmp_path, off_loop=True)
    partition = broker.open(segment_bytes=1_000)
    lead(partition, replicas=(1,))
    with pytest.raises(AppendMustWait):
        partition.append(batch("0" * 600), 1)
    while broker.unsynced:
        broker.sync()
    partition.append(batch("0" * 600), -1)
    sync = partition.prepare_sync()
    assert sync is not None
    with pytest.raises(AppendMustWait):
        partition.append(batch("1" * 600), -1)
    sync.run()
    partition.complete_sync(sync)
    step = partition.prepare_sync()
    assert type(step).__name__ == "StepTicket"
    assert partition.prepare_sync() is None, "neither a sync nor another step beside it"
    assert step is not None
    step.run()
    partition.complete_sync(step)
    while broker.unsynced:
        broker.sync()
    partition.append(batch("1" * 600), -1)
    assert [segment.base_offset for segment in partition.log.segments()] == [0, 1]


def test_a_log_that_is_closed_in_the_middle_of_a_roll_is_whole(tmp_path: Path) -> None:
    broker = Broker(tmp_path, off_loop=True)
    partition = broker.open(segment_bytes=1_000)
    lead(partition, replicas=(1,))
    for value in ("0" * 600, "1" * 600):
        while True:
            try:
                partition.append(batch(value), -1)
                break
            except AppendMustWait:
                if value[0] == "1":
                    break
                while broker.unsynced:
                    broker.sync()
    ticket = partition.prepare_sync()
    assert ticket is not None
    # The step was run, and the loop did not come to hear of it.
    ticket.run()
    partition.close()
    assert partition.log.failure == "the log is closed"
    again = Broker(tmp_path).open(segment_bytes=1_000)
    assert [segment.base_offset for segment in again.log.segments()] == [0, 1]
    assert values_in(again) == ["0" * 600]


def test_a_follower_asks_for_nothing_while_its_records_wait_for_another_change(tmp_path: Path) -> None:
    broker = Broker(tmp_path, off_loop=True)
    partition = broker.open()
    follow(partition)
    first = partition.append_as_follower(leaders_batch("a", "b", at=0))
    while broker.unsynced:
        broker.sync()
    assert first.result() == 1
    follower = partition.follower
    assert follower is not None
    partition.log_became_durable()
    position = follower.next_fetch()
    assert position is not None
    moved = partition.advance_log_start(Offset(1))
    answer = ReplicaFetchResult(
        topic_id=partition.topic_id,
        partition=0,
        error_code=ErrorCode.NONE,
        leader_epoch=partition.leader_epoch,
        high_watermark=2,
        log_start_offset=1,
        records=leaders_batch("c", at=2),
    )
    (effect,) = follower.answered(position, answer)
    assert isinstance(effect, AppendRecords)
    second = partition.append_as_follower(effect.records)
    rounds = 0
    while not moved.is_done:
        assert follower.next_fetch() is None
        rounds += 1
        broker.sync()
        partition.log_became_durable()
    assert rounds > 1, "the log start moves in steps"
    while broker.unsynced:
        broker.sync()
    assert second.result() == 2
    assert follower.next_fetch() is not None
    assert partition.log.log_start_offset == 1


@pytest.mark.parametrize("later_epoch", [3, 7])
def test_an_epoch_that_was_begun_and_wrote_nothing_keeps_no_leaders_records_out(
    tmp_path: Path, later_epoch: int
) -> None:
    """The append for which it was begun timed out meanwhile; then this replica follows one with older records."""
    broker = Broker(tmp_path, off_loop=True)
    partition = broker.open()
    follow(partition, epoch=2)
    partition.append_as_follower(leaders_batch("a", at=0, epoch=2))
    while broker.unsynced:
        broker.sync()
    lead(partition, epoch=5, replicas=(1,))
    with pytest.raises(AppendMustWait):
        partition.append(batch("never appended"), 1)
    while broker.unsynced:
        broker.sync()
    assert partition.log.epoch_cache.entries == ((2, 0), (5, 1))
    follow(partition, epoch=8)
    outcome = partition.append_as_follower(leaders_batch("b", at=1, epoch=later_epoch))
    while broker.unsynced:
        broker.sync()
    assert outcome.result() == 1
    partition.close()
    again = Broker(tmp_path).open()
    assert values_in(again) == ["a", "b"]
    assert again.log.epoch_cache.entries == ((2, 0), (later_epoch, 1))


def test_what_waits_for_a_change_hears_of_it_once() -> None:
    outcome, heard = ChangeOutcome[int](), list[str]()
    outcome.when_done(lambda: heard.append("first"))
    outcome.end(7, None)
    outcome.when_done(lambda: heard.append("second"))
    assert (outcome.result(), heard) == (7, ["first", "second"])
    refused = ChangeOutcome[int]()
    refused.end(None, Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "no"))
    with pytest.raises(Refusal, match="no"):
        refused.result()


# --- while a compaction's files take the place of others -------------------------------------------------------

MERGED, ALONE = 1 << 20, 300
"""segment.bytes, by which one cleaned file takes the place of several segments, or of each one its own."""


@asynccontextmanager
async def half_swapped(
    directory: Path, holds: str, merging_into: int = MERGED
) -> AsyncIterator[tuple[Changing, ChangeOutcome[Any]]]:
    """A log of twelve records, one a second and two in a segment, held in the swap of its first cleaned file.

    Two keys take turns, so of all that was cleaned the last record of each is left.
    """
    configs = {"cleanup_policy": ("compact",), "min_cleanable_dirty_ratio": 0.0, "segment_bytes": ALONE}
    async with changing(directory, **configs) as replica:
        partition, disk = replica.partition, replica.disk
        lead(partition, replicas=(1,))
        for number in range(12):
            await replica.append_batch(build_batch([Record(0, 1_000 * number, b"k%d" % (number % 2), b"v" * 40)]))
        await replica.synced()
        log = partition.log
        config = replace(log.config, segment_bytes=merging_into)
        plan = plan_cleaning(log.segments(), config, log.cleaned_end_offset, partition.high_watermark, WALL_MS)
        assert plan is not None
        result = clean(disk, log.directory, plan, config, WALL_MS, 1 << 20, {}, lambda _: None)
        disk.holds_swap = holds
        swap = partition.install_cleaned(result, open_cleaned(disk, log.directory, result, config.index_interval_bytes))
        await until(disk.held.is_set)
        yield replica, swap


class CountingThread(ThreadPoolExecutor):
    def __init__(self) -> None:
        super().__init__(1)
        self.tasks = 0

    def submit(self, work: Any, /, *arguments: Any, **named: Any) -> Any:
        self.tasks += 1
        return super().submit(work, *arguments, **named)


async def look_up(
    replica: Changing, timestamp_ms: int, counting: CountingThread | None = None
) -> ListOffsetsPartitionResult:
    with counting or CountingThread() as thread:
        wanted = ListOffsetsPartition(topic="orders", partition=0, timestamp_ms=timestamp_ms)
        handler = ListOffsetsHandler(replica.broker.partitions, SlowReads(thread))
        return (await handler.handle(ListOffsetsRequest(partitions=[wanted]))).partitions[0]


@pytest.mark.parametrize(
    ("timestamp_ms", "merging_into"), [(500, MERGED), (2_500, MERGED), (4_500, MERGED), (500, ALONE)]
)
@pytest.mark.parametrize("holds", ["before", "behind"])
def test_a_look_up_by_time_in_the_middle_of_a_swap_waits_for_its_end(
    tmp_path: Path, timestamp_ms: int, holds: str, merging_into: int
) -> None:
    async def scenario() -> None:
        async with half_swapped(tmp_path, holds, merging_into) as (replica, swap):
            thread = CountingThread()
            looking = asyncio.create_task(look_up(replica, timestamp_ms, thread))
            await asyncio.wait([looking], timeout=0.1)
            assert not looking.done()
            assert thread.tasks < 10, "it looks once, and waits"
            assert (replica.broker.failures, replica.broker.rotten) == ([], [])
            replica.disk.open_gate.set()
            await replica.over(swap)
            found = await asyncio.wait_for(looking, DEADLINE_S)
            # All records before the last one of each key are gone.
            assert (found.error_code, found.offset, found.timestamp_ms) == (ErrorCode.NONE, 8, 8_000)
            assert (replica.broker.failures, replica.broker.rotten) == ([], [])

    asyncio.run(scenario())


@pytest.mark.parametrize("holds", ["before", "behind"])
def test_a_look_up_does_not_wait_for_a_swap_beyond_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holds: str
) -> None:
    async def scenario() -> None:
        async with half_swapped(tmp_path, holds) as (replica, swap):
            monkeypatch.setattr(list_offsets, "LOOK_UP_S_MAX", 0.2)
            assert (await look_up(replica, 2_500)).error_code is ErrorCode.REQUEST_TIMED_OUT
            assert (replica.broker.failures, replica.broker.rotten) == ([], [])
            replica.disk.open_gate.set()
            await replica.over(swap)
            assert (await look_up(replica, 2_500)).error_code is ErrorCode.NONE

    asyncio.run(scenario())


@pytest.mark.parametrize("holds", ["before", "behind"])
def test_a_look_up_that_waits_for_a_swap_is_refused_when_the_replica_is_deleted(tmp_path: Path, holds: str) -> None:
    async def scenario() -> None:
        async with half_swapped(tmp_path, holds) as (replica, _):
            looking = asyncio.create_task(look_up(replica, 2_500))
            await asyncio.wait([looking], timeout=0.1)
            assert not looking.done()
            replica.partition.retire()
            found = await asyncio.wait_for(looking, DEADLINE_S)
            assert found.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    asyncio.run(scenario())


@pytest.mark.parametrize("timestamp_ms", [11_000, MAX_TIMESTAMP])
def test_a_look_up_in_a_segment_that_is_not_swapped_does_not_wait(tmp_path: Path, timestamp_ms: int) -> None:
    async def scenario() -> None:
        async with half_swapped(tmp_path, "behind") as (replica, swap):
            found = await asyncio.wait_for(look_up(replica, timestamp_ms), DEADLINE_S)
            assert (found.error_code, found.offset) == (ErrorCode.NONE, 11)
            assert not swap.is_done

    asyncio.run(scenario())


async def scrubbed(replica: Changing) -> list[str]:
    """What a scrub of all logs takes for rot."""
    found = list[Corruption]()
    with ThreadPoolExecutor(1) as thread:
        scrubber = LogScrubber(
            partitions=replica.broker.partitions,
            disk=RealDisk(),
            executor=thread,
            interval_ms=1_000_000,
            throttle=Throttle(UNLIMITED_BYTES_PER_SECOND),
            on_rot=lambda _, corruption: found.append(corruption),
        )
        await scrubber.scrub_all()
    return [str(each) for each in found]


@pytest.mark.parametrize("merging_into", [MERGED, ALONE])
@pytest.mark.parametrize("holds", ["before", "behind"])
def test_a_scrub_in_the_middle_of_a_swap_finds_no_rot(tmp_path: Path, holds: str, merging_into: int) -> None:
    async def scenario() -> None:
        async with half_swapped(tmp_path, holds, merging_into) as (replica, swap):
            assert await scrubbed(replica) == []
            replica.disk.open_gate.set()
            await replica.over(swap)
            assert await scrubbed(replica) == []
            assert replica.broker.failures == []

    asyncio.run(scenario())


def test_a_scrub_in_the_middle_of_a_truncation_finds_no_rot(tmp_path: Path) -> None:
    """The file is cut, and the log does not know yet."""

    async def scenario() -> None:
        async with changing(tmp_path) as replica:
            partition, disk = replica.partition, replica.disk
            follow(partition)
            for at in range(4):
                await replica.over(partition.append_as_follower(leaders_batch("x" * 150, at=at)))
            await replica.synced()
            size = partition.log.size_bytes
            disk.hold()
            cut = partition.cut_back(TruncateTo(offset=Offset(2)))
            while True:
                await until(disk.held.is_set)
                if partition.log.size_bytes < size:
                    break
                # It was held in an earlier step, and goes on to the next sync.
                disk.held.clear()
                disk.open_gate.set()
                disk.open_gate.clear()
            assert partition.log.log_end_offset == 4
            assert await scrubbed(replica) == []
            disk.open_gate.set()
            assert await replica.over(cut) == 2
            assert await scrubbed(replica) == []

    asyncio.run(scenario())


def test_reads_in_the_middle_of_a_swap_find_their_indexes_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To make one anew is to read the segment to its end, and that would hold the loop."""

    async def scenario() -> None:
        rebuilt = list[Offset]()
        rebuild = Segment.rebuild_indexes

        def noted(segment: Segment) -> None:
            rebuilt.append(segment.base_offset)
            rebuild(segment)

        monkeypatch.setattr(Segment, "rebuild_indexes", noted)
        async with half_swapped(tmp_path, "before") as (replica, swap):
            for offset in range(12):
                assert replica.partition.read(Offset(offset), 1, Offset(12), at_least_one=True)
            assert rebuilt == []
            replica.disk.open_gate.set()
            await replica.over(swap)
            assert replica.partition.read(Offset(0), 1, Offset(12), at_least_one=True)
            assert rebuilt == []

    asyncio.run(scenario())
