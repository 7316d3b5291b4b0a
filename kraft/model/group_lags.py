"""DescribeGroupLags: how far groups are behind, in records and in time, and what their last commits say of them."""

from __future__ import annotations

from msgspec import Struct

UNKNOWN = -1


class DescribeGroupLagsRequest(Struct, frozen=True, kw_only=True):
    group_ids: list[str]
    """Groups whose coordinator is this broker; empty: all that it coordinates and that have committed offsets."""


class SeenCommit(Struct, frozen=True, kw_only=True):
    """A commit that the coordinator saw."""

    offset: int
    timestamp_ms: int
    lag: int
    """Records that waited behind it then; -1 if that was not known."""


class PartitionLag(Struct, frozen=True, kw_only=True):
    """How far a group is behind in one partition. -1: not known."""

    topic: str
    partition: int
    state: str
    """One of Burrow's: OK, WARN, STOP, STALL or REWIND."""

    committed_offset: int
    lag: int
    """Offsets up to the high watermark at the last look, so those of open transactions count."""

    behind_ms: int
    """Age of the first record that waits, also if it has been deleted meanwhile; 0: none does."""

    is_at_least: bool
    """True: that record is older than the memory of the coordinator, and so the age may be higher."""

    completeness: float
    """Share of the commits that the state is judged by which the coordinator has seen, from 0 to 1."""

    commits: list[SeenCommit]
    """These, oldest first; ten at most."""

    owner: str = ""
    """Address of the member that reads the partition; empty without one, and if all groups were asked for."""

    client_id: str = ""
    """Of the same member."""


class GroupLag(Struct, frozen=True, kw_only=True):
    """How far one group is behind."""

    group_id: str
    error_code: int
    """GROUP_ID_NOT_FOUND: the group has no committed offsets. After any other error nothing is known of it."""

    error_message: str
    state: str
    """The worst of its partitions, ERR for what is worse than that; NOTFOUND, or empty if it is not known."""

    partitions: list[PartitionLag]
    """Ordered by topic and partition."""


class DescribeGroupLagsResponse(Struct, frozen=True, kw_only=True):
    groups: list[GroupLag]
