from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kraft.log.partition_log import PartitionLog
from kraft.model.alter_partition import AlterPartitionResult
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import NO_BROKER, BrokerId, LeaderEpoch, Offset, PartitionEpoch
from kraft.model.replica_fetch import ReplicaFetchResult
from kraft.replication.effects import TruncateTo
from kraft.server.loop.purgatory import Watch
from tests.support.server.replicas import (
    DEFAULTS,
    ORDERS_0,
    Broker,
    append_to,
    batch,
    fetched,
    follow,
    lead,
    leaders_batch,
    made,
    outcome,
    remove_directory,
    state,
    values_in,
    values_of,
)

pytestmark = pytest.mark.real_time

ACCEPTED = AlterPartitionResult(
    leader_epoch=LeaderEpoch(0), partition_epoch=PartitionEpoch(1), isr=[BrokerId(1), BrokerId(2)]
)


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


def test_a_replica_without_a_role_refuses_to_lead(broker: Broker) -> None:
    with pytest.raises(Refusal, match="NOT_LEADER_OR_FOLLOWER"):
        append_to(broker.open(), batch("a"), 1)


def test_only_what_is_on_every_disk_is_committed(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    append_to(partition, batch("a", "b"), -1)
    fetched(partition, 2)
    assert partition.high_watermark == 0, "the leader itself has not synced yet"
    broker.sync()
    assert partition.high_watermark == 2


def test_with_the_page_cache_as_durability_what_is_written_counts(tmp_path: Path) -> None:
    broker = Broker(tmp_path, sync_before_ack=False)
    partition = broker.open()
    lead(partition)
    append_to(partition, batch("a"), -1)
    fetched(partition, 1)
    assert (partition.high_watermark, broker.unsynced, partition.replica_log.durable_end) == (1, [], 1)


def test_an_unsynced_tail_that_a_new_leader_finds_is_synced(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    append_to(partition, batch("a"), -1)
    broker.unsynced.clear()
    lead(partition, epoch=1, isr=(1,))
    assert partition.high_watermark == 0
    broker.sync()
    assert partition.high_watermark == 1


async def test_a_demoted_leader_refuses_its_parked_produces_and_never_acknowledges_them(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    append_to(partition, batch("a"), -1)
    parked = partition.park_produce(Offset(1))
    follow(partition, epoch=1)
    assert outcome(parked) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    lead(partition, epoch=2)
    again = partition.park_produce(Offset(1))
    assert outcome(again) is None
    broker.sync()
    fetched(partition, 1)
    assert outcome(again) is ErrorCode.NONE
    assert outcome(parked) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_leader_keeps_its_parked_produces_through_a_change_of_its_isr(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    append_to(partition, batch("a"), -1)
    broker.sync()
    parked = partition.park_produce(Offset(1))
    lead(partition, partition_epoch=1, isr=(1,))
    assert outcome(parked) is ErrorCode.NONE, "the replica that was waited for is out of the ISR"


async def test_a_shrunken_isr_answers_the_parked_produces_that_it_is_too_small_for(broker: Broker) -> None:
    partition = broker.open(min_insync_replicas=2)
    lead(partition)
    append_to(partition, batch("a"), -1)
    broker.sync()
    parked = partition.park_produce(Offset(1))
    lead(partition, partition_epoch=1, isr=(1,))
    assert outcome(parked) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert partition.high_watermark == 0


async def test_a_lower_minimum_commits_waiting_records_and_admits_acks_all(broker: Broker) -> None:
    partition = broker.open(min_insync_replicas=2)
    lead(partition, isr=(1,))
    append_to(partition, batch("a"), 1)
    broker.sync()
    with pytest.raises(Refusal, match="NOT_ENOUGH_REPLICAS"):
        append_to(partition, batch("b"), -1)
    assert (partition.high_watermark, partition.log.log_end_offset) == (0, 1)
    lower = replace(DEFAULTS, min_insync_replicas=1)
    partition.reconfigure(lower)
    assert partition.high_watermark == 1
    append_to(partition, batch("b"), -1)
    parked = partition.park_produce(Offset(2))
    assert outcome(parked) is None
    broker.sync()
    assert outcome(parked) is ErrorCode.NONE
    assert partition.high_watermark == 2


def test_epochs_of_clients_are_fenced(broker: Broker) -> None:
    partition = broker.open()
    lead(partition, epoch=5)
    assert partition.as_leader(5) is partition.as_leader()
    with pytest.raises(Refusal, match="FENCED_LEADER_EPOCH"):
        partition.as_leader(4)
    with pytest.raises(Refusal, match="UNKNOWN_LEADER_EPOCH"):
        partition.as_leader(6)


def test_a_replica_that_does_not_lead_checks_the_epoch_first(broker: Broker) -> None:
    partition = broker.open()
    follow(partition, epoch=5)
    for epoch, code in ((4, "FENCED_LEADER_EPOCH"), (6, "UNKNOWN_LEADER_EPOCH"), (5, "NOT_LEADER"), (-1, "NOT_LEADER")):
        with pytest.raises(Refusal, match=code):
            partition.as_leader(epoch)


def test_a_replica_without_a_leader_does_not_fetch_and_keeps_its_high_watermark(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    append_to(partition, batch("a"), -1)
    broker.sync()
    fetched(partition, 1)
    partition.follow(state(NO_BROKER, epoch=1))
    assert (partition.leader, partition.follower, partition.high_watermark) == (None, None, 1)
    assert partition.leader_id == NO_BROKER


def test_a_high_watermark_from_the_checkpoint_is_limited_to_the_log_end(broker: Broker) -> None:
    partition = broker.open(high_watermark=1_000)
    lead(partition)
    assert partition.high_watermark == 0


def test_an_answer_to_a_proposal_of_an_earlier_leadership_changes_nothing(broker: Broker) -> None:
    partition = broker.open()
    lead(partition, isr=(1,))
    fetched(partition, 0)
    (proposal,) = broker.proposals
    lead(partition, epoch=1, partition_epoch=1, isr=(1,))
    partition.alter_partition_answered(proposal, ACCEPTED)
    assert partition.as_leader().isr == (1,)
    follow(partition, epoch=2)
    partition.alter_partition_answered(proposal, ACCEPTED)
    assert partition.leader is None


def test_a_refusal_for_an_earlier_leadership_does_not_stop_the_repetition_of_the_new_proposal(broker: Broker) -> None:
    partition = broker.open()
    lead(partition, isr=(1,))
    fetched(partition, 0)
    lead(partition, epoch=1, partition_epoch=1, isr=(1,))
    fetched(partition, 0)
    earlier, current = broker.proposals
    assert (earlier.attempt, earlier.leader_epoch) == (current.attempt, 0)
    fenced = AlterPartitionResult(
        error_code=ErrorCode.FENCED_LEADER_EPOCH, leader_epoch=LeaderEpoch(1), partition_epoch=PartitionEpoch(1)
    )
    partition.alter_partition_answered(earlier, fenced)
    broker.now_ms += 10_000
    partition.tick()
    assert [proposal.leader_epoch for proposal in broker.proposals] == [0, 1, 1]


def test_an_accepted_proposal_is_the_isr(broker: Broker) -> None:
    partition = broker.open()
    lead(partition, isr=(1,))
    fetched(partition, 0)
    (proposal,) = broker.proposals
    partition.alter_partition_answered(proposal, ACCEPTED)
    assert partition.as_leader().isr == (1, 2)


# --- as a follower ---------------------------------------------------------------------------------------------


def test_a_followers_next_fetch_waits_for_the_sync(broker: Broker) -> None:
    partition = broker.open()
    follow(partition)
    assert partition.follower is not None
    made(partition, partition.append_as_follower(leaders_batch("a", at=0)))
    assert partition.follower.next_fetch() is None
    broker.sync()
    position = partition.follower.next_fetch()
    assert position is not None
    assert position.fetch_offset == 1


async def test_a_fetcher_that_waits_for_the_sync_is_woken_by_it(broker: Broker) -> None:
    partition = broker.open()
    follow(partition)
    made(partition, partition.append_as_follower(leaders_batch("a", at=0)))
    with Watch([partition.appended]) as watch:
        watch.again()
        broker.sync()
        assert await watch.wait(0)


def test_a_sync_during_a_truncation_covers_only_the_remaining_records(broker: Broker) -> None:
    partition = broker.open()
    follow(partition)
    assert partition.follower is not None
    made(partition, partition.append_as_follower(leaders_batch("a", at=0)))
    broker.sync()
    made(partition, partition.append_as_follower(leaders_batch("b", "c", at=1)))
    ticket = partition.replica_log.prepare_sync()
    assert ticket is not None
    made(partition, partition.truncate(TruncateTo(offset=Offset(1))))
    ticket.run()
    partition.replica_log.complete_sync(ticket)
    made(partition, partition.append_as_follower(leaders_batch("d", at=1, epoch=1)))
    assert partition.replica_log.durable_end == 1
    assert partition.follower.next_fetch() is None
    broker.sync()
    assert partition.replica_log.durable_end == 2
    assert values_in(partition) == ["a", "d"]


def test_a_follower_that_is_promoted_offers_what_it_copied(broker: Broker) -> None:
    partition = broker.open()
    follow(partition)
    made(partition, partition.append_as_follower(leaders_batch("a", "b", at=0)))
    broker.sync()
    lead(partition, epoch=1, isr=(1,))
    assert partition.high_watermark == 2
    assert values_of(partition.replica_log.read(Offset(0), 1_000, partition.high_watermark, at_least_one=True)) == [
        "a",
        "b",
    ]


# --- the disk ----------------------------------------------------------------------------------------------------


async def test_a_failed_sync_is_reported_and_never_acknowledges_anything(broker: Broker) -> None:
    partition = broker.open()
    lead(partition, isr=(1,), replicas=(1,))
    append_to(partition, batch("a"), -1)
    parked = partition.park_produce(Offset(1))
    broker.disk.fails_syncs = True
    broker.sync()
    assert len(broker.failures) == 1
    assert "orders-0" in broker.failures[0]
    assert outcome(parked) is None
    broker.disk.fails_syncs = False
    partition.tick()
    broker.unsynced.append(partition.replica_log)
    broker.sync()
    assert outcome(parked) is None, "the kernel reports a lost write once, and then never again"
    with pytest.raises(Refusal, match="KAFKA_STORAGE_ERROR"):
        append_to(partition, batch("b"), -1)


def test_a_failed_write_is_reported(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    broker.disk.fails_writes = True
    with pytest.raises(Refusal, match="KAFKA_STORAGE_ERROR"):
        append_to(partition, batch("a"), 1)
    assert broker.failures


async def test_a_closed_partition_is_on_disk_and_refuses_waiting_requests(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    append_to(partition, batch("a"), -1)
    parked = partition.park_produce(Offset(1))
    with Watch([partition.committed]) as watch:
        watch.again()
        partition.close()
        assert await watch.wait(0)
    assert outcome(parked) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.partitions.remove(partition)
    assert values_in(broker.open()) == ["a"]


def test_a_sync_that_is_still_running_when_the_partition_is_closed_is_no_failure(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    append_to(partition, batch("a"), -1)
    ticket = partition.replica_log.prepare_sync()
    assert ticket is not None
    partition.close()
    ticket.run()
    partition.replica_log.complete_sync(ticket)
    assert partition.replica_log.prepare_sync() is None
    assert broker.failures == []


def test_a_log_that_cannot_be_closed_durably_is_reported(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    append_to(partition, batch("a"), 1)
    broker.disk.fails_syncs = True
    partition.close()
    assert broker.failures


async def test_a_deleted_partition_is_not_synced_any_more_and_its_files_are_gone(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    append_to(partition, batch("a"), -1)
    parked = partition.park_produce(Offset(1))
    partition.retire()
    assert outcome(parked) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.replica_log.prepare_sync() is None
    remove_directory(partition)
    assert list(broker.directory.iterdir()) == []


# --- room on the disk ----------------------------------------------------------------------------------------


def test_a_full_disk_refuses_producers_and_has_not_failed(broker: Broker) -> None:
    partition = broker.open()
    lead(partition, replicas=(1,))
    append_to(partition, batch("a"), 1)
    broker.sync()
    broker.is_full = True
    with pytest.raises(Refusal, match="no room for") as refusal:
        append_to(partition, batch("b"), 1)
    assert refusal.value.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.failures == []
    assert values_of(partition.replica_log.read(Offset(0), 1 << 20, partition.high_watermark, True)) == ["a"]
    broker.is_full = False
    assert append_to(partition, batch("b"), 1).base_offset == 1


def test_a_log_without_room_during_an_append_continues_when_there_is_room(broker: Broker) -> None:
    partition = broker.open()
    lead(partition, replicas=(1,))
    append_to(partition, batch("a"), 1)
    broker.disk.is_full = True
    with pytest.raises(Refusal) as refusal:
        append_to(partition, batch("b"), 1)
    assert refusal.value.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    broker.disk.is_full = False
    assert append_to(partition, batch("c"), 1).base_offset == 1
    broker.sync()
    assert values_in(partition) == ["a", "c"]
    assert broker.failures == []


# --- the log start -------------------------------------------------------------------------------------------


def test_a_follower_advances_its_log_start_with_its_high_watermark(broker: Broker) -> None:
    partition = broker.open()
    follow(partition)
    assert partition.follower is not None
    position = partition.follower.next_fetch()
    assert position is not None
    answer = ReplicaFetchResult(
        topic_id=partition.topic_id,
        partition=0,
        error_code=ErrorCode.NONE,
        leader_epoch=0,
        high_watermark=2,
        log_start_offset=1,
        records=leaders_batch("a", at=0) + leaders_batch("b", at=1),
    )
    partition.follower.answered(position, answer)
    made(partition, partition.append_as_follower(answer.records))
    assert partition.log.log_start_offset == 0
    broker.sync_all()
    assert partition.log.log_start_offset == 1
    assert values_in(partition) == ["b"]


# --- in another log directory ----------------------------------------------------------------------------------------


def test_a_sync_of_the_original_does_not_count_for_the_moved_log(broker: Broker, tmp_path: Path) -> None:
    partition = broker.open()
    follow(partition)
    made(partition, partition.append_as_follower(leaders_batch("a", at=0)))
    ticket = partition.replica_log.prepare_sync()
    assert ticket is not None
    before = partition.log
    moved = PartitionLog.open(broker.disk, f"{tmp_path}/elsewhere/orders-0", before.config, ORDERS_0)
    moved.append_as_follower(leaders_batch("a", at=0))
    moved.take_over(before)
    partition.log_moved(moved)
    partition.log_became_durable()
    assert partition.follower is not None
    position = partition.follower.next_fetch()
    assert position is not None
    assert position.fetch_offset == 1
    made(partition, partition.append_as_follower(leaders_batch("b", at=1)))
    ticket.run()
    partition.replica_log.complete_sync(ticket)
    assert (partition.replica_log.durable_end, broker.failures) == (1, [])
    broker.sync()
    assert (partition.replica_log.durable_end, values_in(partition)) == (2, ["a", "b"])
    with pytest.raises(Refusal, match="the log is closed"):
        before.prepare_sync()
