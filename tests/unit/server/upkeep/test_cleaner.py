from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from errno import ENOSPC
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from kraft.log.cleaning import compaction
from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.log.partition_log import PartitionLog
from kraft.model.ids import LogDirectory, Offset, TopicPartition
from kraft.runtime.disk import RealDisk
from kraft.server.config.values import UNLIMITED_BYTES_PER_SECOND
from kraft.server.replica.partition import Partition
from kraft.server.replica.replica_move import ReplicaMove
from kraft.server.upkeep import cleaner
from kraft.server.upkeep.cleaner import LogCleaner
from kraft.server.upkeep.counts import UpkeepCounts
from kraft.server.upkeep.scrubber import LogScrubber
from kraft.server.upkeep.throttle import Stopped, Throttle
from tests.support.cluster_images import ORDERS
from tests.support.log.transactional_log import ABORT, VERIFIED, end, read_committed, transactional
from tests.support.server.log_thread import finish_changes
from tests.support.server.replicas import DEFAULTS, WALL_MS, Broker, InlineExecutor, append_to, lead, remove_directory
from tests.support.virtual_time import run_virtually
from tests.unit.server.upkeep.cleaning import CONFIG, contents, roll

COMPACTED = ("compact",)


class MeddlingDisk(RealDisk):
    """Something happens to the log, once, when the cleaner opens its first file."""

    def __init__(self, meddle: Callable[[], None]) -> None:
        self.meddle: Callable[[], None] | None = meddle

    def open(self, path: str, create: bool) -> Any:
        meddle, self.meddle = self.meddle, None
        if meddle is not None:
            meddle()
        return super().open(path, create)


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


class Cleaning:
    def __init__(self, broker: Broker, disk: RealDisk | None = None, **config: Any) -> None:
        self.removed: list[str] = []
        self.is_full = False
        self.counts = UpkeepCounts()
        self.cleaner = LogCleaner(
            partitions=broker.partitions,
            disk=disk or RealDisk(),
            executor=InlineExecutor(),
            config=replace(CONFIG, **config),
            throttle=Throttle(UNLIMITED_BYTES_PER_SECOND),
            wall_ms=lambda: WALL_MS,
            is_full=lambda _: self.is_full,
            remove_later=lambda _, paths: self.removed.extend(paths),
            counts=self.counts,
        )

    def clean(self) -> bool:
        return run_virtually(self.cleaner.clean_dirtiest())


def compacted(broker: Broker, number: int = 0, *, rounds: int = 4, **configs: Any) -> Partition:
    """A key for each letter, written again in each round, a segment a round; and what is active."""
    partition = broker.open(TopicPartition("orders", number), cleanup_policy=COMPACTED, segment_ms=10**15, **configs)
    lead(partition, replicas=(1,))
    for at in range(rounds):
        write(partition, **{letter: f"{letter}{at}" for letter in "abc"})
        roll(partition)
    write(partition, d="active")
    broker.sync()
    return partition


def write(partition: Partition, **values: str) -> None:
    records = [Record(0, WALL_MS, key.encode(), value.encode()) for key, value in values.items()]
    append_to(partition, build_batch(records), 1)


NEWEST = [(9, "a", "a3"), (10, "b", "b3"), (11, "c", "c3"), (12, "d", "active")]


def being_moved() -> ReplicaMove:
    return ReplicaMove(
        RealDisk(),
        topic_partition=TopicPartition("orders", 0),
        topic_id=ORDERS,
        destination=LogDirectory("/b"),
        move_id="0" * 32,
    )


def test_a_log_that_is_being_moved_is_not_compacted(broker: Broker) -> None:
    partition, cleaning = compacted(broker), Cleaning(broker)
    partition.replica_log.move = being_moved()
    assert not cleaning.clean()
    partition.replica_log.move = None
    assert cleaning.clean()
    assert contents(partition) == NEWEST


