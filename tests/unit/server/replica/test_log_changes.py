from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kraft.log.append_work import AppendMustWait
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import Offset
from kraft.model.replica_fetch import ReplicaFetchResult
from kraft.replication.effects import AppendRecords, RestartAt, TruncateTo
from kraft.server.replica.log_changes import ChangeOutcome
from kraft.server.replica.partition import Partition
from tests.support.server.replicas import Broker, batch, follow, lead, leaders_batch, settle, until, values_in
from tests.unit.server.replica.changing_replicas import DEADLINE_S, changing, held_in_a_roll, held_in_a_truncation

pytestmark = pytest.mark.real_time


async def test_no_change_of_a_log_syncs_anything_on_the_event_loops_thread(tmp_path: Path) -> None:
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
        await replica.over(partition.truncate(TruncateTo(offset=Offset(end - 20))))
        assert partition.log.log_end_offset == end - 20
        for at in range(end - 20, end + 20):
            await replica.over(partition.append_as_follower(leaders_batch("copied" * 20, at=at, epoch=5)))
        await replica.over(partition.truncate(RestartAt(offset=Offset(1_000))))
        await replica.over(partition.append_as_follower(leaders_batch("after", at=1_000, epoch=6)))
        await replica.synced()
        assert values_in(partition) == ["after"]
        # The bytes appended since the last checkpoint are many: the recovery point moves on.
        partition.log._files.sync.bytes_since_checkpoint = 1 << 40
        await replica.over(partition.append_as_follower(leaders_batch("more", at=1_001, epoch=6)))
        await until(lambda: partition.log._files.checkpoint.recovery_point == 1_002)
        assert len(disk.threads) > 100
        assert disk.on_loop() == []
        assert replica.broker.failures == []


async def test_records_wait_in_order_behind_a_roll_and_are_read_meanwhile(tmp_path: Path) -> None:
    async with held_in_a_roll(tmp_path) as (replica, appending):
        partition, disk = replica.partition, replica.disk
        with pytest.raises(AppendMustWait):
            partition.append(batch("5"), 1)
        assert len(partition.replica_log.read(Offset(0), 1 << 20, Offset(4), at_least_one=True)) > 500
        assert partition.log.log_end_offset == 4
        disk.open_gate.set()
        await appending
        await replica.append("5")
        assert [value[0] for value in values_in(partition)] == list("012345")
        assert [segment.base_offset for segment in partition.log.segments()] == [0, 4]


async def test_a_role_given_during_a_truncation_is_taken_afterwards(tmp_path: Path) -> None:
    async with held_in_a_truncation(tmp_path) as (replica, cut):
        partition, disk = replica.partition, replica.disk
        queued = partition.append_as_follower(leaders_batch("of an epoch that is over", at=2))
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


async def test_a_replica_whose_disk_fails_in_a_truncation_takes_no_role(tmp_path: Path) -> None:
    async with held_in_a_truncation(tmp_path) as (replica, cut):
        partition, disk = replica.partition, replica.disk
        lead(partition, epoch=1, replicas=(1,))
        disk.fails_syncs = True
        disk.open_gate.set()
        with pytest.raises(Refusal, match="KAFKA_STORAGE_ERROR"):
            await replica.over(cut)
        await settle()
        assert replica.broker.failures
        assert (partition.leader, partition.follower) == (None, None)


async def test_a_leader_that_is_demoted_before_its_turn_deletes_no_records(tmp_path: Path) -> None:
    async with held_in_a_roll(tmp_path) as (replica, appending):
        partition = replica.partition
        _, deleted = partition.delete_records(2)
        follow(partition, epoch=1)
        replica.disk.open_gate.set()
        for waiting in (asyncio.wait_for(appending, DEADLINE_S), replica.over(deleted)):
            with pytest.raises(Refusal, match="NOT_LEADER_OR_FOLLOWER"):
                await waiting
        assert partition.log.log_start_offset == 0


async def test_a_replica_that_is_deleted_in_the_middle_of_a_roll_writes_nothing_more(tmp_path: Path) -> None:
    async with held_in_a_roll(tmp_path) as (replica, appending):
        partition, disk = replica.partition, replica.disk
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


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def take_away(partition: Partition, target: Path) -> None:
    with partition.replica_log.directory_in_use:
        Path(partition.log.directory).rename(target)


