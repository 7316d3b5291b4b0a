"""FailReplicas: a broker reports replicas that have failed."""

from __future__ import annotations

from msgspec import Struct

from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, TopicId


class FailedReplica(Struct, frozen=True, kw_only=True):
    """Replica whose bytes are corrupt or cannot be read.

    `leader_epoch` is the last one in which the broker's process used it; -1 if it never did.
    """

    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch


class FailReplicasRequest(Struct, frozen=True, kw_only=True):
    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    replicas: list[FailedReplica]


class FailReplicasResult(Struct, frozen=True, kw_only=True):
    """Result of FailReplicas; the new state of the partitions follows in the metadata."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
