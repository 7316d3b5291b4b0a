"""The quorum as the rest of the system sees it; nothing here knows which engine is behind it.

A term has at most one leader. The index of an entry is its position in the replicated log; it grows, but not by ones
as a listener sees it, because the engine keeps entries of its own there.

Index and term are Raft's words and belong to the metadata log, wherever it is followed. Offset and leader epoch are
Kafka's, and belong to partitions. Kafka's clients know no other words, so a `QuorumDescription` for them has a voter's
match index as its log end offset, the commit index as the high watermark, and the term as the leader epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kraft.model.errors import ErrorCode, Refusal


class NotLeader(Refusal):
    """This voter does not lead in the term asked for; the payload was not and never will be committed."""

    def __init__(self, reason: str, leader_id: int | None) -> None:
        hint = "no leader is known" if leader_id is None else f"node {leader_id} leads"
        super().__init__(ErrorCode.NOT_CONTROLLER, f"{reason}; {hint}")
        self.leader_id = leader_id


class ProposalUnknown(Refusal):
    """The payload may or may not have been committed, and may still be: only the log can tell."""

    def __init__(self, reason: str) -> None:
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, reason)


class PayloadTooLarge(Refusal):
    """The payload exceeds what one entry holds; nothing was proposed."""

    def __init__(self, payload_bytes: int, payload_bytes_max: int) -> None:
        super().__init__(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"a metadata entry of {payload_bytes} bytes is above the maximum of {payload_bytes_max}",
        )


class QuorumListener(Protocol):
    """Is told what the quorum agreed on, on the event loop, in order. Must never raise: a raise ends the process."""

    def on_committed(self, index: int, term: int, payload: bytes) -> None:
        """A majority holds `payload` on disk. The same calls, in the same order, reach every voter.

        After a restart every payload is given again from the first on, or from the snapshot that it was started from.
        """

    def on_leadership(self, term: int | None) -> None:
        """With a term: this voter leads, and was already told everything that was committed before.

        With None: it no longer does, and must act on nothing that it decided and did not see committed.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterStatus:
    """A voter as the answering one sees it.

    `match_index`: the voter is known to hold everything up to here; -1 when the answering voter does not lead or has
    not heard. `heard_ms_ago`: since the last message from it; 0 for the answering voter itself, -1 for never.
    """

    node_id: int
    match_index: int
    heard_ms_ago: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumStatus:
    """`leader_id` is None while none is known. Everything up to `commit_index` is committed."""

    leader_id: int | None
    term: int
    commit_index: int
    voters: tuple[VoterStatus, ...]


class Quorum(Protocol):
    """One voter of the quorum."""

    async def start(self) -> None:
        """Open what is on disk and take part. Raises Corruption when the disk does not hold what was written."""

    async def stop(self) -> None:
        """Take part no longer. Pending proposals end in ProposalUnknown."""

    async def propose(self, payload: bytes, term: int, deadline_s: float) -> int:
        """Replicate a payload decided by the leader of `term`; its index, once committed and told to the listener.

        Raises NotLeader, PayloadTooLarge, or ProposalUnknown at the deadline or when leadership is lost meanwhile.
        A payload that another term's log catches up with is skipped on every voter alike.
        """

    async def barrier(self, deadline_s: float) -> int:
        """Proof that this voter led after the call began: the index up to which the listener was told everything.

        Raises NotLeader or ProposalUnknown.
        """

    @property
    def is_leader(self) -> bool:
        """Between on_leadership(term) and on_leadership(None)."""

    @property
    def leader_id(self) -> int | None: ...

    @property
    def term(self) -> int: ...

    @property
    def commit_index(self) -> int: ...

    @property
    def last_applied(self) -> int:
        """The listener was told everything up to this index."""

    def describe(self) -> QuorumStatus: ...
