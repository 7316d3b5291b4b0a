from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from kraft.log.group_commit import SyncTicket
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import Offset, TopicPartition
from kraft.server.replica import log_syncer
from kraft.server.replica.log_changes import LogIsChanging
from kraft.server.replica.log_directories import as_log_directory
from kraft.server.replica.log_syncer import LogSyncer
from kraft.server.replica.partition import Partition
from kraft.server.replica.replica_log import ReplicaLog
from tests.support.server.replicas import (
    Broker,
    batch,
    follow,
    lead_begun,
    leaders_batch,
    outcome,
    remove_directory,
    settle,
    until,
)

pytestmark = pytest.mark.real_time

DEADLINE_S = 60.0
DISKS = ("disk-a", "disk-b")


class Gate:
    """Holds each sync back, in its thread, until the test lets it go."""

    def __init__(self, partition: Partition) -> None:
        self.began = threading.Event()
        self.open = threading.Event()
        self.syncs = 0
        file: Any = partition.log._files.active.file
        self._sync = file.sync
        file.sync = self._held

    def _held(self) -> None:
        self.syncs += 1
        self.began.set()
        assert self.open.wait(DEADLINE_S)
        self._sync()


@asynccontextmanager
async def syncing(broker: Broker) -> AsyncIterator[LogSyncer]:
    syncer = LogSyncer(
        [as_log_directory(broker.directory), *(as_log_directory(broker.directory / name) for name in DISKS)]
    )
    running = asyncio.create_task(syncer.run())
    try:
        yield syncer
    finally:
        running.cancel()
        await asyncio.wait([running])
        await syncer.close()


def led(broker: Broker, syncer: LogSyncer, number: int = 0) -> Partition:
    broker.request_sync = syncer.request
    partition = broker.open(TopicPartition("orders", number))
    lead_begun(partition, replicas=(1,))
    return partition


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


async def test_one_sync_serves_every_waiting_append_and_appends_continue_meanwhile(broker: Broker) -> None:
    async with syncing(broker) as syncer:
        partition = led(broker, syncer)
        gate = Gate(partition)
        partition.append(batch("first"), -1)
        first = partition.park_produce(Offset(1))
        await until(gate.began.is_set)
        later = []
        for number in range(2, 50):
            partition.append(batch(f"value {number}"), -1)
            later.append(partition.park_produce(Offset(number)))
        assert outcome(first) is None
        gate.open.set()
        assert isinstance(first, asyncio.Future)
        assert await asyncio.wait_for(first, DEADLINE_S) is ErrorCode.NONE
        for waiting in later:
            assert isinstance(waiting, asyncio.Future)
            assert await asyncio.wait_for(waiting, DEADLINE_S) is ErrorCode.NONE
        assert gate.syncs == 2


