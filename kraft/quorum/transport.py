"""The engine's transport: filters incoming messages, and holds outgoing ones until the journal is synced.

The engine believes that it sends at once. Its messages wait in the outbox; the driver calls `hold` before the write
that they depend on and `release` after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace
from pysyncobj.transport import Transport

from kraft.model.callbacks import Callback
from kraft.quorum.admission import Learners
from kraft.quorum.candidacy import FirstContacts, LeaderWatch, PreVotes
from kraft.quorum.config import QuorumConfig
from kraft.quorum.engine_facts import DurableLog, EngineFacts, Links, VoterNode
from kraft.quorum.filters import Acknowledgements, VoteCounter, trim_append
from kraft.quorum.handshake import Greeting
from kraft.quorum.membership import quorum_id_of
from kraft.quorum.messages import (
    Admission,
    AppendEntries,
    AppendEntriesResponse,
    Demotion,
    EngineMessage,
    ForMembership,
    Message,
    PreVoteRequest,
    PreVoteResponse,
    QuorumIntroduction,
    SnapshotPart,
    VoteRequest,
    VoteResponse,
    from_engine,
    heartbeat,
    size_bytes,
    to_engine,
)
from kraft.quorum.snapshot_transfer import IncomingSnapshot, OutgoingSnapshots
from kraft.quorum.snapshots import Snapshot
from kraft.quorum.standing import Standing
from kraft.quorum.voter_resources import MonotonicClock


def _no_snapshot() -> Snapshot | None:
    return None


def _append_nothing() -> None:
    return


def _refuse_snapshot(sender: int, term: int, snapshot: Snapshot) -> None:
    raise ValueError(f"a snapshot at entry {snapshot.id.index} arrived, but this voter keeps none")


class QuorumTransport(Transport):  # type: ignore[misc]  # PySyncObj has no type information.
    """Connects the engine with the links to the other voters. Everything happens on the event loop."""

    def __init__(self, config: QuorumConfig, log: DurableLog, clock: MonotonicClock, standing: Standing) -> None:
        """A log without any entry belongs to a voter that never took part."""
        super().__init__(None, None, [])
        self.standing = standing
        self._node_id = config.node_id
        self._nodes = {peer: VoterNode(peer) for peer in config.peer_ids}
        self._log = log
        self._clock = clock
        self._engine: EngineFacts | None = None
        self._links: Links | None = None
        self._outbox: dict[int, list[Message]] = {peer: [] for peer in self._nodes}
        self._outbox_bytes = dict.fromkeys(self._nodes, 0)
        self._held: dict[int, list[Message]] = {peer: [] for peer in self._nodes}
        """Messages held until the write that they depend on is on disk."""
        self._votes = VoteCounter()
        self._pre_votes = PreVotes(len(config.voters))
        self._leader = LeaderWatch(config.fetch_timeout_range_ms[0], clock.monotonic_ms() if log.last_index else None)
        is_first = log.last_index == 0 and config.node_id == min(config.voters)
        self._first_contacts = FirstContacts(config.peer_ids if is_first else ())
        self._heard_at_ms: dict[int, int] = {}
        self.acknowledgements = Acknowledgements()
        self._learners = Learners(self.acknowledgements)
        self.append_barrier: Callback = _append_nothing
        """Makes this voter, while it leads, append an entry soon."""
        self.resend_wanted = False
        """True if a follower asked for entries again. The engine alone would answer only in its next append period."""
        self.latest_snapshot: Callable[[], Snapshot | None] = _no_snapshot
        """Returns the snapshot for a voter that lacks entries which the log no longer has."""
        self.install_snapshot: Callable[[int, int, Snapshot], None] = _refuse_snapshot
        """Begins to install a snapshot, given the leader that sent it and its term. When that is done,
        `snapshot_installed` is called."""
        self._connected: set[int] = set()
        self._lagging: set[int] = set()
        """Voters to which the engine had nothing to send in this step: the log begins after the entries they lack."""
        self._full: set[int] = set()
        """Voters whose links have no room. The engine sees them as not connected, and continues later where it was."""
        self._outgoing = OutgoingSnapshots()
        self._incoming = IncomingSnapshot()

    def attach(self, engine: EngineFacts, links: Links) -> None:
        """Connect both sides; before that, nothing is sent or received."""
        self._engine, self._links = engine, links
        if not self._nodes:
            # There is no other voter to wait for.
            engine.campaign_now()

    @property
    def connected(self) -> frozenset[int]:
        """The voters that this one reaches."""
        return frozenset(self._connected)

    def heard_ms_ago(self, voter: int) -> int:
        """Return the time since the voter's last message; -1 if there was none."""
        heard_at_ms = self._heard_at_ms.get(voter)
        return -1 if heard_at_ms is None else self._clock.monotonic_ms() - heard_at_ms

    # --- the engine's side ---------------------------------------------------------------------------------------

    @property
    def nodes(self) -> list[VoterNode]:
        return list(self._nodes.values())

    def send(self, node: VoterNode, message: EngineMessage) -> bool:
        """Take a message from the engine; return whether it will be sent."""
        if self._engine is None:
            return False
        if "serialized" in message:
            self._postpone_snapshot(node, message)
            return True
        translated = from_engine(message, self._engine.raftCurrentTerm, self.standing.membership)
        if translated is None:
            return False
        if isinstance(translated, VoteResponse):
            self._leader.heard(node.id, self._clock.monotonic_ms())
        self._put(node.id, translated)
        if isinstance(translated, AppendEntries) and self._room_bytes(node.id) <= 0:
            # The engine would continue to the end of the log. As "disconnected" it stops after this append, and keeps
            # its position.
            self._full.add(node.id)
            self._onNodeDisconnected(node)
        return True

    def _put(self, peer: int, message: Message) -> None:
        self._outbox[peer].append(message)
        self._outbox_bytes[peer] += size_bytes(message)

    def _room_bytes(self, peer: int) -> int:
        assert self._links is not None, "nothing is sent before the links were attached"
        return self._links.room_bytes(peer) - self._outbox_bytes[peer]

    def _postpone_snapshot(self, node: VoterNode, message: EngineMessage) -> None:
        """Send an empty append in place of the snapshot that the engine wants to send.

        The engine would repeat the attempt as long as the voter is connected, so the voter counts as disconnected until
        the next `hold`. The empty append shows the voter that there is a leader; its response shows the engine that the
        voter is alive.
        """
        self._lagging.add(node.id)
        self._onNodeDisconnected(node)
        base = self._log.first_index
        base_term = self._log.term_at(base)
        assert base_term is not None, "a log that was trimmed has a base"
        self._put(
            node.id,
            AppendEntries(
                term=message["term"],
                previous_index=base,
                previous_term=base_term,
                entries=(),
                commit_index=min(message["commit_index"], base),
                quorum_id=self.standing.membership.quorum_id,
            ),
        )

    def _send_snapshots(self, engine: EngineFacts) -> None:
        lagging, self._lagging = self._lagging, set()
        now_ms, term = self._clock.monotonic_ms(), engine.raftCurrentTerm
        for peer in sorted(lagging & self._connected):
            if peer not in self._full:
                self._onNodeConnected(self._nodes[peer])
            if self._outgoing.is_due(peer, now_ms) and (snapshot := self.latest_snapshot()) is not None:
                self._outgoing.begin(peer, snapshot, term, now_ms)
        for peer in self._outgoing.under_way:
            for part in self._outgoing.next_parts(peer, term, self._room_bytes(peer), now_ms):
                self._put(peer, replace(part, quorum_id=self.standing.membership.quorum_id))

    @property
    def asks_for_pre_votes(self) -> bool:
        """True while this voter asks for pre-votes: no message of a leader came within the fetch timeout, nor since."""
        return self._pre_votes.is_open

    def end_pre_votes(self) -> None:
        """Discard the pre-votes: this voter leads."""
        self._pre_votes.end()

    def may_campaign(self, round_ms: int) -> bool:
        """Return whether a majority would vote for this voter; all, if they have to form the quorum.

        While that is not known, asks the others for pre-votes, again every `round_ms`.
        """
        assert self._engine is not None, "the engine was not attached before its first step"
        membership = self.standing.membership
        term, now_ms = self._engine.raftCurrentTerm + 1, self._clock.monotonic_ms()
        # A learner asks nobody, but what its earlier incarnation was granted may still arrive.
        if not membership.is_learner and self._pre_votes.is_won(term, needs_all=membership.is_new):
            self._pre_votes.end()
            if membership.is_new:
                self.standing.form()
            else:
                self.standing.confirm()
            self._leader.heard(self._node_id, now_ms)
            return True
        if not self._nodes:
            return True
        founders = self.standing.proposed_founders if membership.is_new else self.standing.named_founders
        if founders is not None and self._pre_votes.is_due(now_ms):
            # To form a quorum, all must grant, and slow ones may answer in different rounds. What they granted stays
            # true as long as the founders do, and `greeted` discards it when they may have changed.
            self._pre_votes.begin(term, now_ms + round_ms, keeps_granted=membership.is_new)
            if not membership.is_learner:
                self._ask_for_pre_votes(term, founders)
        return False

    def _ask_for_pre_votes(self, term: int, founders: Mapping[int, bytes]) -> None:
        last_log_term, last_log_index = self._log_end()
        request = PreVoteRequest(
            term=term,
            last_log_index=last_log_index,
            last_log_term=last_log_term,
            incarnation=self.standing.membership.incarnation,
            founders=founders,
            forms=self.standing.membership.is_new,
        )
        for peer in sorted(self._connected):
            self._put(peer, request)

    def hold(self) -> None:
        """Hold every message sent so far for the next `release`.

        Called before the write that these messages depend on; messages sent later depend on a later write.
        """
        assert self._engine is not None, "hold before attach"
        self._send_snapshots(self._engine)
        for peer, messages in self._outbox.items():
            self._held[peer] += messages
            self._outbox[peer] = []

    def release(self) -> None:
        """Send the held messages. The write that they depend on must be durable."""
        assert self._links is not None, "release before attach"
        for peer, messages in self._held.items():
            if messages:
                self._held[peer] = []
                self._outbox_bytes[peer] -= sum(map(size_bytes, messages))
                self._links.deliver(peer, [message for message in messages if self._is_still_valid(message)])
        for peer in sorted(self._full):
            if self._room_bytes(peer) > 0:
                # The link never became full, because it has written enough meanwhile; so it will not report room.
                self.link_has_room(peer)

    def _is_still_valid(self, message: Message) -> bool:
        """Return False for an acknowledgement of entries that have since been truncated."""
        match message:
            case AppendEntriesResponse(success=True, next_index=next_index):
                return next_index - 1 <= self._log.synced_index
            case _:
                return True

    def flush(self) -> None:
        """Send every message. The journal must be synced."""
        self.hold()
        self.release()

    # --- the links' side -----------------------------------------------------------------------------------------

    def greeted(self, peer: int, greeting: Greeting) -> None:
        """Note what the voter says of itself, before its first message and before its link is up."""
        was_new = self.standing.membership.is_new
        earlier = self.standing.greeted(peer, greeting)
        if was_new:
            # Pre-votes count only for what this voter knew when it asked.
            self._pre_votes.end()
        if earlier is not None and self._engine is not None and self._engine.leading:
            self._learners.greeted_again(self._engine, peer, earlier, greeting)

    def leadership_begins(self, term: int) -> None:
        """Note that this voter leads that term."""
        self.acknowledgements.begin(term)
        self._learners.begin()

    def link_up(self, peer: int) -> None:
        self._connected.add(peer)
        self._full.discard(peer)
        self._onNodeConnected(self._nodes[peer])
        self._contact_made(peer, is_ours=True)

    def hello_received(self, peer: int) -> None:
        """Note that the voter has opened its own link to this one."""
        self._contact_made(peer, is_ours=False)

    def _contact_made(self, peer: int, *, is_ours: bool) -> None:
        """Start the first election of a new cluster once all voters can answer."""
        if self._first_contacts.made(peer, is_ours=is_ours) and self._engine is not None:
            self._engine.campaign_now()

    def link_has_room(self, peer: int) -> None:
        """Note that a full link has room again."""
        self._full.discard(peer)
        if peer in self._connected:
            self._onNodeConnected(self._nodes[peer])
            self.resend_wanted = True

    def link_down(self, peer: int) -> None:
        self._connected.discard(peer)
        self._outgoing.forget(peer)
        self._full.discard(peer)
        self._outbox[peer], self._held[peer], self._outbox_bytes[peer] = [], [], 0
        self._onNodeDisconnected(self._nodes[peer])

    def receive(self, peer: int, messages: Iterable[Message]) -> None:
        """Pass on what the engine may see. Raises Diverged, and BadMessage for a snapshot that is too large."""
        if self._engine is None:
            return
        self._heard_at_ms[peer] = self._clock.monotonic_ms()
        for message in messages:
            self._receive_one(self._engine, peer, message)

    def _receive_one(self, engine: EngineFacts, peer: int, message: Message) -> None:
        if not self.standing.accepts(peer, message):
            if isinstance(message, PreVoteRequest) and message.forms:
                self._introduce(peer)
            return
        match message:
            case AppendEntries():
                self._receive_append(engine, peer, message)
            case AppendEntriesResponse():
                self._receive_response(engine, peer, message)
            case SnapshotPart():
                self._receive_part(engine, peer, message)
            case QuorumIntroduction() | Admission() | Demotion():
                self._receive_for_membership(engine, message)
            case _:
                self._receive_for_election(engine, peer, message)

    def _receive_for_election(
        self, engine: EngineFacts, peer: int, message: PreVoteRequest | PreVoteResponse | VoteRequest | VoteResponse
    ) -> None:
        match message:
            case PreVoteRequest():
                self._receive_pre_vote_request(engine, peer, message)
            case PreVoteResponse(granted=True):
                self._pre_votes.granted(peer, message.term)
            case PreVoteResponse():
                if message.term > engine.raftCurrentTerm and not self._has_leader_besides(engine, peer):
                    self._take_term(peer, message.term)
            case VoteRequest():
                may_vote = self.standing.membership.may_vote_in(message.term)
                if may_vote and not self._has_leader_besides(engine, peer):
                    self._pass_to_engine(peer, to_engine(message))
            case VoteResponse():
                if self._votes.admit(peer, message.term, engine.raftCurrentTerm):
                    self._pass_to_engine(peer, to_engine(message))

    def _receive_for_membership(self, engine: EngineFacts, message: ForMembership) -> None:
        membership = self.standing.membership
        match message:
            case QuorumIntroduction():
                """The voter has joined."""
            case _ if message.term != engine.raftCurrentTerm or message.incarnation != membership.incarnation:
                """In another term, this voter may have lost again what the leader's barrier stood for."""
            case Admission():
                if membership.is_learner:
                    self.standing.admit(message.term)
            case Demotion():
                self.standing.demote()

    def _introduce(self, peer: int) -> None:
        """Name the quorum to a voter that wants to form one."""
        if founders := self.standing.named_founders:
            self._put(peer, QuorumIntroduction(incarnation=self.standing.membership.incarnation, founders=founders))

    def _receive_append(self, engine: EngineFacts, peer: int, append: AppendEntries) -> None:
        if append.term < engine.raftCurrentTerm:
            # Without a response, the sender would never learn that it no longer leads.
            self._respond(peer, engine.raftCurrentTerm, self._log.last_index + 1, success=False)
            return
        self._note_leader(peer)
        trimmed = trim_append(append, self._log, engine.raftLastApplied)
        if trimmed.held_index is None:
            self._pass_to_engine(peer, to_engine(trimmed.append))
            return
        self._pass_to_engine(peer, heartbeat(append.term, trimmed.commit_index))
        self._respond(peer, engine.raftCurrentTerm, trimmed.held_index + 1, success=True)

    def _respond(self, peer: int, term: int, next_index: int, *, success: bool) -> None:
        membership = self.standing.membership
        self._put(
            peer,
            AppendEntriesResponse(
                term=term,
                next_index=next_index,
                success=success,
                reset=False,
                incarnation=membership.incarnation,
                is_learner=membership.is_learner,
            ),
        )

    def _receive_response(self, engine: EngineFacts, peer: int, response: AppendEntriesResponse) -> None:
        now_ms = self._clock.monotonic_ms()
        if engine.leading and response.term > engine.raftCurrentTerm:
            # That voter can follow no leader of this term, so this leader campaigns in a later one. Voters that still
            # follow it vote for it at once; if they have voted for another candidate, this leader steps down.
            self._take_term(peer, response.term)
            engine.campaign_now()
            return
        if not response.is_learner and self._learners.must_become_learner(peer, response.incarnation):
            self._put(peer, Demotion(term=engine.raftCurrentTerm, incarnation=response.incarnation))
            return
        self.standing.noted(peer, is_learner=response.is_learner)
        admitted = self.acknowledgements.admit(peer, response, self._log.last_index, now_ms)
        if admitted is not None:
            if response.success:
                self._outgoing.arrived(peer)
            self.resend_wanted |= admitted.reset and response.reset
            self._pass_to_engine(peer, to_engine(admitted))
            if response.is_learner and engine.leading:
                self._bring_back(engine, peer, response.incarnation)

    def _bring_back(self, engine: EngineFacts, learner: int, incarnation: bytes) -> None:
        """Admit the learner once that is safe, again at each of its responses until it says that it is admitted."""
        if self._learners.needs_barrier(learner, self._log.last_index):
            self.append_barrier()
        if self._learners.may_vote(learner, engine.raftCommitIndex):
            self._put(learner, Admission(term=engine.raftCurrentTerm, incarnation=incarnation))

    def _receive_pre_vote_request(self, engine: EngineFacts, peer: int, request: PreVoteRequest) -> None:
        log_end = (request.last_log_term, request.last_log_index)
        if request.forms:
            # In any term, so that it is said: each majority of a grown quorum must have all that the old one had.
            is_up_to_date = self.standing.has_equal_log(peer, log_end, self._log_end())
        else:
            is_up_to_date = log_end >= self._log_end()
        current_term = engine.raftCurrentTerm
        if request.term <= current_term:
            self._put(peer, PreVoteResponse(term=current_term, granted=False))
            return
        may_vote = request.forms or self.standing.membership.may_vote_in(request.term)
        if may_vote and is_up_to_date and not self._has_leader_besides(engine, peer):
            quorum_id = quorum_id_of(request.founders)
            self._put(peer, PreVoteResponse(term=request.term, granted=True, quorum_id=quorum_id))

    def _has_leader_besides(self, engine: EngineFacts, candidate: int) -> bool:
        """Return whether there is a live leader other than the candidate, so that it gets no vote."""
        return engine.leading or self._leader.has_leader_besides(candidate, self._clock.monotonic_ms())

    def _note_leader(self, peer: int) -> None:
        self._leader.heard(peer, self._clock.monotonic_ms())
        self._pre_votes.end()

    def _take_term(self, peer: int, term: int) -> None:
        """Move the engine to a later term, without a leader, by the request of a candidate that gets no vote."""
        self._pass_to_engine(peer, to_engine(VoteRequest(term=term, last_log_index=0, last_log_term=-1)))

    def _log_end(self) -> tuple[int, int]:
        """Return term and index of the last entry: the greater pair is the more up-to-date log."""
        index = self._log.last_index
        term = self._log.term_at(index)
        assert term is not None, "the engine begins a log with an entry of its own"
        return term, index

    def _receive_part(self, engine: EngineFacts, peer: int, part: SnapshotPart) -> None:
        if part.term < engine.raftCurrentTerm:
            return
        self._note_leader(peer)
        self._pass_to_engine(peer, heartbeat(part.term, 0))
        snapshot = self._incoming.take(peer, part)
        if snapshot is None:
            return
        if snapshot.id.index > engine.raftLastApplied:
            self.install_snapshot(peer, part.term, snapshot)
        else:
            self.snapshot_installed(peer, part.term, snapshot.id.index)

    def snapshot_installed(self, peer: int, term: int, index: int) -> None:
        """Acknowledge to the leader of `term`, if it still leads, that this voter holds the entries up to `index`."""
        assert self._engine is not None, "a snapshot arrived before attach"
        if self._engine.raftCurrentTerm != term:
            return
        # A voter that has applied an entry holds the same entries before it as every leader.
        self._pass_to_engine(peer, heartbeat(term, index))
        self._respond(peer, term, index + 1, success=True)

    def _pass_to_engine(self, peer: int, message: EngineMessage) -> None:
        self._onMessageReceived(self._nodes[peer], message)
