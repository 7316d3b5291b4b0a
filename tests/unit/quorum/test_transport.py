from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kraft.quorum.command import NO_OP
from kraft.quorum.config import QuorumConfig, VoterAddress
from kraft.quorum.handshake import Greeting
from kraft.quorum.journal import QuorumJournal
from kraft.quorum.membership import Membership
from kraft.quorum.messages import Message, PreVoteRequest, PreVoteResponse
from kraft.quorum.standing import Standing
from kraft.quorum.transport import QuorumTransport
from kraft.runtime.disk import RealDisk

ROUND_MS = 100
A, B, C, B_AGAIN = (bytes([number]) * 16 for number in (1, 2, 3, 4))


class Follower:
    """The engine of a voter that follows nobody yet."""

    raftCurrentTerm = 0  # noqa: N815  The engine's names.
    raftLastApplied = 1  # noqa: N815
    raftCommitIndex = 1  # noqa: N815
    leading = False

    def campaign_now(self) -> None: ...

    def forget_acknowledgements(self, voter: int) -> None: ...


class NoLinks:
    def deliver(self, peer: int, messages: list[Message]) -> None: ...

    def room_bytes(self, peer: int) -> int:
        return 1 << 20


class Candidate:
    """Voter 1 of three that belong to no quorum yet, at a time that the test sets."""

    def __init__(self, directory: Path) -> None:
        self.now_ms = 0
        self.engine = Follower()
        config = QuorumConfig(
            node_id=1,
            cluster_id="test",
            voters={voter: VoterAddress(host="localhost", port=9000 + voter) for voter in (1, 2, 3)},
            directory=directory,
        )
        journal = QuorumJournal(directory, RealDisk())
        # The engine begins every log with the same entry.
        journal.add(bytes([NO_OP]), 1, 0)
        self.standing = Standing(config, Membership(node_id=1, incarnation=A), journal)
        self.transport = QuorumTransport(config, journal, self, self.standing)
        self.transport.attach(self.engine, NoLinks())

    def monotonic_ms(self) -> int:
        return self.now_ms

    def asks(self) -> bool:
        """Run to the next round; return whether all have granted what the earlier rounds asked for."""
        self.now_ms += ROUND_MS
        return self.transport.may_campaign(ROUND_MS)

    def is_greeted(self, peer: int, incarnation: bytes) -> None:
        self.transport.greeted(peer, Greeting(process_id=incarnation, incarnation=incarnation))

    def is_asked(self, peer: int, *, last_log_index: int) -> None:
        """Receive the request of a voter to form the quorum that this one proposes now."""
        founders = self.standing.proposed_founders
        assert founders is not None
        request = PreVoteRequest(
            term=1,
            last_log_index=last_log_index,
            last_log_term=0,
            incarnation=founders[peer],
            founders=founders,
            forms=True,
        )
        self.transport.receive(peer, [request])

    def is_granted(self, peer: int) -> None:
        """Receive the pre-vote of a voter for the quorum that this one proposes now."""
        founders = self.standing.proposed_founders
        assert founders is not None
        quorum_id = self.standing.membership.joining(founders).quorum_id
        self.transport.receive(peer, [PreVoteResponse(term=1, granted=True, quorum_id=quorum_id)])


def test_a_quorum_is_formed_once_all_others_have_granted_it_in_whichever_rounds(tmp_path: Path) -> None:
    candidate = Candidate(tmp_path)
    candidate.is_greeted(2, B)
    candidate.is_greeted(3, C)
    assert not candidate.asks()
    candidate.is_granted(2)
    assert not candidate.asks()
    candidate.is_granted(3)
    assert candidate.asks()
    assert candidate.standing.membership.founders == {1: A, 2: B, 3: C}


def test_what_was_granted_for_a_voter_that_has_lost_its_directory_since_forms_nothing(tmp_path: Path) -> None:
    """Voter 2 granted as another incarnation: as this one it may grant another set to another candidate."""
    candidate = Candidate(tmp_path)
    candidate.is_greeted(2, B)
    candidate.is_greeted(3, C)
    assert not candidate.asks()
    candidate.is_granted(2)
    candidate.is_greeted(2, B_AGAIN)
    assert not candidate.asks()
    candidate.is_granted(3)
    assert not candidate.asks()
    assert candidate.standing.membership.is_new


@pytest.mark.parametrize("term", [0, 9])
def test_a_voter_whose_log_differs_is_named_by_those_of_a_later_term_as_well(tmp_path: Path, term: int) -> None:
    candidate = Candidate(tmp_path)
    candidate.engine.raftCurrentTerm = term
    candidate.is_greeted(2, B)
    candidate.is_greeted(3, C)
    with capture_logs() as events:
        candidate.is_asked(2, last_log_index=1)
        assert not events
        candidate.is_asked(3, last_log_index=7)
    (event,) = events
    assert event["event"] == "quorum not formed: the metadata logs of its controllers differ"
    assert (event["peer"], event["peer_ends_at"]) == (3, 7)