@pytest.mark.parametrize(("failing", "method"), [(SyncTicket, "run"), (ReplicaLog, "complete_sync")])
async def test_an_error_of_a_sync_or_of_its_completion_ends_the_syncer(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, failing: type, method: str
) -> None:
    """Otherwise requests would wait for syncs that nobody does."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    syncer = LogSyncer([as_log_directory(broker.directory)])
    partition = led(broker, syncer)
    with monkeypatch.context() as broken:
        broken.setattr(failing, method, fail)
        running = asyncio.create_task(syncer.run())
        partition.append(batch("a"), 1)
        await asyncio.wait([running], timeout=DEADLINE_S)
    await syncer.close()
    assert isinstance(running.exception(), ExceptionGroup)


async def test_what_was_appended_during_a_sync_is_not_taken_for_synced_by_it(broker: Broker) -> None:
    async with syncing(broker) as syncer:
        partition = led(broker, syncer)
        gate = Gate(partition)
        partition.append(batch("a"), 1)
        await until(gate.began.is_set)
        partition.append(batch("b"), 1)
        ends: list[int] = []
        partition.replica_log._services = replace(
            broker.services(), request_sync=lambda each: ends.append(each.durable_end)
        )
        complete_sync = partition.replica_log.complete_sync

        def noting(ticket: Any) -> None:
            complete_sync(ticket)
            ends.append(partition.replica_log.durable_end)

        partition.replica_log.complete_sync = noting  # type: ignore[method-assign]  # Listens in.
        gate.open.set()
        await until(lambda: partition.replica_log.durable_end == 2)
        assert ends == [1, 2]


async def test_one_round_covers_every_partition_that_was_appended_to(broker: Broker) -> None:
    async with syncing(broker) as syncer:
        partitions = [led(broker, syncer, number) for number in range(5)]
        for partition in partitions:
            partition.append(batch("a"), -1)
        waiting = [partition.park_produce(Offset(1)) for partition in partitions]
        for one in waiting:
            assert isinstance(one, asyncio.Future)
            assert await asyncio.wait_for(one, DEADLINE_S) is ErrorCode.NONE


async def test_a_failed_sync_is_reported_acknowledges_nothing_and_leaves_the_other_logs_synced(broker: Broker) -> None:
    async with syncing(broker) as syncer:
        broken, sound = (led(broker, syncer, number) for number in range(2))
        gate = Gate(broken)

        def fail() -> None:
            raise OSError("input/output error")

        gate._sync = fail
        gate.open.set()
        broken.append(batch("a"), -1)
        sound.append(batch("a"), -1)
        lost, kept = broken.park_produce(Offset(1)), sound.park_produce(Offset(1))
        assert isinstance(kept, asyncio.Future)
        assert await asyncio.wait_for(kept, DEADLINE_S) is ErrorCode.NONE
        assert broker.failures == ["orders-0 goes offline: input/output error"]
        gate._sync = lambda: None
        syncer.request(broken.replica_log)
        sound.append(batch("b"), -1)
        later = sound.park_produce(Offset(2))
        assert isinstance(later, asyncio.Future)
        await asyncio.wait_for(later, DEADLINE_S)
        assert outcome(lost) is None
        assert broken.high_watermark == 0


async def test_a_partition_that_is_deleted_during_its_sync_delays_no_other(broker: Broker) -> None:
    async with syncing(broker) as syncer:
        deleted, other = (led(broker, syncer, number) for number in range(2))
        gate = Gate(deleted)
        deleted.append(batch("a"), -1)
        await until(gate.began.is_set)
        deleted.retire()
        remove_directory(deleted)
        gate.open.set()
        other.append(batch("a"), -1)
        waiting = other.park_produce(Offset(1))
        assert isinstance(waiting, asyncio.Future)
        assert await asyncio.wait_for(waiting, DEADLINE_S) is ErrorCode.NONE
        assert broker.failures == []


async def replicas_on_two_disks(
    broker: Broker, syncer: LogSyncer, *, is_watched: bool = False
) -> tuple[Partition, Partition]:
    """Led by this broker, the first one in disk-a and the second one in disk-b."""
    partitions = []
    for number, disk in enumerate(DISKS):
        on_disk = Broker(broker.directory / disk)
        if is_watched:
            on_disk.holds_writes = syncer.holds_writes
        partition = led(on_disk, syncer, number)
        partitions.append(partition)
    return partitions[0], partitions[1]


async def test_a_disk_that_hangs_delays_no_produce_to_another_directory(broker: Broker) -> None:
    async with syncing(broker) as syncer:
        hanging, healthy = await replicas_on_two_disks(broker, syncer)
        gate = Gate(hanging)
        hanging.append(batch("a"), -1)
        stuck = hanging.park_produce(Offset(1))
        await until(gate.began.is_set)
        try:
            for number in range(1, 4):
                healthy.append(batch("a"), -1)
                waiting = healthy.park_produce(Offset(number))
                assert isinstance(waiting, asyncio.Future)
                assert await asyncio.wait_for(waiting, DEADLINE_S) is ErrorCode.NONE
            assert outcome(stuck) is None
        finally:
            gate.open.set()
        assert isinstance(stuck, asyncio.Future)
        assert await asyncio.wait_for(stuck, DEADLINE_S) is ErrorCode.NONE


async def test_a_replica_that_moved_off_a_disk_that_hangs_is_synced_where_it_is(broker: Broker) -> None:
    async with syncing(broker) as syncer:
        moved, target = await replicas_on_two_disks(broker, syncer)
        gate = Gate(moved)
        moved.append(batch("a"), -1)
        await until(gate.began.is_set)
        try:
            moved.append(batch("b"), -1)
            copy = target.log
            copy.append_as_follower(moved.log.read(Offset(0), 1 << 20, Offset(2)))
            copy.settle()
            moved.log_moved(copy)
            moved.log_became_durable()
            there = Gate(moved)
            moved.append(batch("c"), -1)
            await until(there.began.is_set)
            # The first disk's next round finds the replica gone, and the second disk syncs it just now.
            gate.open.set()
            await until(lambda: not syncer._directories[as_log_directory(broker.directory / "disk-a")]._wanted.is_set())
            await asyncio.sleep(0.02)
            there.open.set()
            waiting = moved.park_produce(Offset(3))
            assert isinstance(waiting, asyncio.Future)
            assert await asyncio.wait_for(waiting, DEADLINE_S) is ErrorCode.NONE
        finally:
            gate.open.set()
        assert (moved.log.synced_end_offset, broker.failures) == (3, [])


def _is_over(produced: Any) -> bool:
    return outcome(produced) is ErrorCode.NONE


async def test_a_slow_disk_is_logged_while_the_sync_hangs_and_its_time_is_known(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_syncer, "SLOW_S", 0.02)
    with capture_logs() as lines:
        async with syncing(broker) as syncer:
            partition = led(broker, syncer)
            directory = partition.log_directory
            assert syncer.latest_s(directory) == 0
            gate = Gate(partition)
            for number in range(2):
                partition.append(batch(f"record {number}"), -1)
                written = partition.park_produce(Offset(number + 1))
                await until(gate.began.is_set)
                await until(lambda: syncer.latest_s(directory) > 0.03)
                assert lines, "the hanging sync is not logged"
                gate.began.clear()
                gate.open.set()
                await until(partial(_is_over, written))
                gate.open.clear()
    # Once in a while.
    (slow,) = [each for each in lines if each["event"] == "disk slow, appends wait"]
    assert (slow["log_level"], slow["directory"]) == ("warning", directory)


async def test_a_sync_that_is_over_is_not_logged_as_slow(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_syncer, "SLOW_S", 0.5)
    with capture_logs() as lines:
        async with syncing(broker) as syncer:
            partition = led(broker, syncer)
            partition.append(batch("a"), -1)
            await until(partial(_is_over, partition.park_produce(Offset(1))))
            # Longer than the alarm would take.
            await asyncio.sleep(0.6)
    assert [each for each in lines if each["log_level"] == "warning"] == []


async def test_the_latest_sync_is_the_last_one_or_the_running_one_if_it_takes_longer_already() -> None:
    counts = log_syncer.SyncCounts()
    assert counts.latest_s == 0
    counts.begin()
    counts.note(1, 3_600.0)
    assert counts.latest_s == 3_600
    counts.begin()
    # It has only begun.
    assert counts.latest_s == 3_600
    counts.note(1, 0.5)
    assert counts.latest_s == 0.5


class SlowFile:
    """A file whose writes wait for its sync, as in kernels that lock a file for both."""

    def __init__(self, partition: Partition) -> None:
        self.gate = Gate(partition)
        self.met = 0
        """Writes that would have waited, on the event loop."""
        file: Any = partition.log._files.active.file
        self._append, self._sync, self._is_syncing = file.append, file.sync, False
        file.append, file.sync = self._appended, self._synced

    def _synced(self) -> None:
        self._is_syncing = True
        self._sync()
        self._is_syncing = False

    def _appended(self, pieces: Any) -> Any:
        self.met += self._is_syncing
        return self._append(pieces)


@asynccontextmanager
async def slowly_syncing(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, first: Callable[[Partition], object]
) -> AsyncIterator[tuple[Partition, SlowFile, LogSyncer]]:
    """A replica that made `first`, whose sync hangs for longer than a write to its file may wait."""
    monkeypatch.setattr(log_syncer, "HOLDING_S", 0.02)
    async with syncing(broker) as syncer:
        broker.holds_writes = syncer.holds_writes
        partition = led(broker, syncer)
        file = SlowFile(partition)
        try:
            first(partition)
            await until(file.gate.began.is_set)
            # Counted from here: the thread may have begun later than the syncer thinks, and says how long it took.
            began_s = perf_counter()
            await until(lambda: perf_counter() - began_s >= log_syncer.HOLDING_S)
            assert syncer.holds_writes(partition.log_directory)
            yield partition, file, syncer
        finally:
            file.gate.open.set()


def write_as_leader(partition: Partition) -> None:
    partition.append(batch("a"), -1)


def write_as_follower(partition: Partition) -> None:
    follow(partition)
    partition.append_as_follower(leaders_batch("a", at=0, epoch=1))


async def test_a_producers_records_wait_for_a_slow_sync_and_then_share_the_next_one(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_syncer, "_GATHERING_S_MIN", 0.5)
    async with slowly_syncing(broker, monkeypatch, write_as_leader) as (partition, file, syncer):
        waits = []
        for _ in range(3):
            with pytest.raises(LogIsChanging) as wait:
                partition.append(batch("b"), -1)
            waits.append(asyncio.ensure_future(_waited(wait.value.work)))
        await settle()
        assert not any(each.done() for each in waits)
        file.gate.open.set()
        await asyncio.wait_for(asyncio.gather(*waits), DEADLINE_S)
        # Each appends in a turn of its own, as from the partition's queue.
        for _ in waits:
            partition.append(batch("b"), -1)
            await asyncio.sleep(0)
        await until(partial(_is_over, partition.park_produce(Offset(4))))
        assert (file.met, file.gate.syncs) == (0, 2)
        assert syncer.holds_writes(partition.log_directory)


async def _waited(work: Any) -> None:
    await work.wait()


async def test_a_followers_records_wait_for_a_slow_sync(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    async with slowly_syncing(broker, monkeypatch, write_as_follower) as (partition, file, _):
        appended = partition.append_as_follower(leaders_batch("b", at=1, epoch=1))
        await settle()
        assert (appended.is_done, partition.log.log_end_offset) == (False, 1)
        file.gate.open.set()
        await asyncio.wait_for(appended.wait(), DEADLINE_S)
        assert (file.met, partition.log.log_end_offset) == (0, 2)
        await until(lambda: partition.log.synced_end_offset == 2)


async def test_records_that_wait_for_a_slow_sync_are_refused_when_the_replica_is_deleted(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with slowly_syncing(broker, monkeypatch, write_as_follower) as (partition, file, _):
        appended = partition.append_as_follower(leaders_batch("b", at=1, epoch=1))
        partition.retire()
        with pytest.raises(Refusal):
            await asyncio.wait_for(appended.wait(), DEADLINE_S)
        file.gate.open.set()
        await settle()
        assert file.met == 0


async def test_records_wait_for_no_sync_of_a_disk_that_the_replica_has_left(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_syncer, "HOLDING_S", 0.02)
    async with syncing(broker) as syncer:
        moved, target = await replicas_on_two_disks(broker, syncer, is_watched=True)
        gate = Gate(moved)
        moved.append(batch("a"), -1)
        await until(gate.began.is_set)
        await until(lambda: syncer.holds_writes(moved.log_directory))
        try:
            with pytest.raises(LogIsChanging) as wait:
                moved.append(batch("b"), -1)
            target.log.append_as_follower(moved.log.read(Offset(0), 1 << 20, Offset(1)))
            target.log.settle()
            moved.log_moved(target.log)
            await asyncio.wait_for(_waited(wait.value.work), DEADLINE_S)
            moved.append(batch("b"), -1)
            await until(partial(_is_over, moved.park_produce(Offset(2))))
        finally:
            gate.open.set()


async def test_a_slow_disk_is_taken_to_be_slow_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr(log_syncer, "perf_counter", lambda: now_s)
    counts = log_syncer.SyncCounts()
    # Five logs in a second are no slow disk.
    counts.begin(5)
    now_s += 1.0
    seen = [counts.holds_writes]
    counts.note(5, 1.0)
    seen.append(counts.holds_writes)
    counts.begin(1)
    now_s += 4.0
    seen.append(counts.holds_writes)
    counts.note(1, 4.0)
    gathering_s = [counts.gathering_s]
    counts.begin(1)
    counts.note(1, 0.001)
    gathering_s.append(counts.gathering_s)
    seen.append(counts.holds_writes)
    now_s += log_syncer.HOLDING_KEPT_S
    gathering_s.append(counts.gathering_s)
    seen.append(counts.holds_writes)
    assert seen == [False, False, True, True, False]
    assert gathering_s == [0.4, 0.01, 0]