def test_a_compaction_is_discarded_if_a_move_begins_meanwhile(broker: Broker) -> None:
    partition = compacted(broker)
    before = contents(partition)

    def meddle() -> None:
        partition.replica_log.move = being_moved()

    Cleaning(broker, MeddlingDisk(meddle)).clean()
    assert contents(partition) == before
    assert broker.failures == []
    assert [name for name in os.listdir(partition.log.directory) if name.endswith(".cleaned")] == []


def test_a_log_that_was_moved_before_its_turn_came_is_not_compacted_where_it_was(broker: Broker) -> None:
    partition, cleaning = compacted(broker), Cleaning(broker)
    before, plan = partition.log, cleaner._plan(partition, WALL_MS)
    assert plan is not None
    os.rename(before.directory, f"{before.directory}.moved")
    before.moved_to(f"{before.directory}.moved")
    moved = PartitionLog.open(RealDisk(), before.directory, before.config, partition.topic_partition)
    partition.log_moved(moved)
    with pytest.raises(Stopped):
        cleaning.cleaner._clean_in_thread(partition, before, plan, before.config, {}, ())
    assert contents(partition) != NEWEST
    assert cleaning.clean()
    assert (contents(partition), broker.failures) == (NEWEST, [])


def test_of_each_key_the_newest_record_stays(broker: Broker) -> None:
    partition, cleaning = compacted(broker), Cleaning(broker)
    with capture_logs() as logged:
        assert cleaning.clean()
    assert contents(partition) == NEWEST
    assert cleaning.removed
    assert [(each["event"], each["records_before"], each["records"]) for each in logged] == [("log compacted", 12, 3)]
    assert not cleaning.clean()
    assert cleaning.counts.compactions == 1
    assert cleaning.counts.compaction_bytes_read > cleaning.counts.compaction_bytes_kept > 0


def test_a_compacted_log_is_not_corrupt(broker: Broker) -> None:
    partition = compacted(broker)
    Cleaning(broker).clean()
    found: list[object] = []
    scrubber = LogScrubber(
        partitions=broker.partitions,
        disk=RealDisk(),
        executor=InlineExecutor(),
        interval_ms=1,
        throttle=Throttle(UNLIMITED_BYTES_PER_SECOND),
        on_corruption=lambda _, corruption: found.append(corruption),
    )
    tally = run_virtually(scrubber.scrub_all())
    assert (tally.batches, found) == (2, [])
    assert partition.log.is_sparse


def test_the_dirtiest_log_comes_first(broker: Broker) -> None:
    cleaner, dirtier = compacted(broker, 0), compacted(broker, 1)
    cleaning = Cleaning(broker)
    cleaning.clean()
    cleaning.clean()
    for at in range(4):
        write(cleaner, a=f"again {at}")
    roll(cleaner)
    for _ in range(4):
        write(dirtier, **{letter: letter * 50 for letter in "abcdef"})
    roll(dirtier)
    ends = cleaner.log.cleaned_end_offset, dirtier.log.cleaned_end_offset
    assert cleaning.clean()
    assert cleaner.log.cleaned_end_offset == ends[0]
    assert dirtier.log.cleaned_end_offset > ends[1]
    assert cleaning.clean()
    assert cleaner.log.cleaned_end_offset > ends[0]


def test_a_log_without_compaction_is_not_touched(broker: Broker) -> None:
    partition = compacted(broker)
    config = replace(DEFAULTS, cleanup_policy=("delete",))
    partition.reconfigure(config)
    assert not Cleaning(broker).clean()


def test_what_is_not_committed_is_not_compacted(broker: Broker) -> None:
    partition = broker.open(cleanup_policy=COMPACTED, segment_ms=10**15)
    lead(partition, replicas=(1, 2))
    for at in range(4):
        write(partition, a=f"a{at}")
        roll(partition)
    assert partition.high_watermark == 0
    assert not Cleaning(broker).clean()


def test_a_record_of_an_open_transaction_replaces_no_committed_one(broker: Broker) -> None:
    partition = compacted(broker, rounds=2)
    append_to(partition, transactional(7, 0, "undecided", key="a"), 1, VERIFIED)
    roll(partition)
    write(partition, e="active")
    broker.sync()
    assert partition.last_stable_offset == 7
    assert partition.high_watermark == 9
    assert Cleaning(broker).clean()
    assert contents(partition)[:4] == [(3, "a", "a1"), (4, "b", "b1"), (5, "c", "c1"), (6, "d", "active")]
    end(partition.log, 7, ABORT)
    broker.sync()
    assert [value for value in read_committed(partition.log) if value.startswith("a")] == ["a1", "active", "active"]


