"""OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete: the offsets that groups have committed.

A topic is given by name or by id; a response repeats what its request had. In responses by name, `topic_id` is None.
"""

from __future__ import annotations

from msgspec import Struct

from kraft.model.errors import ErrorCode
from kraft.model.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicId

NO_OFFSET = Offset(-1)
"""In a response: the group has not committed an offset of the partition."""


class CommitPartition(Struct, frozen=True, kw_only=True):
    """Offset of one partition to commit. Any number is accepted as an offset."""

    partition: int
    offset: Offset
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    metadata: str | None = None
    """Stored as an empty text if None."""


class CommitTopic(Struct, frozen=True, kw_only=True):
    """Offsets of one topic to commit."""

    name: str
    topic_id: TopicId | None = None
    """The id in the request; None in requests that name topics. Stored with each offset."""

    partitions: tuple[CommitPartition, ...]


class OffsetCommitRequest(Struct, frozen=True, kw_only=True):
    """Request to store offsets for a group."""

    group_id: str
    member_id: str = ""
    group_instance_id: str | None = None
    generation: int = -1
    """Generation of a classic member, or epoch of a member of the consumer protocol; -1 for no member."""

    topics: tuple[CommitTopic, ...]


class TxnOffsetCommitRequest(OffsetCommitRequest, frozen=True, kw_only=True):
    """Request to commit offsets of a group with a producer's transaction; the response is `OffsetResults`.

    They count once the transaction is committed. Without member id, instance id and generation the member is not
    checked (KIP-447). The group's partition of `__consumer_offsets` is added to the transaction (KIP-890).
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int


class PartitionResult(Struct, frozen=True):
    """Error code of one partition; NONE for success."""

    partition: int
    error_code: ErrorCode


class TopicResult(Struct, frozen=True, kw_only=True):
    """Results of the partitions of one topic, in the order of the request."""

    name: str
    topic_id: TopicId | None = None
    partitions: tuple[PartitionResult, ...]


class OffsetResults(Struct, frozen=True, kw_only=True):
    """Response to OffsetCommit, TxnOffsetCommit and OffsetDelete, in the order of the request."""

    topics: tuple[TopicResult, ...]


class FetchTopic(Struct, frozen=True, kw_only=True):
    """Partitions of one topic whose offsets are asked for."""

    name: str
    topic_id: TopicId | None = None
    """None in requests that name topics."""

    partitions: tuple[int, ...]


class FetchGroup(Struct, frozen=True, kw_only=True):
    """A group whose offsets are asked for."""

    group_id: str
    member_id: str | None = None
    """Set by a member of the consumer protocol, which is refused if the epoch is not its own."""

    member_epoch: int = -1
    topics: tuple[FetchTopic, ...] = ()
    all_topics: bool = False
    """Fetch all offsets of the group; `topics` is then empty."""


class OffsetFetchRequest(Struct, frozen=True, kw_only=True):
    """Request for the committed offsets of groups."""

    groups: tuple[FetchGroup, ...]
    require_stable: bool = False
    """Refuse partitions with offsets of transactions that have not ended (UNSTABLE_OFFSET_COMMIT)."""


class FetchedPartition(Struct, frozen=True, kw_only=True):
    """Committed offset of one partition; the defaults say that there is none."""

    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    offset: Offset = NO_OFFSET
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    metadata: str = ""


class FetchedTopic(Struct, frozen=True, kw_only=True):
    """Committed offsets of one topic."""

    name: str
    topic_id: TopicId | None = None
    partitions: tuple[FetchedPartition, ...]


class FetchedGroup(Struct, frozen=True, kw_only=True):
    """Committed offsets of one group; none if the group is refused."""

    group_id: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    topics: tuple[FetchedTopic, ...] = ()


class OffsetFetchResponse(Struct, frozen=True, kw_only=True):
    """Response to OffsetFetch, in the order of the request."""

    groups: tuple[FetchedGroup, ...]


class DeleteTopic(Struct, frozen=True):
    """Partitions of one topic whose offsets are to be deleted."""

    name: str
    partitions: tuple[int, ...]


class DeleteOffsets(Struct, frozen=True, kw_only=True):
    """OffsetDelete: request to delete offsets of a group; the response is `OffsetResults`."""

    group_id: str
    topics: tuple[DeleteTopic, ...]
