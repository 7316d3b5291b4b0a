from __future__ import annotations

from pathlib import Path

import pytest
from pysyncobj import syncobj

from kraft.quorum import command, consensus
from kraft.quorum.command import Command, CommandKind
from kraft.quorum.config import QuorumConfig, VoterAddress
from kraft.quorum.consensus import Consensus, UnsuitableEngine
from kraft.quorum.journal import QuorumJournal
from kraft.quorum.messages import Append, AppendResponse, Message, VoteRequest, VoteResponse, to_engine
from kraft.quorum.transport import QuorumTransport
from kraft.runtime.clock import SystemClock
from kraft.runtime.disk import RealDisk


def entry(index: int, term: int, payload: bytes = b"") -> tuple[bytes, int, int]:
    body = command.encode_body(
        Command(kind=CommandKind.PAYLOAD, decided_term=term, request_id=bytes(16), payload=payload)
    )
    return bytes([command.REGULAR]) + body, index, term


def append(*entries: tuple[bytes, int, int], previous: tuple[int, int] = (1, 0), commit_index: int = 1) -> Append:
    previous_index, previous_term = previous
    return Append(
        term=1, previous_index=previous_index, previous_term=previous_term, entries=entries, commit_index=commit_index
    )


class Follower:
    """Voter 1 of three without a network: what it is sent is said here, what it sends is kept."""

    def __init__(self, directory: Path) -> None:
        voters = {voter: VoterAddress(host="127.0.0.1", port=9000 + voter) for voter in (1, 2, 3)}
        config = QuorumConfig(node_id=1, cluster_id="test", voters=voters, directory=directory)
        self.sent: list[tuple[int, Message]] = []
        self.applied: list[int] = []
        self.leading: list[bool] = []
        self.journal = QuorumJournal(directory, RealDisk())
        self.transport = QuorumTransport((2, 3), self.journal, SystemClock())
        self.engine = Consensus(
            config,
            self.journal,
            self.transport,
            on_apply=lambda index, _term, _command: self.applied.append(index),
            on_leading=self.leading.append,
        )
        self.transport.attach(self.engine, self._keep)

    def _keep(self, peer: int, messages: list[Message]) -> None:
        self.sent += [(peer, message) for message in messages]

    def hears(self, peer: int, *messages: Message) -> list[tuple[int, Message]]:
        """What it sends in answer."""
        self.sent.clear()
        self.transport.receive(peer, messages)
        self.step()
        return list(self.sent)

    def step(self) -> None:
        self.engine.advance()
        self.journal.sync()
        self.transport.flush()


@pytest.fixture
def follower(tmp_path: Path) -> Follower:
    return Follower(tmp_path)


def acknowledged(next_index: int) -> list[tuple[int, Message]]:
    return [(2, AppendResponse(term=1, next_index=next_index, success=True, reset=False))]


def test_the_engine_alone_drops_entries_that_it_has_acknowledged(follower: Follower) -> None:
    assert follower.hears(2, append(entry(2, 1), entry(3, 1))) == acknowledged(4)
    node = follower.transport.nodes[0]
    follower.transport._onMessageReceived(node, to_engine(append(entry(2, 1))))
    assert follower.journal.last_index == 2, "should this fail, the engine has learned it and a filter can go"


def test_behind_our_transport_a_late_append_drops_nothing(follower: Follower) -> None:
    assert follower.hears(2, append(entry(2, 1), entry(3, 1))) == acknowledged(4)
    assert follower.hears(2, append(entry(2, 1))) == acknowledged(3)
    assert follower.hears(2, append()) == acknowledged(2)
    assert follower.journal.last_index == 3


def test_entries_are_applied_up_to_the_commit_index_and_in_order(follower: Follower) -> None:
    follower.hears(2, append(entry(2, 1), entry(3, 1), entry(4, 1), commit_index=3))
    assert follower.applied == [2, 3]
    follower.hears(2, append(previous=(4, 1), commit_index=4))
    assert follower.applied == [2, 3, 4]


def test_a_sign_of_life_commits_only_what_it_proves(follower: Follower) -> None:
    follower.hears(2, append(entry(2, 1), entry(3, 1)))
    follower.hears(2, append(previous=(2, 1), commit_index=3))
    assert follower.applied == [2]


def test_an_append_of_an_earlier_term_is_not_answered(follower: Follower) -> None:
    follower.hears(3, VoteRequest(term=5, last_log_index=1, last_log_term=0))
    assert follower.hears(2, append(entry(2, 1))) == []
    assert follower.journal.last_index == 1


def test_a_gap_is_answered_with_what_is_missing(follower: Follower) -> None:
    answers = follower.hears(2, append(entry(8, 1), previous=(7, 1)))
    assert answers == [(2, AppendResponse(term=1, next_index=2, success=False, reset=True))]


def test_a_vote_is_given_once_a_term_and_survives_a_restart(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    assert follower.hears(2, VoteRequest(term=5, last_log_index=1, last_log_term=0)) == [(2, VoteResponse(term=5))]
    follower.journal.close()
    again = Follower(tmp_path)
    assert again.engine.raftCurrentTerm == 5
    assert again.hears(3, VoteRequest(term=5, last_log_index=1, last_log_term=0)) == []
    assert again.hears(3, VoteRequest(term=6, last_log_index=1, last_log_term=0)) == [(3, VoteResponse(term=6))]


def test_a_candidate_behind_our_log_gets_no_vote(follower: Follower) -> None:
    follower.hears(2, append(entry(2, 1)))
    assert follower.hears(3, VoteRequest(term=5, last_log_index=1, last_log_term=0)) == []


def test_one_voter_repeating_its_vote_does_not_make_a_leader_of_five(tmp_path: Path) -> None:
    voters = {voter: VoterAddress(host="127.0.0.1", port=9000 + voter) for voter in range(1, 6)}
    config = QuorumConfig(node_id=1, cluster_id="test", voters=voters, directory=tmp_path)
    journal = QuorumJournal(tmp_path, RealDisk())
    transport = QuorumTransport((2, 3, 4, 5), journal, SystemClock())
    leading: list[bool] = []
    engine = Consensus(config, journal, transport, on_apply=lambda *_: None, on_leading=leading.append)
    transport.attach(engine, lambda *_: None)
    transport.link_up(2)
    engine._SyncObj__raftElectionDeadline = 0.0
    engine.advance()
    assert engine.raftCurrentTerm == 1
    transport.receive(2, [VoteResponse(term=1), VoteResponse(term=1), VoteResponse(term=1)])
    assert leading == []
    transport.receive(3, [VoteResponse(term=1)])
    assert leading == [True]


def test_another_version_of_the_engine_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consensus, "VERSION", "0.3.18")
    with pytest.raises(UnsuitableEngine, match=r"0\.3\.18"):
        Follower(tmp_path)


def test_an_engine_without_the_names_we_rely_on_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(syncobj.SyncObj, "_SyncObj__doApplyCommand")
    with pytest.raises(UnsuitableEngine, match="doApplyCommand"):
        Follower(tmp_path)


def test_the_engines_own_journal_factory_is_back_in_place_afterwards(follower: Follower) -> None:
    assert syncobj.createJournal.__module__ == "pysyncobj.journal"