def test_a_log_is_not_compacted_in_the_middle_of_a_truncation(broker: Broker) -> None:
    partition = compacted(broker)
    cleaning = Cleaning(broker)
    truncation = partition.replica_log.changes.make(lambda: partition.log.truncating_to(Offset(10)))
    while not truncation.is_done:
        assert not cleaning.clean()
        broker.sync()
    assert partition.log.log_end_offset == 9
    assert cleaning.clean()


def test_a_full_disk_is_not_written_to(broker: Broker) -> None:
    compacted(broker)
    cleaning = Cleaning(broker)
    cleaning.is_full = True
    assert not cleaning.clean()
    cleaning.is_full = False
    assert cleaning.clean()


def left_behind(broker: Broker) -> list[str]:
    return [path.name for path in broker.directory.rglob("*.cleaned")]


def test_the_compaction_of_a_log_that_was_truncated_meanwhile_is_discarded(broker: Broker) -> None:
    partition = compacted(broker)
    before = contents(partition)

    def truncate() -> None:
        partition.log.truncate_to(Offset(7))

    cleaning = Cleaning(broker, MeddlingDisk(truncate))
    with capture_logs() as logged:
        assert cleaning.clean()
    assert contents(partition) == [record for record in before if record[0] < 6]
    assert (cleaning.removed, left_behind(broker), logged) == ([], [], [])


def test_a_truncation_beside_a_cleaning_is_no_corruption(broker: Broker) -> None:
    partition = compacted(broker, rounds=1)
    for at in range(4):
        write(partition, e=f"e{at}")
    roll(partition)
    write(partition, f="active")
    broker.sync()

    def truncate() -> None:
        partition.log.truncate_to(Offset(6))

    cleaning = Cleaning(broker, MeddlingDisk(truncate))
    assert cleaning.clean()
    assert broker.corrupt == []

    cleaning = Cleaning(broker)
    roll(partition)
    assert cleaning.clean()
    assert contents(partition)[-1] == (5, "e", "e1")


def test_corruption_that_the_next_attempt_does_not_find_does_not_count(broker: Broker) -> None:
    """As when the log was cut off and grew again to the same size while it was read."""
    partition = compacted(broker)
    path = Path(partition.log.segments()[1].path)
    sound = path.read_bytes()
    path.write_bytes(bytes([*sound[:-1], sound[-1] ^ 1]))
    cleaning = Cleaning(broker)
    assert cleaning.clean()
    path.write_bytes(sound)
    assert cleaning.clean()
    assert broker.corrupt == []
    assert contents(partition) == NEWEST


@pytest.mark.parametrize("is_over", [True, False])
def test_corruption_that_is_found_beside_a_truncation_does_not_count(broker: Broker, is_over: bool) -> None:
    partition = compacted(broker, rounds=8)
    path = Path(partition.log.segments()[1].path)
    sound = path.read_bytes()
    path.write_bytes(bytes([*sound[:-1], sound[-1] ^ 1]))

    def truncate() -> None:
        partition.replica_log.changes.make(lambda: partition.log.truncating_to(Offset(22)))
        if is_over:
            finish_changes(partition)
        assert partition.replica_log.is_changing is not is_over

    disk = MeddlingDisk(lambda: None)
    cleaning = Cleaning(broker, disk)
    assert cleaning.clean()
    disk.meddle = truncate
    assert cleaning.clean()
    while partition.replica_log.is_changing:
        broker.sync()
    assert partition.log.log_end_offset <= 22
    assert cleaning.clean()
    assert broker.corrupt == [], "it was found twice, but not in two attempts of which both count"
    assert cleaning.clean()
    assert [reason.split(" at byte")[0] for reason in broker.corrupt] == [str(path)]


