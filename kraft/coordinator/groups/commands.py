"""Commands of the group shard, with the response of each. Every one may be refused, with a Refusal as the response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct

from kraft.coordinator.classic.messages import JoinGroup
from kraft.coordinator.consumer.assignment_run import GiveUpRun, TakeTargets
from kraft.coordinator.consumer.group import ResolvedRegex
from kraft.coordinator.consumer.requests import ConsumerHeartbeat
from kraft.coordinator.offsets.found_topic import FoundTopic
from kraft.log.transactions.verification import VerificationGuard
from kraft.model.ids import TopicId
from kraft.wire.schema.heartbeat import HeartbeatRequest
from kraft.wire.schema.leave_group import LeaveGroupRequest
from kraft.wire.schema.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition
from kraft.wire.schema.offset_delete import OffsetDeleteRequestPartition
from kraft.wire.schema.sync_group import SyncGroupRequest
from kraft.wire.schema.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition


class CommitOffsets(Struct, frozen=True, kw_only=True):
    """OffsetCommit; the response is a tuple with the error code of each partition."""

    request: OffsetCommitRequest
    topics: tuple[FoundTopic[OffsetCommitRequestPartition], ...]
    """Those of the request that exist."""

    api_version: int = 10
    """Version of OffsetCommit: some refusals have another error code in older ones."""

    @property
    def group_id(self) -> str:
        return self.request.group_id


class CommitTransactionOffsets(Struct, frozen=True, kw_only=True):
    """TxnOffsetCommit, verified with the transaction coordinator; the response is likewise."""

    request: TxnOffsetCommitRequest
    topics: tuple[FoundTopic[TxnOffsetCommitRequestPartition], ...]
    adds_partition: bool = True
    """False for a producer that has sent AddOffsetsToTxn: the transaction has the group's partition already."""

    guard: VerificationGuard | None = None
    """Guard of the verification; None if the transaction was open in this partition already."""

    @property
    def group_id(self) -> str:
        return self.request.group_id


class DeleteOffsets(Struct, frozen=True, kw_only=True):
    """OffsetDelete; the response is likewise."""

    group_id: str
    topics: tuple[FoundTopic[OffsetDeleteRequestPartition], ...]


class DeleteGroup(Struct, frozen=True, kw_only=True):
    """DeleteGroups, for one group with its offsets; the response is `GroupDeleted`."""

    group_id: str


class DeleteTopicOffsets(Struct, frozen=True, kw_only=True):
    """These topics were deleted. Sent by the host to every shard; the response, None, comes when all is done."""

    topics: Mapping[str, TopicId]


class ResolveRegexes(Struct, frozen=True, kw_only=True):
    """The host found these topics for the regular expressions of a group; the response is None."""

    group_id: str
    results: Mapping[str, ResolvedRegex]


GroupCommand: TypeAlias = (
    JoinGroup
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | ConsumerHeartbeat
    | CommitOffsets
    | CommitTransactionOffsets
    | DeleteOffsets
    | DeleteGroup
    | DeleteTopicOffsets
    | ResolveRegexes
    | TakeTargets
    | GiveUpRun
)
