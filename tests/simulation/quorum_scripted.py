"""One real voter and scripted peers: for scenarios that random runs do not find."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from random import Random
from typing import TypeVar

from kraft.quorum.command import REGULAR, CommandKind, EntryCommand, encode_body
from kraft.quorum.handshake import Greeting
from kraft.quorum.journal import Entry, QuorumJournal
from kraft.quorum.membership import Membership
from kraft.quorum.messages import (
    AppendEntries,
    AppendEntriesResponse,
    Message,
    PreVoteRequest,
    PreVoteResponse,
    SnapshotPart,
    VoteRequest,
    VoteResponse,
)
from tests.simulation.quorum_cluster import Cluster, RunningVoter, Shape, SimulatedQuorum, open_cluster
from tests.simulation.quorum_loop import Life
from tests.simulation.quorum_network import Network
from tests.support.anonymous_messages import anonymous
from tests.support.disks.sim_content import CrashMode

VOTER = 1
ROUND_TRIP_S = 0.02
ELECTION_LIMIT_S = 2.0
FOUNDERS = {voter: bytes([voter]) * 16 for voter in range(1, 6)}

M = TypeVar("M", AppendEntries, AppendEntriesResponse, PreVoteRequest, PreVoteResponse, VoteRequest, VoteResponse)


class ScriptedPeer:
    """Accepts every message; by itself it answers only pre-vote requests, and grants them."""

    def __init__(self, node_id: int, network: Network, voters: Iterable[int]) -> None:
        self.life = Life(node_id, clock_rate=1.0)
        self.inbox: list[Message] = []
        self.promises = True
        self.founders = {voter: FOUNDERS[voter] for voter in voters}
        self._network = network

    def receive(self, sender: int, messages: list[Message]) -> None:
        self.inbox += map(anonymous, messages)
        for message in messages:
            if isinstance(message, PreVoteRequest) and self.promises:
                promise = PreVoteResponse(term=message.term, granted=True)
                self._network.send(self.life.node_id, sender, [promise])

    def greeting(self) -> Greeting:
        return Greeting(incarnation=FOUNDERS[self.life.node_id], founders=self.founders)

    def greet(self, sender: int, greeting: Greeting) -> None: ...


class Stage:
    """Voter 1 among scripted peers. They must send to it often, or it becomes a candidate."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        # Scripted peers have no disks that could be counted.
        cluster.history.counts_disks = False
        cluster.network.on_send = self._watch
        cluster.is_quiet = True
        self.peers = {
            node_id: ScriptedPeer(node_id, cluster.network, cluster.node_ids)
            for node_id in cluster.node_ids
            if node_id != VOTER
        }
        cluster.network.receivers.update(self.peers)
        if self.peers:
            founders = {voter: FOUNDERS[voter] for voter in cluster.node_ids}
            self.becomes(Membership(node_id=VOTER, incarnation=FOUNDERS[VOTER]).joining(founders))
        self.start()

    def becomes(self, membership: Membership) -> None:
        """Store a membership on the disk of the voter, which must not run."""
        directory, disk = self.cluster.config(VOTER).directory, self.cluster.disks[VOTER]
        journal = QuorumJournal(directory, disk)
        journal.set_membership(membership)
        journal.sync()
        journal.close()

    def _watch(self, sender: int, receiver: int, message: Message) -> None:
        if sender == VOTER or isinstance(message, PreVoteResponse):
            self.cluster.history.sent(sender, receiver, message)

    @property
    def voter(self) -> RunningVoter:
        return self.cluster.voters[VOTER]

    @property
    def quorum(self) -> SimulatedQuorum:
        return self.voter.quorum

    @property
    def log(self) -> list[tuple[int, int]]:
        """Index and term of every entry of the voter."""
        return [(index, term) for _, index, term in self.quorum.journal[:]]

    def start(self) -> None:
        self.cluster.start(VOTER)
        self._wait_until(self._is_connected, "the voter does not start")

    def _is_connected(self) -> bool:
        return self.voter.is_open and all(link.is_up for link in self.quorum.links.values())

    def _wait_until(self, condition: Callable[[], bool], problem: str) -> None:
        if not self.cluster.run_until(condition, ELECTION_LIMIT_S):
            # No AssertionError: in a test that removes a guard, only the violation must be one.
            raise RuntimeError(problem)

    def restart(self, mode: CrashMode) -> None:
        self.cluster.kill(VOTER, mode)
        self.start()

    def hears(self, sender: int, *messages: Message) -> None:
        """Deliver messages to the voter, and run until its answers have arrived."""
        self.peers[sender].inbox.clear()
        self.cluster.network.send(sender, VOTER, list(messages))
        self.cluster.run_for(ROUND_TRIP_S)

    def knows(self, snapshot: SnapshotPart) -> None:
        """Record the snapshot's state as committed by the other voters."""
        history = self.cluster.history
        history.committed[snapshot.index] = entry(snapshot.index, snapshot.index_term)
        history.record_state(snapshot.index, snapshot.content)

    def answer_to(self, sender: int, message: Message, kind: type[M]) -> M | None:
        """Return the last answer of this kind."""
        self.hears(sender, message)
        answers = [answer for answer in self.peers[sender].inbox if isinstance(answer, kind)]
        return answers[-1] if answers else None

    def stands_as_candidate(self) -> int:
        """Run without a leader until the voter requests votes; return the term of the request."""
        for peer in self.peers.values():
            peer.inbox.clear()
        self._wait_until(self._asks_for_votes, "the voter does not become a candidate")
        return self.quorum.term

    def _asks_for_votes(self) -> bool:
        return any(isinstance(message, VoteRequest) for peer in self.peers.values() for message in peer.inbox)

    def leads_alone(self) -> None:
        """Run until a voter without peers leads."""
        self._wait_until(lambda: self.quorum.is_leader, "the voter does not lead")

    def is_asked_for_an_entry(self) -> None:
        """Propose as a client that waits for the response; the voter then has the entry, on disk or not."""
        self.voter.spawn(self.voter.propose(self.quorum.term, ELECTION_LIMIT_S))
        index = self.quorum.journal.last_index + 1
        self._wait_until(lambda: self.quorum.journal.last_index == index, "the voter does not accept a proposal")

    def is_elected_by(self, *peers: int) -> int:
        term = self.stands_as_candidate()
        for peer in peers:
            self.hears(peer, VoteResponse(term=term))
        self._wait_until(lambda: self.quorum.engine.leading, "the voter is not elected")
        return term


