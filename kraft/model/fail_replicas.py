"""FailReplicas: a broker reports replicas that have failed."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedReplica:
    """Replica whose bytes are corrupt or cannot be read.

    `leader_epoch` is the last one in which the broker's process used it; -1 if it never did.
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
    """Result of FailReplicas; the new state of the partitions follows in the metadata."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
