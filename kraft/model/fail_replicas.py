"""FailReplicas: a broker reports replicas that it cannot use any more."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, TopicId


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
