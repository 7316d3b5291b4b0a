"""A quorum of one that commits when the test says so."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from kraft.metadata.records import MetadataRecord
from kraft.quorum.port import NotLeader, PayloadTooLarge, ProposalUnknown, QuorumListener, QuorumStatus, VoterStatus
from kraft.rpc.metadata_codec import encode_records

PAYLOAD_BYTES_MAX = 200_000


@dataclass(slots=True)
class _Proposal:
    payload: bytes
    answer: asyncio.Future[int]


class FakeQuorum:
    def __init__(self, listener: QuorumListener, *, commits_at_once: bool = False) -> None:
        self.listener = listener
        self.commits_at_once = commits_at_once
        self.payloads: list[bytes] = []
        """Everything that was ever proposed."""
        self.waiting: list[_Proposal] = []
        self.barriers = 0
        self.barrier_fails = False
        self.index = 0
        self._term: int | None = None

    # --- what the test does ---

    def lead(self, term: int) -> None:
        self._term = term
        self.listener.on_leadership(term)

    def step_down(self) -> None:
        """This voter does not lead any more; the listener learns of it only by `lose`."""
        self._term = None

    def lose(self) -> None:
        self.step_down()
        for proposal in self.waiting:
            proposal.answer.set_exception(ProposalUnknown("leadership was lost"))
        self.waiting.clear()
        self.listener.on_leadership(None)

    def tell(self, *records: MetadataRecord, gap: int = 1) -> None:
        """Another voter's entry is committed."""
        self._commit(encode_records(records), gap)

    def commit(self) -> None:
        """The oldest proposal is committed, told to the listener, and answered."""
        proposal = self.waiting.pop(0)
        self._commit(proposal.payload)
        if not proposal.answer.done():
            proposal.answer.set_result(self.index)

    def time_out(self, *, but_commits: bool) -> None:
        """The oldest proposal's outcome is not known in time."""
        proposal = self.waiting.pop(0)
        proposal.answer.set_exception(ProposalUnknown("the quorum did not commit in time"))
        if but_commits:
            self._commit(proposal.payload)

    def _commit(self, payload: bytes, gap: int = 1) -> None:
        self.index += gap
        self.listener.on_committed(self.index, self._term or 0, payload)

    # --- the port ---

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        return

    async def propose(self, payload: bytes, term: int, deadline_s: float) -> int:
        if len(payload) > PAYLOAD_BYTES_MAX:
            raise PayloadTooLarge(len(payload), PAYLOAD_BYTES_MAX)
        if self._term != term:
            raise NotLeader("another term", None)
        self.payloads.append(payload)
        if self.commits_at_once:
            self._commit(payload)
            return self.index
        proposal = _Proposal(payload, asyncio.get_running_loop().create_future())
        self.waiting.append(proposal)
        return await proposal.answer

    async def barrier(self, deadline_s: float) -> int:
        self.barriers += 1
        if self.barrier_fails:
            raise ProposalUnknown("the barrier was not reached")
        return self.index

    @property
    def is_leader(self) -> bool:
        return self._term is not None

    @property
    def leader_id(self) -> int | None:
        return 1 if self.is_leader else 2

    @property
    def term(self) -> int:
        return self._term or 0

    @property
    def commit_index(self) -> int:
        return self.index

    @property
    def last_applied(self) -> int:
        return self.index

    def describe(self) -> QuorumStatus:
        voters = (VoterStatus(node_id=1, match_index=self.index, heard_ms_ago=0),)
        return QuorumStatus(leader_id=self.leader_id, term=self.term, commit_index=self.index, voters=voters)
