"""A real log that follows another one by the machine of a follower and the check of a leader."""

from __future__ import annotations

from kraft.log.change import run_now
from kraft.log.partition_log import PartitionLog
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId, LeaderEpoch, Offset
from kraft.model.replica_fetch import ReplicaFetchPartition, ReplicaFetchResult
from kraft.replication.divergence import check_follower_fetch
from kraft.replication.effects import AdvanceLogStart, AppendRecords, FollowerEffect, RestartAt, TruncateTo
from kraft.replication.follower import FetchPosition, PartitionFollower
from tests.simulation.replication_model import TOPIC
from tests.support.log.log_building import sync

FETCHES = 8


def fetched(
    leader: PartitionLog, leader_epoch: LeaderEpoch, position: FetchPosition, empty_start_max: int
) -> ReplicaFetchResult:
    """Return the response of the leader, which counts all that it has as committed."""
    fetch = ReplicaFetchPartition(
        topic_id=TOPIC,
        partition=0,
        fetch_offset=position.fetch_offset,
        last_fetched_epoch=position.last_fetched_epoch,
        current_leader_epoch=position.current_leader_epoch,
        log_start_offset=position.log_start,
        high_watermark=position.high_watermark,
        partition_max_bytes=1 << 20,
    )
    error_code, diverging, records = ErrorCode.NONE, None, b""
    try:
        diverging = check_follower_fetch(leader, leader_epoch, fetch, Offset(empty_start_max))
        if diverging is None:
            records = leader.read(position.fetch_offset, 1 << 20, leader.log_end_offset)
    except Refusal as refusal:
        error_code = refusal.error_code
    return ReplicaFetchResult(
        topic_id=TOPIC,
        partition=0,
        error_code=error_code,
        leader_epoch=leader_epoch,
        high_watermark=leader.log_end_offset,
        log_start_offset=leader.log_start_offset,
        records=records,
        diverging_epoch=-1 if diverging is None else diverging.epoch,
        diverging_end_offset=-1 if diverging is None else diverging.end_offset,
    )


def run(log: PartitionLog, follower: PartitionFollower, effect: FollowerEffect) -> list[FollowerEffect]:
    match effect:
        case AppendRecords(records=records):
            log.append_as_follower(records)
            sync(log)
            return follower.appended(log.log_end_offset, log.synced_end_offset)
        case TruncateTo(offset=offset):
            log.truncate_to(offset)
            return follower.truncated(log.log_end_offset, log.synced_end_offset)
        case RestartAt(offset=offset):
            log.truncate_fully_and_start_at(offset)
            return follower.truncated(log.log_end_offset, log.synced_end_offset)
        case AdvanceLogStart(offset=offset):
            run_now(log.advancing_log_start(offset))
        case _:
            pass
    return []


def follow(
    log: PartitionLog, leader: PartitionLog, leader_epoch: int, high_watermark: int, empty_start_max: int = 0
) -> list[FollowerEffect]:
    """Let the log follow the leader until it has everything; return the effects.

    The log is that of a replica outside the ISR, unless `empty_start_max` says that one in it may begin there.
    """
    sync(log)
    epoch = LeaderEpoch(leader_epoch)
    follower = PartitionFollower(
        topic_id=TOPIC,
        partition=0,
        leader_id=BrokerId(2),
        leader_epoch=epoch,
        log=log,
        durable_end=log.synced_end_offset,
        high_watermark=Offset(high_watermark),
    )
    done: list[FollowerEffect] = []
    for _ in range(FETCHES):
        position = follower.next_fetch()
        assert position is not None
        effects = follower.answered(position, fetched(leader, epoch, position, empty_start_max))
        while effects:
            done.append(effect := effects.pop(0))
            effects += run(log, follower, effect)
    assert log.log_end_offset == leader.log_end_offset
    assert log.log_start_offset >= leader.log_start_offset
    return done
