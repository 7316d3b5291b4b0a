"""Look-ups by time, the scrub and fetches read a log in the middle of a swap or a truncation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kraft.log.cleaning.cleaned_segments import open_cleaned
from kraft.log.cleaning.cleaning_plan import plan_cleaning
from kraft.log.cleaning.compaction import clean
from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.log.segment.segment import Segment
from kraft.model.errors import Corruption, ErrorCode
from kraft.model.ids import Offset
from kraft.model.list_offsets import MAX_TIMESTAMP
from kraft.replication.effects import TruncateTo
from kraft.runtime.disk import RealDisk
from kraft.server.config.values import UNLIMITED_BYTES_PER_SECOND
from kraft.server.handlers import list_offsets
from kraft.server.handlers.list_offsets import ListOffsetsHandler
from kraft.server.loop.slow_reads import SlowReads
from kraft.server.replica.log_changes import ChangeOutcome
from kraft.server.upkeep.scrubber import LogScrubber
from kraft.server.upkeep.throttle import Throttle
from kraft.wire.schema.list_offsets import ListOffsetsPartitionResponse
from tests.support.server.offset_lookups import answers
from tests.support.server.replicas import WALL_MS, lead, until
from tests.unit.server.replica.changing_replicas import DEADLINE_S, Changing, changing

pytestmark = pytest.mark.real_time

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
        result = clean(disk, log.directory, plan, config, WALL_MS, 1 << 20, {}, lambda _: None, ())
        disk.holds_swap = holds
        segments = open_cleaned(disk, log.directory, result, config.index_interval_bytes)
        swap = partition.replica_log.install_cleaned(result, segments)
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
) -> ListOffsetsPartitionResponse:
    with counting or CountingThread() as thread:
        (result,) = await answers(ListOffsetsHandler(replica.broker.partitions, SlowReads(thread)), timestamp_ms)
        return result


@pytest.mark.parametrize(
    ("timestamp_ms", "merging_into"), [(500, MERGED), (2_500, MERGED), (4_500, MERGED), (500, ALONE)]
)
@pytest.mark.parametrize("holds", ["before", "behind"])
async def test_a_look_up_by_time_in_the_middle_of_a_swap_waits_for_its_end(
    tmp_path: Path, timestamp_ms: int, holds: str, merging_into: int
) -> None:
    async with half_swapped(tmp_path, holds, merging_into) as (replica, swap):
        thread = CountingThread()
        looking = asyncio.create_task(look_up(replica, timestamp_ms, thread))
        await asyncio.wait([looking], timeout=0.1)
        assert not looking.done()
        assert thread.tasks < 10, "it looks once, and waits"
        assert (replica.broker.failures, replica.broker.corrupt) == ([], [])
        replica.disk.open_gate.set()
        await replica.over(swap)
        found = await asyncio.wait_for(looking, DEADLINE_S)
        # All records before the last one of each key are gone.
        assert (found.error_code, found.offset, found.timestamp) == (ErrorCode.NONE, 8, 8_000)
        assert (replica.broker.failures, replica.broker.corrupt) == ([], [])


@pytest.mark.parametrize("holds", ["before", "behind"])
async def test_a_look_up_does_not_wait_for_a_swap_beyond_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holds: str
) -> None:
    async with half_swapped(tmp_path, holds) as (replica, swap):
        monkeypatch.setattr(list_offsets, "LOOK_UP_S_MAX", 0.2)
        assert (await look_up(replica, 2_500)).error_code is ErrorCode.REQUEST_TIMED_OUT
        assert (replica.broker.failures, replica.broker.corrupt) == ([], [])
        replica.disk.open_gate.set()
        await replica.over(swap)
        assert (await look_up(replica, 2_500)).error_code is ErrorCode.NONE


@pytest.mark.parametrize("holds", ["before", "behind"])
async def test_a_look_up_that_waits_for_a_swap_is_refused_when_the_replica_is_deleted(
    tmp_path: Path, holds: str
) -> None:
    async with half_swapped(tmp_path, holds) as (replica, _):
        looking = asyncio.create_task(look_up(replica, 2_500))
        await asyncio.wait([looking], timeout=0.1)
        assert not looking.done()
        replica.partition.retire()
        found = await asyncio.wait_for(looking, DEADLINE_S)
        assert found.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("timestamp_ms", [11_000, MAX_TIMESTAMP])
async def test_a_look_up_in_a_segment_that_is_not_swapped_does_not_wait(tmp_path: Path, timestamp_ms: int) -> None:
    async with half_swapped(tmp_path, "behind") as (replica, swap):
        found = await asyncio.wait_for(look_up(replica, timestamp_ms), DEADLINE_S)
        assert (found.error_code, found.offset) == (ErrorCode.NONE, 11)
        assert not swap.is_done


async def scrubbed(replica: Changing) -> list[str]:
    """Return what a scrub of all logs reports as corrupt."""
    found = list[Corruption]()
    with ThreadPoolExecutor(1) as thread:
        scrubber = LogScrubber(
            partitions=replica.broker.partitions,
            disk=RealDisk(),
            executor=thread,
            interval_ms=1_000_000,
            throttle=Throttle(UNLIMITED_BYTES_PER_SECOND),
            on_corruption=lambda _, corruption: found.append(corruption),
        )
        await scrubber.scrub_all()
    return [str(each) for each in found]


@pytest.mark.parametrize("merging_into", [MERGED, ALONE])
@pytest.mark.parametrize("holds", ["before", "behind"])
async def test_a_scrub_during_a_swap_finds_no_corruption(tmp_path: Path, holds: str, merging_into: int) -> None:
    async with half_swapped(tmp_path, holds, merging_into) as (replica, swap):
        assert await scrubbed(replica) == []
        replica.disk.open_gate.set()
        await replica.over(swap)
        assert await scrubbed(replica) == []
        assert replica.broker.failures == []


async def test_a_scrub_during_a_truncation_finds_no_corruption(tmp_path: Path) -> None:
    """The file is cut, and the log does not know yet."""
    async with changing(tmp_path) as replica:
        partition, disk = replica.partition, replica.disk
        await replica.follow_records(4)
        size = partition.log.size_bytes
        disk.hold()
        cut = partition.truncate(TruncateTo(offset=Offset(2)))
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


async def test_reads_in_the_middle_of_a_swap_find_their_indexes_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rebuilding one reads the segment to its end, which would hold the loop."""
    rebuilt = list[Offset]()
    rebuild = Segment.rebuild_indexes

    def noted(segment: Segment) -> None:
        rebuilt.append(segment.base_offset)
        rebuild(segment)

    monkeypatch.setattr(Segment, "rebuild_indexes", noted)
    async with half_swapped(tmp_path, "before") as (replica, swap):
        for offset in range(12):
            assert replica.partition.replica_log.read(Offset(offset), 1, Offset(12), at_least_one=True)
        assert rebuilt == []
        replica.disk.open_gate.set()
        await replica.over(swap)
        assert replica.partition.replica_log.read(Offset(0), 1, Offset(12), at_least_one=True)
        assert rebuilt == []
