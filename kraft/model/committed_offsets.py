"""OffsetFetch: the offsets that groups have committed.

A topic is given by name or by id; a response repeats what its request had. In responses by name, `topic_id` is None.
"""

from __future__ import annotations

from msgspec import Struct

from kraft.model.errors import ErrorCode
from kraft.model.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicId

NO_OFFSET = Offset(-1)
"""In a response: the group has not committed an offset of the partition."""


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