def test_the_compaction_of_a_log_that_was_reconfigured_meanwhile_is_discarded(broker: Broker) -> None:
    partition = compacted(broker)
    before = contents(partition)
    config = replace(DEFAULTS, cleanup_policy=("delete",))
    cleaning = Cleaning(broker, MeddlingDisk(lambda: partition.reconfigure(config)))
    assert cleaning.clean()
    assert contents(partition) == before
    assert left_behind(broker) == []


def test_a_partition_that_is_deleted_meanwhile_ends_its_cleaning(broker: Broker) -> None:
    partition = compacted(broker)
    cleaning = Cleaning(broker, MeddlingDisk(partition.retire))
    assert cleaning.clean()
    assert left_behind(broker) == []
    remove_directory(partition)
    assert not cleaning.clean()


def test_a_corrupt_log_goes_offline_and_the_next_one_is_compacted(broker: Broker) -> None:
    corrupt, sound = compacted(broker, 0, rounds=8), compacted(broker, 1)
    path = Path(corrupt.log.segments()[1].path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    cleaning = Cleaning(broker)
    cleaning.clean()
    assert broker.corrupt == [], "a truncation may have come between; a second attempt shows it"
    cleaning.clean()
    cleaning.clean()
    assert [reason.split(" at byte")[0] for reason in set(broker.corrupt)] == [str(path)]
    assert contents(sound) == NEWEST


def test_a_log_that_cannot_be_compacted_is_reported_once_and_does_not_block_others(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = compacted(broker, 0, rounds=8), compacted(broker, 1)

    def clean(disk: Any, directory: str, *rest: Any) -> Any:
        if directory == first.log.directory:
            raise ZeroDivisionError("a bug")
        return compaction.clean(disk, directory, *rest)

    monkeypatch.setattr(cleaner, "clean", clean)
    cleaning = Cleaning(broker)
    with capture_logs() as logged:
        while cleaning.clean():
            pass
    assert contents(second) == NEWEST
    assert [(each["log_level"], each["event"]) for each in logged if each["log_level"] == "error"] == [
        ("error", "internal error")
    ]
    assert first.is_open


def test_a_log_whose_keys_do_not_fit_into_memory_is_reported_with_the_config_to_change(broker: Broker) -> None:
    partition = broker.open(cleanup_policy=COMPACTED, segment_ms=10**15)
    lead(partition, replicas=(1,))
    for first in range(0, 3_000, 1_000):
        keys = range(first, first + 1_000)
        append_to(partition, build_batch([Record(at, WALL_MS, b"%d" % key, b"v") for at, key in enumerate(keys)]), 1)
    roll(partition)
    cleaning = Cleaning(broker, cleaner_dedupe_buffer_bytes=10_000)
    with capture_logs() as logged:
        assert cleaning.clean()
        assert not cleaning.clean()
    assert [each["log_level"] for each in logged] == ["error"]
    assert "log.cleaner.dedupe.buffer.size" in logged[0]["reason"]


def test_a_compaction_without_room_is_retried_later(broker: Broker) -> None:
    partition = compacted(broker)

    def full() -> None:
        raise OSError(ENOSPC, "No space left on device")

    cleaning = Cleaning(broker, MeddlingDisk(full))

    async def scenario() -> None:
        with capture_logs() as logged:
            assert await cleaning.cleaner.clean_dirtiest()
            assert not await cleaning.cleaner.clean_dirtiest()
        assert [each["log_level"] for each in logged] == ["warning"]
        await asyncio.sleep(cleaner.RETRY_AFTER_S)
        assert await cleaning.cleaner.clean_dirtiest()

    run_virtually(scenario())
    assert contents(partition) == NEWEST
    assert broker.failures == []


def test_a_disk_that_fails_under_the_cleaner_fails_the_log_directory(broker: Broker) -> None:
    compacted(broker)

    def fail() -> None:
        raise OSError(5, "Input/output error")

    assert Cleaning(broker, MeddlingDisk(fail)).clean()
    assert len(broker.failures) == 1
    assert "Input/output error" in broker.failures[0]
