from __future__ import annotations

from pathlib import Path

import pytest
from pysyncobj import syncobj

from kraft.quorum import command, engine
from kraft.quorum.command import CommandKind, EntryCommand
from kraft.quorum.config import QuorumConfig, VoterAddress
from kraft.quorum.engine import RaftEngine, UnsuitableEngine
from kraft.quorum.journal import QuorumJournal
from kraft.quorum.messages import (
    AppendEntries,
    AppendEntriesResponse,
    Message,
    PreVoteRequest,
    PreVoteResponse,
    SnapshotPart,
    VoteRequest,
    VoteResponse,
    to_engine,
)
from kraft.quorum.transport import QuorumTransport
from kraft.runtime.clock import SystemClock
from kraft.runtime.disk import RealDisk
from tests.support.admitted_standing import admitted_standing
from tests.support.anonymous_messages import anonymous


def entry(index: int, term: int, payload: bytes = b"") -> tuple[bytes, int, int]:
    body = command.encode_body(
        EntryCommand(kind=CommandKind.PAYLOAD, decided_term=term, request_id=bytes(16), payload=payload)
    )
    return bytes([command.REGULAR]) + body, index, term


def append(
    *entries: tuple[bytes, int, int], previous: tuple[int, int] = (1, 0), commit_index: int = 1
) -> AppendEntries:
    previous_index, previous_term = previous
    return AppendEntries(
        term=1, previous_index=previous_index, previous_term=previous_term, entries=entries, commit_index=commit_index
    )


class HandClock:
    """The clock of the transport; the engine has its own."""

    def __init__(self) -> None:
        self.now_ms = 1000

    def monotonic_ms(self) -> int:
        return self.now_ms


class Follower:
    """Voter 1 of three without a network: what it is sent is said here, what it sends is kept."""

    def __init__(self, directory: Path) -> None:
        voters = {voter: VoterAddress(host="127.0.0.1", port=9000 + voter) for voter in (1, 2, 3)}
        config = QuorumConfig(node_id=1, cluster_id="test", voters=voters, directory=directory)
        self.config = config
        self.sent: list[tuple[int, Message]] = []
        self.room = {2: 10**6, 3: 10**6}
        self.applied: list[int] = []
        self.leading: list[bool] = []
        self.journal = QuorumJournal(directory, RealDisk())
        self.clock = HandClock()
        self.transport = QuorumTransport(config, self.journal, self.clock, admitted_standing(config))
        self.engine = RaftEngine(
            config,
            self.journal,
            self.transport,
            on_apply=lambda index, _term, _command: self.applied.append(index),
            on_leading=self.leading.append,
        )
        self.transport.attach(self.engine, self)

    def deliver(self, peer: int, messages: list[Message]) -> None:
        self.sent += [(peer, anonymous(message)) for message in messages]

    def room_bytes(self, peer: int) -> int:
        return self.room[peer]

    def hears(self, peer: int, *messages: Message) -> list[tuple[int, Message]]:
        """Deliver a message; return the answers."""
        self.sent.clear()
        self.transport.receive(peer, messages)
        self.step()
        return list(self.sent)

    def hears_nothing_for_long(self) -> None:
        """Pass time without a message of a leader."""
        self.clock.now_ms += self.config.election_timeout_ms_min

    def step(self) -> None:
        self.engine.advance()
        self.journal.sync()
        self.transport.flush()


@pytest.fixture
def follower(tmp_path: Path) -> Follower:
    return Follower(tmp_path)


def acknowledged(next_index: int) -> list[tuple[int, Message]]:
    return [(2, AppendEntriesResponse(term=1, next_index=next_index, success=True, reset=False))]


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


def test_an_append_of_an_earlier_term_is_answered_with_the_term_and_not_taken(follower: Follower) -> None:
    follower.hears(3, VoteRequest(term=5, last_log_index=1, last_log_term=0))
    refusal = AppendEntriesResponse(term=5, next_index=2, success=False, reset=False)
    assert follower.hears(2, append(entry(2, 1))) == [(2, refusal)]
    assert follower.journal.last_index == 1


def test_a_gap_is_answered_with_what_is_missing(follower: Follower) -> None:
    answers = follower.hears(2, append(entry(8, 1), previous=(7, 1)))
    assert answers == [(2, AppendEntriesResponse(term=1, next_index=2, success=False, reset=True))]


