"""What brokers ask the active controller for, and what it answers, as values.

Requests of clients and operators are in `kraft.model.requests`. The fields here are plain, too, because the RPC layer
maps them by name. An answer carries its error code; a decider that has nothing else to answer raises Refusal instead.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from kraft.metadata.records import Endpoint
from kraft.model.errors import ErrorCode
from kraft.model.feature_requests import FeatureRange
from kraft.model.ids import (
    NO_BROKER,
    NO_LEADER_EPOCH,
    NO_PRODUCER_ID,
    BrokerEpoch,
    BrokerId,
    DirectoryId,
    LeaderEpoch,
    PartitionEpoch,
    ProducerId,
    TopicId,
)

NO_BROKER_EPOCH = BrokerEpoch(-1)
NO_PARTITION_EPOCH = PartitionEpoch(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRequest:
    """`incarnation_id` is drawn anew by every process, `directory_ids` name what is on the broker's disks.

    `features` are the levels that the broker's version supports; one that names none is of the first version.
    `may_have_lost_records`: the process before this one acknowledged what it had not synced, and was not stopped in
    order, so that what it acknowledged last may not be there any more.
    """

    cluster_id: str
    broker_id: BrokerId
    incarnation_id: UUID
    endpoints: list[Endpoint]
    rack: str
    directory_ids: list[DirectoryId]
    features: list[FeatureRange] = field(default_factory=list)
    may_have_lost_records: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationResult:
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    broker_epoch: BrokerEpoch = NO_BROKER_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    """`metadata_index` is the last metadata entry that the broker has acted on."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    metadata_index: int
    wants_shutdown: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResult:
    """`may_stop` answers `wants_shutdown`: nothing is left that another broker could take over."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    is_fenced: bool = True
    may_stop: bool = False
    committed_index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrMember:
    """A replica under the registration in which the leader found it in sync (KIP-903)."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedReplica:
    """A replica whose bytes cannot be trusted or reached.

    `leader_epoch` is the last one in which the broker's process used it, -1 when it never did.
    """

    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class FailReplicasRequest:
    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    replicas: list[FailedReplica]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailReplicasResult:
    """What became of the partitions is told by the metadata."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIdsRequest:
    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdBlock:
    """The ids from `first` on, `count` of them, which no other broker gets."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    first: ProducerId = NO_PRODUCER_ID
    count: int = 0
