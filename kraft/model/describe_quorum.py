"""DescribeQuorum: the controllers, and how far each has come."""

from __future__ import annotations

from dataclasses import dataclass, field

from kraft.model.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumMember:
    """A voter or observer. -1 stands for what the leader has not heard yet.

    `lag` counts the entries of the leader's log that the member does not hold. The timestamps are the leader's: when it
    last heard from the member, and when the member last held all that the leader did.
    """

    node_id: int
    log_end_offset: int
    last_fetch_ms_ago: int = -1
    lag: int = -1
    last_fetch_timestamp_ms: int = -1
    last_caught_up_timestamp_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    """The metadata quorum as its leader sees it."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    leader_id: int = -1
    leader_epoch: int = -1
    high_watermark: int = -1
    voters: list[QuorumMember] = field(default_factory=list)
    observers: list[QuorumMember] = field(default_factory=list)
    cluster_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumRequest:
    pass