def test_a_vote_is_given_once_a_term_and_survives_a_restart(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    assert follower.hears(2, VoteRequest(term=5, last_log_index=1, last_log_term=0)) == [(2, VoteResponse(term=5))]
    follower.journal.close()
    again = Follower(tmp_path)
    again.hears_nothing_for_long()
    assert again.engine.raftCurrentTerm == 5
    assert again.hears(3, VoteRequest(term=5, last_log_index=1, last_log_term=0)) == []
    assert again.hears(3, VoteRequest(term=6, last_log_index=1, last_log_term=0)) == [(3, VoteResponse(term=6))]


def test_a_candidate_behind_our_log_gets_no_vote(follower: Follower) -> None:
    follower.hears(2, append(entry(2, 1)))
    follower.hears_nothing_for_long()
    assert follower.hears(3, VoteRequest(term=5, last_log_index=1, last_log_term=0)) == []


def would_vote(term: int) -> Message:
    return PreVoteResponse(term=term, granted=True)


def question(term: int, last_log: tuple[int, int]) -> PreVoteRequest:
    return PreVoteRequest(term=term, last_log_index=last_log[0], last_log_term=last_log[1])


def hears_no_leader(follower: Follower) -> None:
    for peer in (2, 3):
        follower.transport.link_up(peer)
    follower.engine.campaign_now()


def test_a_voter_asks_before_it_stands_and_until_then_changes_nothing(follower: Follower) -> None:
    hears_no_leader(follower)
    follower.step()
    asked = question(1, last_log=(1, 0))
    assert follower.sent == [(2, asked), (3, asked)]
    assert follower.engine.raftCurrentTerm == 0
    assert follower.hears(3) == [], "it does not ask at every step"
    follower.clock.now_ms += follower.config.election_timeout_ms_max // 4
    assert follower.hears(3) == [(2, asked), (3, asked)]
    request = VoteRequest(term=1, last_log_index=1, last_log_term=0)
    assert follower.hears(3, would_vote(1)) == [(2, request), (3, request)]


def test_a_promise_is_void_once_a_leader_is_heard(follower: Follower) -> None:
    hears_no_leader(follower)
    follower.step()
    follower.hears(2, append(), would_vote(1), would_vote(2))
    follower.engine.campaign_now()
    assert [type(message) for _, message in follower.hears(3)] == [PreVoteRequest, PreVoteRequest]
    assert follower.engine.raftCurrentTerm == 1


def test_a_voter_promises_its_vote_for_a_later_term_a_log_not_behind_its_own_and_no_leader(follower: Follower) -> None:
    follower.hears(2, append(entry(2, 1)))
    assert follower.hears(3, question(2, last_log=(2, 1))) == []
    follower.hears_nothing_for_long()
    assert follower.hears(3, question(2, last_log=(2, 1))) == [(3, would_vote(2))]
    assert follower.hears(3, question(2, last_log=(9, 0))) == [], "longer, and of an earlier term"
    assert follower.hears(3, question(1, last_log=(2, 1))) == [(3, PreVoteResponse(term=1, granted=False))]
    assert follower.engine.raftCurrentTerm == 1


def test_a_part_of_a_snapshot_from_an_earlier_term_is_neither_installed_nor_a_sign_of_a_leader(
    follower: Follower,
) -> None:
    installed: list[tuple[int, int]] = []
    follower.transport.install_snapshot = lambda sender, term, _: installed.append((sender, term))
    follower.hears(3, VoteRequest(term=5, last_log_index=1, last_log_term=0))
    follower.hears_nothing_for_long()

    def part(term: int) -> SnapshotPart:
        return SnapshotPart(term=term, index=9, index_term=1, number=0, content=b"state", is_last=True)

    assert follower.hears(2, part(4)) == []
    assert installed == []
    assert follower.hears(3, question(6, last_log=(1, 0))) == [(3, would_vote(6))]
    follower.hears(2, part(5))
    assert installed == [(2, 5)]
    assert follower.hears(3, question(6, last_log=(1, 0))) == [], "there is a leader again"


def test_an_installed_snapshot_is_acknowledged_in_the_term_of_its_sender_alone(follower: Follower) -> None:
    follower.hears(2, append(entry(2, 1)))
    follower.sent.clear()
    follower.transport.snapshot_installed(2, 1, 2)
    follower.step()
    assert follower.sent == acknowledged(3)
    follower.hears_nothing_for_long()
    follower.hears(3, VoteRequest(term=5, last_log_index=2, last_log_term=1))
    follower.sent.clear()
    follower.transport.snapshot_installed(2, 1, 2)
    follower.step()
    assert follower.sent == []


def test_a_voter_that_has_voted_promises_nothing_to_another_for_a_while(follower: Follower) -> None:
    request = VoteRequest(term=5, last_log_index=1, last_log_term=0)
    assert follower.hears(2, request) == [(2, VoteResponse(term=5))]
    assert follower.hears(3, question(6, last_log=(1, 0))) == []
    assert follower.hears(3, VoteRequest(term=6, last_log_index=1, last_log_term=0)) == []
    follower.hears_nothing_for_long()
    assert follower.hears(3, question(6, last_log=(1, 0))) == [(3, would_vote(6))]


def test_a_candidate_promises_nothing_to_another_for_a_while(follower: Follower) -> None:
    hears_no_leader(follower)
    follower.step()
    follower.hears(3, would_vote(1))
    assert follower.engine.raftCurrentTerm == 1
    assert follower.hears(2, question(2, last_log=(1, 0))) == []
    follower.hears_nothing_for_long()
    assert (2, would_vote(2)) in follower.hears(2, question(2, last_log=(1, 0)))


def test_a_voter_that_is_behind_in_terms_learns_so_and_asks_for_a_later_one(follower: Follower) -> None:
    hears_no_leader(follower)
    follower.step()
    follower.hears(3, PreVoteResponse(term=7, granted=False))
    assert follower.engine.raftCurrentTerm == 7
    follower.clock.now_ms += follower.config.election_timeout_ms_max // 4
    assert follower.hears(3)[0] == (2, question(8, last_log=(1, 0)))


def test_a_leader_follows_no_term_that_a_question_was_refused_with(follower: Follower) -> None:
    hears_no_leader(follower)
    follower.step()
    follower.hears(3, would_vote(1))
    follower.hears(3, VoteResponse(term=1), PreVoteResponse(term=7, granted=False))
    assert follower.leading == [True]


def test_a_leader_that_a_voter_in_a_later_term_answers_asks_at_once_to_lead_above_it(follower: Follower) -> None:
    hears_no_leader(follower)
    follower.step()
    follower.hears(3, would_vote(1))
    follower.hears(3, VoteResponse(term=1))
    last = follower.journal.last_index
    request = VoteRequest(term=8, last_log_index=last, last_log_term=1)
    stray = AppendEntriesResponse(term=7, next_index=2, success=False, reset=False)
    asked = question(8, last_log=(last, 1))
    assert follower.hears(2, stray, stray) == [(2, asked), (3, asked)]
    assert follower.leading == [True, False]
    assert follower.hears(3, would_vote(8)) == [(2, request), (3, request)]
    follower.hears(3, VoteResponse(term=8))
    assert follower.leading == [True, False, True]


def test_a_leader_stops_where_a_link_is_full_and_goes_on_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "APPEND_BATCH_BYTES", 200)
    follower = Follower(tmp_path)
    hears_no_leader(follower)
    follower.step()
    follower.hears(3, would_vote(1))
    follower.hears(3, VoteResponse(term=1))
    end = follower.journal.last_index
    follower.room[2] = 0
    for number in range(10):
        follower.engine.append(entry(0, 1, b"%d" % number + bytes(100))[0][1:])

    def sent_to(peer: int) -> list[tuple[int, int]]:
        """Return for each append that was sent the first index and the one after the last."""
        appends = [message for to, message in follower.hears(3) if to == peer and isinstance(message, AppendEntries)]
        return [(message.previous_index + 1, message.previous_index + 1 + len(message.entries)) for message in appends]

    assert sent_to(2) == [(end + 1, end + 3)]
    assert sent_to(2) == []
    follower.room[2] = 500
    follower.transport.link_has_room(2)
    assert sent_to(2) == [(end + 3, end + 5), (end + 5, end + 7)]
    follower.room[2] = 10**6
    follower.transport.link_has_room(2)
    assert sent_to(2)[0] == (end + 7, end + 9)
    assert follower.journal.last_index == end + 10


