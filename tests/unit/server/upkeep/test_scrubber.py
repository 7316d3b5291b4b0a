from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from kraft.log.change import run_now
from kraft.model.errors import Corruption
from kraft.model.ids import LeaderEpoch, Offset
from kraft.runtime.disk import RealDisk
from kraft.server.config.values import UNLIMITED_BYTES_PER_SECOND
from kraft.server.replica.partition import Partition
from kraft.server.upkeep.counts import UpkeepCounts
from kraft.server.upkeep.scrubber import FIRST_AFTER_S, LogScrubber, ScrubTally
from kraft.server.upkeep.throttle import Stopped, Throttle
from tests.support.server.replicas import Broker, InlineExecutor, append_to, batch, lead, remove_directory
from tests.support.virtual_time import run_virtually


class MeddlingDisk(RealDisk):
    """Something happens to the log whenever one of its segments is opened to be read."""

    def __init__(self, meddle: Callable[[], None]) -> None:
        self._meddle = meddle

    def open(self, path: str, create: bool) -> Any:
        self._meddle()
        return super().open(path, create)


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


def scrubber(
    broker: Broker,
    found: list[Corruption],
    *,
    disk: RealDisk | None = None,
    throttle: Throttle | None = None,
    counts: UpkeepCounts | None = None,
) -> LogScrubber:
    return LogScrubber(
        partitions=broker.partitions,
        disk=disk or RealDisk(),
        executor=InlineExecutor(),
        interval_ms=1_000_000,
        throttle=throttle or Throttle(UNLIMITED_BYTES_PER_SECOND),
        on_corruption=lambda _, corruption: found.append(corruption),
        counts=counts,
    )


def scrub(broker: Broker, **how: Any) -> tuple[ScrubTally, list[Corruption]]:
    found: list[Corruption] = []
    return run_virtually(scrubber(broker, found, **how).scrub_all()), found


def filled(broker: Broker) -> Partition:
    """Three closed segments of one batch each, and a batch in the active one."""
    partition = broker.open(segment_ms=10**15)
    lead(partition, replicas=(1,))
    for value in ("a", "b", "c"):
        append_to(partition, batch(value), 1)
        run_now(partition.log.rolling())
    append_to(partition, batch("d"), 1)
    broker.sync()
    return partition


def corrupt(partition: Partition, segment: int, position: int = -1) -> None:
    """The last byte of a segment's file changes on the disk."""
    path = Path(partition.log.segments()[segment].path)
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def test_sound_logs_are_read_through(broker: Broker) -> None:
    partition = filled(broker)
    tally, found = scrub(broker)
    assert (tally.segments, tally.batches, tally.corrupt, found) == (4, 4, 0, [])
    assert tally.bytes == partition.log.size_bytes


def test_what_the_scrub_read_and_found_is_counted(broker: Broker) -> None:
    counts, partition = UpkeepCounts(), filled(broker)
    before = counts.scrub_progress
    assert before is None
    tally, _ = scrub(broker, counts=counts)
    assert (counts.scrubbed_segments, counts.scrubbed_bytes) == (4, tally.bytes)
    assert (counts.scrubbed_corrupt, counts.scrub_progress) == (0, 1.0)
    corrupt(partition, 2)
    scrub(broker, counts=counts)
    assert counts.scrubbed_corrupt == 1


@pytest.mark.parametrize("segment", [0, 1, 2, 3])
def test_corruption_is_found_in_closed_segments_and_in_the_active_one(broker: Broker, segment: int) -> None:
    partition = filled(broker)
    corrupt(partition, segment)
    tally, found = scrub(broker)
    assert tally.corrupt == 1
    assert [each.file for each in found] == [partition.log.segments()[segment].path]
    assert "checksum" in found[0].reason


@pytest.mark.parametrize("segment", [0, 1, 2, 3])
def test_a_missing_segment_file_is_corruption_even_while_the_log_still_reads_it(broker: Broker, segment: int) -> None:
    partition = filled(broker)
    path = partition.log.segments()[segment].path
    Path(path).unlink()
    assert partition.replica_log.read(Offset(0), 1 << 20, partition.log.log_end_offset, at_least_one=True)
    tally, found = scrub(broker)
    assert tally.corrupt == 1
    assert [(each.file, each.reason) for each in found] == [(path, "the file is gone")]


def test_a_missing_active_segment_without_records_is_found_as_well(broker: Broker) -> None:
    partition = filled(broker)
    run_now(partition.log.rolling())
    assert scrub(broker)[1] == []
    Path(partition.log.segments()[-1].path).unlink()
    assert [each.reason for each in scrub(broker)[1]] == ["the file is gone"]