def body(payload: bytes, term: int) -> bytes:
    """Encode a command as a proposal of that term does."""
    return encode_body(EntryCommand(kind=CommandKind.PAYLOAD, decided_term=term, request_id=bytes(16), payload=payload))


def entry(index: int, term: int, padding: int = 0) -> Entry:
    return bytes([REGULAR]) + body(b"%d of term %d" % (index, term) + bytes(padding), term), index, term


def append(term: int, previous: tuple[int, int], *entries: Entry, commit_index: int = 1) -> AppendEntries:
    previous_index, previous_term = previous
    return AppendEntries(
        term=term,
        previous_index=previous_index,
        previous_term=previous_term,
        entries=entries,
        commit_index=commit_index,
    )


def whole_snapshot(term: int, index: int, index_term: int) -> SnapshotPart:
    """Return a snapshot at that entry in a single part, as the leader of `term` sends it."""
    state = b"state at %d" % index
    return SnapshotPart(term=term, index=index, index_term=index_term, number=0, content=state, is_last=True)


def acknowledged(term: int, index: int) -> AppendEntriesResponse:
    """Return a follower's acknowledgement of everything up to the index."""
    return AppendEntriesResponse(term=term, next_index=index + 1, success=True, reset=False)


@contextmanager
def stage(voter_count: int = 3, shape: Shape | None = None) -> Iterator[Stage]:
    with open_cluster(Random(1), shape or Shape(voter_count=voter_count)) as cluster:
        yield Stage(cluster)
