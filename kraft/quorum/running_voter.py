"""The objects of a voter that exist between its start and its stop."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.quorum.engine import RaftEngine
from kraft.quorum.handshake import Greeting
from kraft.quorum.journal import QuorumJournal
from kraft.quorum.messages import Message
from kraft.quorum.peer_link import PeerLink
from kraft.quorum.reminders import Peers, Reminder, obstacle
from kraft.quorum.snapshots import Snapshot
from kraft.quorum.transport import QuorumTransport
from kraft.quorum.voter_resources import MonotonicClock


@dataclass(slots=True)
class ArrivedSnapshot:
    """Snapshot that the leader of a term has sent."""

    sender: int
    term: int
    snapshot: Snapshot
    is_under_way: bool = False
    """True while it is being written; before that, it waits for the journal."""


class RunningVoter:
    """The objects that exist between start and stop."""

    def __init__(
        self,
        journal: QuorumJournal,
        transport: QuorumTransport,
        engine: RaftEngine,
        links: dict[int, PeerLink],
        *,
        node_id: int,
        clock: MonotonicClock,
    ) -> None:
        self.journal = journal
        self.transport = transport
        self.engine = engine
        self.links = links
        self._reminder = Reminder(node_id, clock.monotonic_ms())
        self._clock = clock

    def remind(self) -> None:
        """Log what keeps this voter from counting, if it is time to."""
        transport, standing = self.transport, self.transport.standing
        if standing.membership.admitted_after is not None:
            # Called in every step, which must cost a voter that counts nothing.
            self._reminder.check(None, self._clock.monotonic_ms())
            return
        peers = Peers(
            all=self.links.keys(),
            connected=transport.connected,
            learners=standing.learners,
            refusals={peer: link.refusal for peer, link in self.links.items()},
        )
        found = obstacle(standing.membership, peers)
        self._reminder.check(found, self._clock.monotonic_ms())

    def deliver(self, peer: int, messages: list[Message]) -> None:
        self.links[peer].send(messages)

    def room_bytes(self, peer: int) -> int:
        return self.links[peer].room_bytes

    def greeting(self, process_id: bytes) -> Greeting:
        standing, membership = self.transport.standing, self.transport.standing.membership
        return Greeting(
            process_id=process_id,
            incarnation=membership.incarnation,
            founders=membership.founders,
            is_learner=membership.is_learner,
            is_confirmed=standing.is_confirmed,
            term=int(self.engine.raftCurrentTerm),
            last_log_index=self.journal.last_index,
        )