class NoLinks:
    def deliver(self, peer: int, messages: list[Message]) -> None: ...

    def room_bytes(self, peer: int) -> int:
        return 10**6


@pytest.mark.parametrize(
    ("node_id", "entries", "asks"),
    [(1, 0, True), (2, 0, False), (1, 1, False)],
    ids=["first voter of a new cluster", "another voter", "a voter that took part before"],
)
def test_the_first_voter_of_a_new_cluster_asks_for_votes_once_it_is_linked_with_all_others(
    tmp_path: Path, node_id: int, entries: int, asks: bool
) -> None:
    voters = {voter: VoterAddress(host="127.0.0.1", port=9000 + voter) for voter in range(1, 4)}
    config = QuorumConfig(node_id=node_id, cluster_id="test", voters=voters, directory=tmp_path)
    journal = QuorumJournal(tmp_path, RealDisk())
    for number in range(entries):
        journal.add(b"", number + 1, 0)
    transport, sent = QuorumTransport(config, journal, HandClock(), admitted_standing(config)), Sent()
    engine = RaftEngine(config, journal, transport, on_apply=lambda *_: None, on_leading=lambda _: None)
    transport.attach(engine, sent)
    for missing, peer in zip((1, 0), config.peer_ids, strict=True):
        transport.link_up(peer)
        transport.hello_received(peer)
        engine.advance()
        transport.flush()
        assert bool(sent.messages) == (asks and not missing)
    assert all(isinstance(each, PreVoteRequest) for each in sent.messages)