def test_a_segment_that_a_compaction_is_renaming_is_not_corrupt(broker: Broker) -> None:
    """Its file has the other name already, and the log does not know yet."""
    partition = filled(broker)
    path = Path(partition.log.segments()[1].path)
    path.rename(f"{path}.deleted")
    assert scrub(broker)[1] == []


def test_unsynced_bytes_are_not_scrubbed(broker: Broker) -> None:
    partition = filled(broker)
    append_to(partition, batch("unsynced"), 1)
    corrupt(partition, 3)
    assert scrub(broker)[1] == []
    run_now(partition.log.rolling())
    assert len(scrub(broker)[1]) == 1


def test_an_unknown_leader_epoch_is_corruption(broker: Broker) -> None:
    partition = filled(broker)
    corrupt(partition, 0, position=15)
    ((found),) = scrub(broker)[1]
    assert found.reason == "the batch at offset 0 has leader epoch 1, expected 0"


def test_a_segment_that_is_dropped_during_the_read_is_not_corrupt(broker: Broker) -> None:
    partition = filled(broker)
    for number in range(4):
        corrupt(partition, number)

    def drop_all() -> None:
        partition.log.truncate_fully_and_start_at(Offset(10))

    assert scrub(broker, disk=MeddlingDisk(drop_all))[1] == []


def test_records_rewritten_during_the_read_are_not_corrupt(broker: Broker) -> None:
    """The same segment, of the same size and offsets, once damaged under the reader's eyes and then whole."""
    partition = filled(broker)
    path = Path(partition.log.segments()[1].path)
    whole, reads = path.read_bytes(), [0]

    def meddle() -> None:
        reads[0] += 1
        path.write_bytes(whole[:-1] + b"?" if reads[0] == 2 else whole)

    assert scrub(broker, disk=MeddlingDisk(meddle))[1] == []
    assert reads == [5]


def test_the_log_may_grow_while_its_active_segment_is_read(broker: Broker) -> None:
    partition = filled(broker)
    corrupt(partition, 3)

    def grow() -> None:
        append_to(partition, batch("more"), 1)

    assert len(scrub(broker, disk=MeddlingDisk(grow))[1]) == 1


def test_a_partition_that_is_deleted_meanwhile_is_skipped(broker: Broker) -> None:
    partition = filled(broker)

    def delete() -> None:
        if partition.is_open:
            partition.retire()
            remove_directory(partition)

    assert scrub(broker, disk=MeddlingDisk(delete))[1] == []
    assert broker.failures == []


def test_a_disk_that_cannot_be_read_fails_the_log_directory(broker: Broker) -> None:
    partition = filled(broker)

    def fail() -> None:
        raise OSError(5, "Input/output error")

    assert scrub(broker, disk=MeddlingDisk(fail))[1] == []
    assert broker.failures
    assert "Input/output error" in broker.failures[0]
    assert str(partition.topic_partition) in broker.failures[0]


def test_a_stopped_scrub_ends(broker: Broker) -> None:
    filled(broker)
    throttle = Throttle(1)
    throttle.stop()
    with pytest.raises(Stopped):
        scrub(broker, throttle=throttle)


async def test_a_pass_begins_soon_after_the_start_and_is_repeated(broker: Broker) -> None:
    filled(broker)
    with capture_logs() as logged:
        running = asyncio.create_task(scrubber(broker, []).run())
        await asyncio.sleep(FIRST_AFTER_S - 1)
        assert logged == []
        await asyncio.sleep(2)
        assert [(each["event"], each["segments"]) for each in logged] == [("logs scrubbed", 4)]
        await asyncio.sleep(1_000)
        assert len(logged) == 2
        running.cancel()
        await asyncio.wait([running])


def test_corruption_takes_the_replica_offline(broker: Broker) -> None:
    partition = filled(broker)
    corrupt(partition, 1)
    run_virtually(
        LogScrubber(
            partitions=broker.partitions,
            disk=RealDisk(),
            executor=InlineExecutor(),
            interval_ms=1,
            throttle=Throttle(UNLIMITED_BYTES_PER_SECOND),
            on_corruption=lambda partition, corruption: partition.replica_log.found_corrupt(corruption),
        ).scrub_all()
    )
    assert broker.corrupt
    assert broker.corrupt[0].startswith(partition.log.segments()[1].path)
    assert partition.leader_epoch == LeaderEpoch(0)
