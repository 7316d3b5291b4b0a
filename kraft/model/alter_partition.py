"""AlterPartition: a leader proposes another in-sync set."""

from __future__ import annotations

from dataclasses import dataclass, field

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


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrMember:
    """`broker_epoch` is the registration that the replica fetched under, UNKNOWN_BROKER_EPOCH before its first fetch.

    The controller refuses a registration that has ended, so a broker that came back is never taken for its
    earlier life (KIP-903). An unknown epoch stands only beside replicas that are in the ISR already: when one
    of those comes back, the controller takes it out of the ISR and the partition epoch refuses the proposal.
    """

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionRequest:
    """The leader's wish for another ISR, fenced by all the epochs under which it formed it."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    new_isr: list[IsrMember]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionResult:
    """The partition's state after the change, or as it is when the change was refused and the partition is known.

    While there are brokers in `elr`, the leader commits nothing.
    """

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    leader_id: BrokerId = NO_BROKER
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    partition_epoch: PartitionEpoch = NO_PARTITION_EPOCH
    isr: list[BrokerId] = field(default_factory=list)
    elr: list[BrokerId] = field(default_factory=list)