class Sent:
    """The links, as a list of what they were given."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def deliver(self, _peer: int, messages: list[Message]) -> None:
        self.messages += messages

    def room_bytes(self, _peer: int) -> int:
        return 10**6


def test_one_voter_repeating_its_vote_does_not_make_a_leader_of_five(tmp_path: Path) -> None:
    voters = {voter: VoterAddress(host="127.0.0.1", port=9000 + voter) for voter in range(1, 6)}
    config = QuorumConfig(node_id=1, cluster_id="test", voters=voters, directory=tmp_path)
    journal = QuorumJournal(tmp_path, RealDisk())
    transport = QuorumTransport(config, journal, SystemClock(), admitted_standing(config))
    leading: list[bool] = []
    engine = RaftEngine(config, journal, transport, on_apply=lambda *_: None, on_leading=leading.append)
    transport.attach(engine, NoLinks())
    engine.campaign_now()
    engine.advance()
    transport.receive(2, [PreVoteResponse(term=1, granted=True)] * 3)
    engine.advance()
    assert engine.raftCurrentTerm == 0, "nor is its promise counted more than once"
    transport.receive(3, [PreVoteResponse(term=1, granted=True)])
    engine.advance()
    assert engine.raftCurrentTerm == 1
    transport.receive(2, [VoteResponse(term=1), VoteResponse(term=1), VoteResponse(term=1)])
    assert leading == []
    transport.receive(3, [VoteResponse(term=1)])
    assert leading == [True]


def test_another_version_of_the_engine_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "VERSION", "0.3.18")
    with pytest.raises(UnsuitableEngine, match=r"0\.3\.18"):
        Follower(tmp_path)


@pytest.mark.parametrize("name", ["doApplyCommand", "connectedToAnyone", "generateRaftTimeout"])
def test_an_engine_without_the_names_we_rely_on_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delattr(syncobj.SyncObj, f"_SyncObj__{name}")
    with pytest.raises(UnsuitableEngine, match=name):
        Follower(tmp_path)


def test_the_engines_own_journal_factory_is_back_in_place_afterwards(follower: Follower) -> None:
    assert syncobj.createJournal.__module__ == "pysyncobj.journal"


@pytest.mark.parametrize("fetch_ms", [0, 302, 800, 1_000, 5_000])
@pytest.mark.parametrize("election_ms", [302, 1_000, 5_000])
@pytest.mark.parametrize("node_id", [1, 3])
def test_timeouts_that_the_configuration_permits_are_taken_by_the_engine_at_every_start(
    tmp_path: Path, node_id: int, election_ms: int, fetch_ms: int
) -> None:
    config = QuorumConfig(
        node_id=node_id,
        cluster_id="test",
        voters={voter: VoterAddress(host="127.0.0.1", port=9000 + voter) for voter in (1, 2, 3)},
        directory=tmp_path,
        election_timeout_ms_min=election_ms // 2,
        election_timeout_ms_max=election_ms,
        fetch_timeout_ms=fetch_ms,
    )
    settings = engine._engine_settings(config, lambda before, after: None)
    settings.validate()
    engine._use_first_election(settings, config)
    settings.validate()
