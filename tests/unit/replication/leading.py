"""A leader of a partition with three replicas, and the events that reach it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from kraft.metadata.image import PartitionImage
from kraft.model.alter_partition import AlterPartitionResult
from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch, TopicId
from kraft.replication.effects import HighWatermarkAdvanced, LeaderEffect, ProposeIsr
from kraft.replication.leader import LeaderSettings, LogState, PartitionLeader

REPLICAS = (1, 2, 3)
LAG_MS = 1_000


def brokers(ids: Sequence[int]) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(broker) for broker in ids)


def partition_state(
    isr: Sequence[int], partition_epoch: int, *, replicas: Sequence[int] = REPLICAS, elr: Sequence[int] = ()
) -> PartitionImage:
    """Led by broker 1 in epoch 5."""
    return PartitionImage(
        partition=0,
        replicas=brokers(replicas),
        isr=brokers(isr),
        leader=BrokerId(1),
        leader_epoch=LeaderEpoch(5),
        partition_epoch=PartitionEpoch(partition_epoch),
        elr=brokers(elr),
    )


def leading(
    isr: Sequence[int] = REPLICAS,
    *,
    replicas: Sequence[int] = REPLICAS,
    end: int = 10,
    durable_end: int | None = None,
    high_watermark: int = 10,
    min_insync_replicas: int = 2,
    lag_ms: int = LAG_MS,
    inactive: Collection[int] = (),
) -> PartitionLeader:
    """Broker 1, registered as 11, leads epoch 5 at partition epoch 7."""
    return PartitionLeader(
        partition_state(isr, 7, replicas=replicas),
        LogState(
            start=Offset(0),
            end=Offset(end),
            durable_end=Offset(end if durable_end is None else durable_end),
            high_watermark=Offset(high_watermark),
        ),
        LeaderSettings(
            min_insync_replicas=min_insync_replicas,
            replica_lag_time_max_ms=lag_ms,
            alter_partition_timeout_ms=100,
            retry_backoff_ms=20,
        ),
        topic_id=TopicId(UUID(int=1)),
        broker_id=BrokerId(1),
        broker_epoch=BrokerEpoch(11),
        now_ms=0,
        is_active=lambda broker_id: broker_id not in inactive,
    )


def write(leader: PartitionLeader, end: int) -> list[LeaderEffect]:
    """Append and sync up to `end`."""
    return [*leader.appended(Offset(end)), *leader.synced(Offset(end))]


def fetched(leader: PartitionLeader, broker: int, offset: int, now_ms: int = 0) -> list[LeaderEffect]:
    """A fetch of `broker`, registered under ten times its id and one."""
    return leader.follower_fetched(BrokerId(broker), BrokerEpoch(broker * 10 + 1), Offset(offset), now_ms)


def changed(leader: PartitionLeader, isr: Sequence[int], partition_epoch: int) -> list[LeaderEffect]:
    return leader.partition_changed(partition_state(isr, partition_epoch))


def answer(
    isr: Sequence[int],
    partition_epoch: int,
    *,
    leader_epoch: int = 5,
    elr: Sequence[int] = (),
    error_code: ErrorCode = ErrorCode.NONE,
) -> AlterPartitionResult:
    return AlterPartitionResult(
        error_code=error_code,
        leader_id=BrokerId(1),
        leader_epoch=LeaderEpoch(leader_epoch),
        partition_epoch=PartitionEpoch(partition_epoch),
        isr=list(brokers(isr)),
        elr=list(brokers(elr)),
    )


def accepted(leader: PartitionLeader, attempt: int, isr: Sequence[int], partition_epoch: int) -> list[LeaderEffect]:
    return leader.alter_partition_answered(attempt, answer(isr, partition_epoch))


def refused(leader: PartitionLeader, attempt: int, error_code: ErrorCode) -> list[LeaderEffect]:
    return leader.alter_partition_answered(attempt, AlterPartitionResult(error_code=error_code))


def ineligible(leader: PartitionLeader, attempt: int, isr: Sequence[int], partition_epoch: int) -> list[LeaderEffect]:
    """The controller let nobody in, and the partition is in a new partition epoch."""
    refusal = answer(isr, partition_epoch, error_code=ErrorCode.INELIGIBLE_REPLICA)
    return leader.alter_partition_answered(attempt, refusal)


def proposals(effects: list[LeaderEffect]) -> list[tuple[int, dict[int, int]]]:
    """Attempt, and broker epoch by broker, of each proposal."""
    return [
        (effect.attempt, {member.broker_id: member.broker_epoch for member in effect.isr})
        for effect in effects
        if isinstance(effect, ProposeIsr)
    ]


def advanced_to(high_watermark: int) -> HighWatermarkAdvanced:
    return HighWatermarkAdvanced(high_watermark=Offset(high_watermark))
