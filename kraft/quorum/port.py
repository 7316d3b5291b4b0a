"""The interface of the quorum to the rest of the system, independent of the engine behind it.

A term has at most one leader. The index of an entry is its position in the replicated log. The indexes that a listener
sees grow, but with gaps, because the engine keeps entries of its own in the log.

Index and term are Raft's words and belong to the metadata log, wherever it is read. Offset and leader epoch are
Kafka's, and belong to partitions. Kafka's clients use only Kafka's words, so a `QuorumDescription` for them has a
voter's match index as its log end offset, the commit index as the high watermark, and the term as the leader epoch.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from kraft.model.errors import ErrorCode, Refusal


class NotLeader(Refusal):
    """This voter does not lead in the requested term; the payload is not committed and never will be."""

    def __init__(self, reason: str, leader_id: int | None) -> None:
        hint = "no leader is known" if leader_id is None else f"node {leader_id} is the leader"
        super().__init__(ErrorCode.NOT_CONTROLLER, f"{reason}; {hint}")
        self.leader_id = leader_id


class ProposalUnknown(Refusal):
    """The outcome is unknown: the payload may be committed, now or later. Only the log shows it."""

    def __init__(self, reason: str) -> None:
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, reason)


class PayloadTooLarge(Refusal):
    """The payload is larger than the maximum of an entry; nothing was proposed."""

    def __init__(self, payload_bytes: int, payload_bytes_max: int) -> None:
        super().__init__(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"the change is too large: its metadata entry has {payload_bytes} bytes, and the maximum is"
            f" {payload_bytes_max}; split the request",
        )


class QuorumListener(Protocol):
    """Receives what the quorum committed, on the event loop, in order. Must never raise: a raise ends the process."""

    def on_committed(self, index: int, term: int, payload: bytes) -> None:
        """Take a committed payload: a majority has it on disk. Every voter gets the same calls in the same order.

        After a restart every payload comes again, from the first or from the snapshot that the voter started from.
        """

    def on_leadership(self, term: int | None) -> None:
        """Take a change of leadership.

        With a term: this voter leads, and the listener already has everything that was committed before. With None: it
        no longer leads, and must not act on a decision of its own that it did not see committed.
        """


class VoterStatus(Struct, frozen=True, kw_only=True):
    """Status of a voter, as the answering voter sees it.

    `match_index`: the last entry that the voter is known to hold; -1 if the answering voter does not lead or has no
    response yet. `heard_ms_ago`: time since its last message; 0 for the answering voter itself, -1 for never.
    `is_learner`: it lost its metadata log, and does not count until a leader has admitted it.
    """

    node_id: int
    match_index: int
    heard_ms_ago: int
    is_learner: bool = False


class QuorumStatus(Struct, frozen=True, kw_only=True):
    """Status of the quorum. `leader_id` is None while no leader is known.

    `fetch_timeout_ms`: a voter of which the leader has heard nothing for longer is out of its reach. `running_ms`: time
    since the answering voter began; it may have heard nothing of another one in all of it. `voted_for`: the voter that
    the answering one voted for in this term; None: it did not vote.
    """

    leader_id: int | None
    term: int
    commit_index: int
    voters: tuple[VoterStatus, ...]
    fetch_timeout_ms: int = 1_000
    running_ms: int = 0
    voted_for: int | None = None


class Quorum(Protocol):
    """One voter of the quorum."""

    async def start(self) -> None:
        """Open the journal and take part. Raises Corruption if the disk does not hold what was written."""

    async def stop(self) -> None:
        """Stop taking part. Pending proposals end in ProposalUnknown."""

    async def propose(self, payload: bytes, term: int, deadline_s: float) -> int:
        """Replicate a payload decided by the leader of `term`; return its index once the listener has it.

        Raises NotLeader, PayloadTooLarge, or ProposalUnknown at the deadline or when leadership is lost meanwhile.
        A payload that was stored in another term than `term` is skipped on every voter.
        """

    async def barrier(self, deadline_s: float) -> int:
        """Confirm that this voter led after the call began; return the index up to which the listener has everything.

        Raises NotLeader or ProposalUnknown.
        """

    @property
    def leader_id(self) -> int | None: ...

    @property
    def term(self) -> int: ...

    @property
    def commit_index(self) -> int: ...

    @property
    def last_applied(self) -> int:
        """Index up to which the listener has everything."""

    def describe(self) -> QuorumStatus: ...