def test_a_step_that_was_not_begun_when_its_replica_was_deleted_touches_no_file(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    partition = broker.open()
    lead(partition, replicas=(1,))
    with pytest.raises(AppendMustWait):
        partition.append(batch("a"), 1)
    ticket = partition.replica_log.prepare_sync()
    assert ticket is not None
    partition.retire()
    take_away(partition, tmp_path / "orders-0.0-delete")
    # A new topic has the name by now.
    (tmp_path / "orders-0").mkdir()
    ticket.run()
    partition.replica_log.complete_sync(ticket)
    assert names(tmp_path / "orders-0") == []


@pytest.mark.parametrize("has_step", [True, False])
def test_a_deleted_replica_refuses_requests_while_its_last_step_runs(tmp_path: Path, *, has_step: bool) -> None:
    broker = Broker(tmp_path)
    partition = broker.open()
    follow(partition)
    partition.append_as_follower(leaders_batch("a", "b", at=0))
    broker.sync_all()
    first = None
    if has_step:
        first = partition.advance_log_start(Offset(1))
    ticket = partition.replica_log.prepare_sync()
    assert (ticket is not None) == has_step
    partition.retire()
    with pytest.raises(Refusal, match="NOT_LEADER_OR_FOLLOWER: the replica is closed"):
        partition.advance_log_start(Offset(2))
    assert not partition.replica_log.is_changing
    if ticket is not None and first is not None:
        ticket.run()
        partition.replica_log.complete_sync(ticket)
        with pytest.raises(Refusal, match="the replica is closed"):
            first.result()
    assert partition.log.failure == "the log is closed", "its files are given up when the step is over"


async def test_a_disk_that_fails_in_a_roll_takes_the_directory_out_of_use(tmp_path: Path) -> None:
    async with changing(tmp_path) as replica:
        await replica.lead_full_segment()
        replica.disk.fails_syncs = True
        with pytest.raises(Refusal, match="KAFKA_STORAGE_ERROR"):
            await replica.append("4" * 150)
        (failure,) = replica.broker.failures
        assert "input/output error" in failure


async def test_a_roll_without_room_refuses_the_append_and_is_retried(tmp_path: Path) -> None:
    async with changing(tmp_path) as replica:
        partition, disk = replica.partition, replica.disk
        await replica.lead_full_segment()
        disk.refuses = ".index"
        with pytest.raises(Refusal, match="the disk is full"):
            await replica.append("4" * 150)
        assert replica.broker.failures == []
        disk.refuses = ""
        await replica.append("4" * 150)
        assert [segment.base_offset for segment in partition.log.segments()] == [0, 4]


def test_a_sync_that_is_asked_for_in_a_change_comes_after_it(tmp_path: Path) -> None:
    """Two syncs of one file at once could each take the other's error."""
    broker = Broker(tmp_path)
    partition = broker.open(segment_bytes=1_000)
    lead(partition, replicas=(1,))
    with pytest.raises(AppendMustWait):
        partition.append(batch("0" * 600), 1)
    broker.sync_all()
    partition.append(batch("0" * 600), -1)
    sync = partition.replica_log.prepare_sync()
    assert sync is not None
    with pytest.raises(AppendMustWait):
        partition.append(batch("1" * 600), -1)
    sync.run()
    partition.replica_log.complete_sync(sync)
    step = partition.replica_log.prepare_sync()
    assert type(step).__name__ == "StepTicket"
    assert partition.replica_log.prepare_sync() is None, "neither a sync nor another step beside it"
    assert step is not None
    step.run()
    partition.replica_log.complete_sync(step)
    broker.sync_all()
    partition.append(batch("1" * 600), -1)
    assert [segment.base_offset for segment in partition.log.segments()] == [0, 1]


def test_a_log_that_is_closed_in_the_middle_of_a_roll_is_whole(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
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
                broker.sync_all()
    ticket = partition.replica_log.prepare_sync()
    assert ticket is not None
    # The step was run, and the loop did not come to hear of it.
    ticket.run()
    partition.close()
    assert partition.log.failure == "the log is closed"
    again = Broker(tmp_path).open(segment_bytes=1_000)
    assert [segment.base_offset for segment in again.log.segments()] == [0, 1]
    assert values_in(again) == ["0" * 600]


def test_a_follower_does_not_fetch_while_its_records_wait_for_another_change(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    partition = broker.open()
    follow(partition)
    first = partition.append_as_follower(leaders_batch("a", "b", at=0))
    broker.sync_all()
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
    broker.sync_all()
    assert second.result() == 2
    assert follower.next_fetch() is not None
    assert partition.log.log_start_offset == 1


@pytest.mark.parametrize("later_epoch", [3, 7])
def test_an_epoch_without_records_does_not_block_the_next_leaders_records(tmp_path: Path, later_epoch: int) -> None:
    """The append for which it was begun timed out meanwhile; then this replica follows one with older records."""
    broker = Broker(tmp_path)
    partition = broker.open()
    follow(partition, epoch=2)
    partition.append_as_follower(leaders_batch("a", at=0, epoch=2))
    broker.sync_all()
    lead(partition, epoch=5, replicas=(1,))
    with pytest.raises(AppendMustWait):
        partition.append(batch("never appended"), 1)
    broker.sync_all()
    assert partition.log.epoch_cache.entries == ((2, 0), (5, 1))
    follow(partition, epoch=8)
    outcome = partition.append_as_follower(leaders_batch("b", at=1, epoch=later_epoch))
    broker.sync_all()
    assert outcome.result() == 1
    partition.close()
    again = Broker(tmp_path).open()
    assert values_in(again) == ["a", "b"]
    assert again.log.epoch_cache.entries == ((2, 0), (later_epoch, 1))


def test_a_waiting_caller_is_notified_of_a_change_once() -> None:
    outcome, heard = ChangeOutcome[int](), list[str]()
    outcome.when_done(lambda: heard.append("first"))
    outcome.end(7, None)
    outcome.when_done(lambda: heard.append("second"))
    assert (outcome.result(), heard) == (7, ["first", "second"])
    refused = ChangeOutcome[int]()
    refused.end(None, Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "no"))
    with pytest.raises(Refusal, match="no"):
        refused.result()
