"""AlterPartition: a leader proposes another in-sync set."""

from __future__ import annotations

from msgspec import Struct, field

from kraft.model.errors import ErrorCode
from kraft.model.ids import (
    NO_BROKER,
    NO_LEADER_EPOCH,
    NO_PARTITION_EPOCH,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
)


class IsrMember(Struct, frozen=True, kw_only=True):
    """Member of a proposed ISR, with the broker epoch of its fetches; UNKNOWN_BROKER_EPOCH before its first fetch.

    The controller refuses an epoch that has ended, so that a broker which registered again does not count as its
    earlier process (KIP-903). Only replicas that are already in the ISR may have an unknown epoch: if such a broker
    registers again, the controller removes it from the ISR, and the partition epoch makes the proposal stale.
    """

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


class AlterPartitionRequest(Struct, frozen=True, kw_only=True):
    """Proposal of a new ISR by the leader, with the epochs under which it was made; stale ones are refused."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    new_isr: list[IsrMember]


class AlterPartitionResult(Struct, frozen=True, kw_only=True):
    """State of the partition after the change; if it was refused, the current state, if the partition exists.

    While `elr` is not empty, the leader commits nothing.
    """

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    leader_id: BrokerId = NO_BROKER
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    partition_epoch: PartitionEpoch = NO_PARTITION_EPOCH
    isr: list[BrokerId] = field(default_factory=list)
    elr: list[BrokerId] = field(default_factory=list)
