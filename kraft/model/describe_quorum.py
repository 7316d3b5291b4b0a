"""DescribeQuorum: the voters and observers of the metadata quorum, and how far behind each is."""

from __future__ import annotations

from msgspec import Struct, field

from kraft.model.errors import ErrorCode


class QuorumMember(Struct, frozen=True, kw_only=True):
    """Voter or observer; a value that the leader does not know is -1.

    `lag` counts the entries of the leader's log that the member does not hold. The timestamps are by the leader's
    clock: the member's last contact, and the last time at which the member held all of the leader's entries.
    """

    node_id: int
    log_end_offset: int
    last_fetch_ms_ago: int = -1
    lag: int = -1
    last_fetch_timestamp_ms: int = -1
    last_caught_up_timestamp_ms: int = -1
    is_learner: bool = False
    """The voter lost its metadata log, and does not count until the leader has admitted it."""

    unreachable: bool = False
    """The leader has heard nothing of this voter for longer than the fetch timeout.

    If no controller is active: the voter did not answer the broker, and the times are by the clocks of others.
    """


class QuorumDescription(Struct, frozen=True, kw_only=True):
    """Metadata quorum as its leader sees it.

    While no controller is active: NOT_CONTROLLER with the facts in words, and what the voters that answered know.
    """

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    leader_id: int = -1
    leader_epoch: int = -1
    high_watermark: int = -1
    voters: list[QuorumMember] = field(default_factory=list)
    observers: list[QuorumMember] = field(default_factory=list)
    cluster_id: str = ""


class QuorumDescriptionRequest(Struct, frozen=True, kw_only=True):
    """Request for the state of the quorum; `from_any_voter`: also from a controller that is not active."""

    from_any_voter: bool = False
