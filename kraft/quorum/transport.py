"""The engine's transport: filters what arrives, and holds back what leaves until the journal is synced.

The engine believes it sends at once. Its messages wait in the outbox until `flush`, which the driver calls after the
sync that covers them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from pysyncobj.node import Node
from pysyncobj.transport import Transport

from kraft.quorum.candidacy import Canvass, LeaderWatch
from kraft.quorum.config import QuorumConfig
from kraft.quorum.filters import Acknowledgements, BallotBox, LogView, trim_append
from kraft.quorum.messages import (
    Append,
    AppendResponse,
    EngineMessage,
    Message,
    PreVoteRequest,
    PreVoteResponse,
    SnapshotPart,
    VoteRequest,
    VoteResponse,
    from_engine,
    sign_of_life,
    size_bytes,
    to_engine,
)
from kraft.quorum.snapshot_transfer import IncomingSnapshot, OutgoingSnapshots
from kraft.quorum.snapshots import Snapshot
from kraft.quorum.world import MonotonicClock


class Links(Protocol):
    """The streams to the other voters."""

    def deliver(self, peer: int, messages: list[Message]) -> None:
        """Takes the messages of one step; they may be lost, never reordered."""

    def room_bytes(self, peer: int) -> int:
        """How much more may be sent to the voter before its link tells that there is room."""


class EngineFacts(Protocol):
    """What the filters must know of the engine."""

    @property
    def raftCurrentTerm(self) -> int: ...

    @property
    def raftLastApplied(self) -> int: ...

    @property
    def leading(self) -> bool: ...

    def stand_at_once(self) -> None: ...


class DurableLog(LogView, Protocol):
    @property
    def first_index(self) -> int:
        """Nothing before it can be sent to anybody."""

    @property
    def synced_index(self) -> int:
        """Every entry up to this one is on disk."""


def _no_snapshot() -> Snapshot | None:
    return None


def _refuse_snapshot(sender: int, term: int, snapshot: Snapshot) -> None:
    raise ValueError(f"a snapshot at entry {snapshot.id.index} arrived, and this voter keeps none")


class VoterNode(Node):  # type: ignore[misc]  # PySyncObj has no type information.
    """A voter by its node id. An integer hashes alike in every process, so sets of voters have one order everywhere."""

    def __str__(self) -> str:
        return str(self.id)


class QuorumTransport(Transport):  # type: ignore[misc]  # PySyncObj has no type information.
    """Joins the engine with the links to the other voters. Everything happens on the event loop."""

    def __init__(self, config: QuorumConfig, log: DurableLog, clock: MonotonicClock) -> None:
        """A log without any entry is that of a voter which never took part."""
        super().__init__(None, None, [])
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
        self._ballots = BallotBox()
        self._canvass = Canvass(len(config.voters))
        self._leader = LeaderWatch(config.silence_ms[0], clock.monotonic_ms() if log.last_index else None)
        self._heard_at_ms: dict[int, int] = {}
        self.acknowledgements = Acknowledgements()
        self.resend_wanted = False
        """A follower asked for entries again; waiting for the next period would make it a period an answer."""
        self.latest_snapshot: Callable[[], Snapshot | None] = _no_snapshot
        """What a voter is sent that lacks more than the log has."""
        self.install_snapshot: Callable[[int, int, Snapshot], None] = _refuse_snapshot
        """Begins to make this voter stand where the snapshot does, that the leader of a term has sent. When that is
        done, `snapshot_installed` is called."""
        self._connected: set[int] = set()
        self._lagging: set[int] = set()
        """Those to whom the engine had nothing to send in this step, because the log begins behind what they lack."""
        self._full: set[int] = set()
        """Those whose links have no room. To the engine they are not connected, and it goes on later where it was."""
        self._outgoing = OutgoingSnapshots()
        self._incoming = IncomingSnapshot()

    def attach(self, engine: EngineFacts, links: Links) -> None:
        """Joins both sides; before that, nothing is sent or received."""
        self._engine, self._links = engine, links

    def heard_ms_ago(self, voter: int) -> int:
        """-1 when nothing was ever heard from the voter."""
        heard_at_ms = self._heard_at_ms.get(voter)
        return -1 if heard_at_ms is None else self._clock.monotonic_ms() - heard_at_ms

    # --- the engine's side ---------------------------------------------------------------------------------------

    @property
    def nodes(self) -> list[VoterNode]:
        return list(self._nodes.values())

    def send(self, node: VoterNode, message: EngineMessage) -> bool:
        """Called by the engine. True says: kept for the next flush."""
        if self._engine is None:
            return False
        if "serialized" in message:
            self._put_off(node, message)
            return True
        translated = from_engine(message, self._engine.raftCurrentTerm)
        if translated is None:
            return False
        if isinstance(translated, VoteResponse):
            self._leader.heard(node.id, self._clock.monotonic_ms())
        self._put(node.id, translated)
        if isinstance(translated, Append) and self._room_bytes(node.id) <= 0:
            # The engine would go on to the end of the log. It stops behind this append, and loses count of nothing.
            self._full.add(node.id)
            self._onNodeDisconnected(node)
        return True

    def _put(self, peer: int, message: Message) -> None:
        self._outbox[peer].append(message)
        self._outbox_bytes[peer] += size_bytes(message)

    def _room_bytes(self, peer: int) -> int:
        assert self._links is not None, "nothing is sent before the links were attached"
        return self._links.room_bytes(peer) - self._outbox_bytes[peer]

    def _put_off(self, node: VoterNode, message: EngineMessage) -> None:
        """The engine wants to send a snapshot, and would try for as long as the voter is connected: until the flush it
        is not. Meanwhile the voter is shown that there is a leader; its answer tells the engine that it lives."""
        self._lagging.add(node.id)
        self._onNodeDisconnected(node)
        base = self._log.first_index
        base_term = self._log.term_at(base)
        assert base_term is not None, "a log that was trimmed has a base"
        self._put(
            node.id,
            Append(
                term=message["term"],
                previous_index=base,
                previous_term=base_term,
                entries=(),
                commit_index=min(message["commit_index"], base),
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
                self._put(peer, part)

    @property
    def asks_for_promises(self) -> bool:
        """No leader was heard within the election timeout, nor since."""
        return self._canvass.is_open

    def may_stand(self, round_ms: int) -> bool:
        """Whether a majority would vote for this voter. When it is not known, the others are asked, and every
        `round_ms` again."""
        assert self._engine is not None, "the engine was not attached before its first step"
        term, now_ms = self._engine.raftCurrentTerm + 1, self._clock.monotonic_ms()
        if self._canvass.is_won(term):
            self._canvass.end()
            self._leader.heard(self._node_id, now_ms)
            return True
        if not self._nodes:
            return True
        if self._canvass.is_due(now_ms):
            self._canvass.begin(term, now_ms + round_ms)
            last_log_term, last_log_index = self._log_end()
            question = PreVoteRequest(term=term, last_log_index=last_log_index, last_log_term=last_log_term)
            for peer in sorted(self._connected):
                self._put(peer, question)
        return False

    def hold(self) -> None:
        """Everything that was sent up to now leaves with the next `release`: to be called before the write on which it
        depends is carried out. What is sent meanwhile depends on a later one."""
        assert self._engine is not None, "held before it was attached"
        self._send_snapshots(self._engine)
        for peer, messages in self._outbox.items():
            self._held[peer] += messages
            self._outbox[peer] = []

    def release(self) -> None:
        """Sends held messages. The write that they depend on is durable."""
        assert self._links is not None, "released before it was attached"
        for peer, messages in self._held.items():
            if messages:
                self._held[peer] = []
                self._outbox_bytes[peer] -= sum(map(size_bytes, messages))
                self._links.deliver(peer, [message for message in messages if self._is_still_true(message)])
        for peer in sorted(self._full):
            if self._room_bytes(peer) > 0:
                # The link took so much meanwhile that it was not full when this came, and will not tell of room.
                self.link_has_room(peer)

    def _is_still_true(self, message: Message) -> bool:
        """False for an acknowledgement of entries that have since been truncated."""
        match message:
            case AppendResponse(success=True, next_index=next_index):
                return next_index - 1 <= self._log.synced_index
            case _:
                return True

    def flush(self) -> None:
        """Everything that was sent leaves. The journal must be synced."""
        self.hold()
        self.release()

    # --- the links' side -----------------------------------------------------------------------------------------

    def link_up(self, peer: int) -> None:
        self._connected.add(peer)
        self._full.discard(peer)
        self._onNodeConnected(self._nodes[peer])

    def link_has_room(self, peer: int) -> None:
        """Again, after it had none."""
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
        """Hands on what the engine may see. Raises Diverged, and BadMessage for a snapshot that is too large."""
        if self._engine is None:
            return
        self._heard_at_ms[peer] = self._clock.monotonic_ms()
        for message in messages:
            self._receive_one(self._engine, peer, message)

    def _receive_one(self, engine: EngineFacts, peer: int, message: Message) -> None:
        match message:
            case Append():
                self._receive_append(engine, peer, message)
            case AppendResponse():
                self._receive_response(engine, peer, message)
            case SnapshotPart():
                self._receive_part(engine, peer, message)
            case PreVoteRequest():
                self._receive_question(engine, peer, message)
            case PreVoteResponse(granted=True):
                self._canvass.promised(peer, message.term)
            case PreVoteResponse():
                if message.term > engine.raftCurrentTerm and not self._is_led(engine, peer):
                    self._take_term(peer, message.term)
            case VoteRequest():
                if not self._is_led(engine, peer):
                    self._hand(peer, to_engine(message))
            case VoteResponse():
                if self._ballots.admit(peer, message.term, engine.raftCurrentTerm):
                    self._hand(peer, to_engine(message))

    def _receive_append(self, engine: EngineFacts, peer: int, append: Append) -> None:
        if append.term < engine.raftCurrentTerm:
            # Its leader would otherwise never learn why this voter takes nothing from it.
            self._put(
                peer,
                AppendResponse(
                    term=engine.raftCurrentTerm, next_index=self._log.last_index + 1, success=False, reset=False
                ),
            )
            return
        self._hear_leader(peer)
        trimmed = trim_append(append, self._log, engine.raftLastApplied)
        if trimmed.held_index is None:
            self._hand(peer, to_engine(trimmed.append))
            return
        self._hand(peer, sign_of_life(append.term, trimmed.commit_index))
        self._put(
            peer,
            AppendResponse(term=engine.raftCurrentTerm, next_index=trimmed.held_index + 1, success=True, reset=False),
        )

    def _receive_response(self, engine: EngineFacts, peer: int, response: AppendResponse) -> None:
        now_ms = self._clock.monotonic_ms()
        if engine.leading and response.term > engine.raftCurrentTerm:
            # That voter can follow no leader of this term. Where the others still follow this one, they vote for it at
            # once in a later term; where they have voted for another one, it gives way.
            self._take_term(peer, response.term)
            engine.stand_at_once()
            return
        admitted = self.acknowledgements.admit(peer, response, self._log.last_index, now_ms)
        if admitted is not None:
            if admitted.success:
                self._outgoing.arrived(peer)
            self.resend_wanted |= admitted.reset
            self._hand(peer, to_engine(admitted))

    def _receive_question(self, engine: EngineFacts, peer: int, question: PreVoteRequest) -> None:
        current_term = engine.raftCurrentTerm
        if question.term <= current_term:
            self._put(peer, PreVoteResponse(term=current_term, granted=False))
        elif (question.last_log_term, question.last_log_index) >= self._log_end() and not self._is_led(engine, peer):
            self._put(peer, PreVoteResponse(term=question.term, granted=True))

    def _is_led(self, engine: EngineFacts, candidate: int) -> bool:
        """The candidate is not needed: there is a leader, and it lives."""
        return engine.leading or self._leader.is_led_by_other_than(candidate, self._clock.monotonic_ms())

    def _hear_leader(self, peer: int) -> None:
        self._leader.heard(peer, self._clock.monotonic_ms())
        self._canvass.end()

    def _take_term(self, peer: int, term: int) -> None:
        """The engine leaves its state and its leader for a later term, as for a candidate that it must not vote for."""
        self._hand(peer, to_engine(VoteRequest(term=term, last_log_index=0, last_log_term=-1)))

    def _log_end(self) -> tuple[int, int]:
        """Term and index of the last entry: which of two logs is ahead."""
        index = self._log.last_index
        term = self._log.term_at(index)
        assert term is not None, "the engine begins a log with an entry of its own"
        return term, index

    def _receive_part(self, engine: EngineFacts, peer: int, part: SnapshotPart) -> None:
        if part.term < engine.raftCurrentTerm:
            return
        self._hear_leader(peer)
        self._hand(peer, sign_of_life(part.term, 0))
        snapshot = self._incoming.take(peer, part)
        if snapshot is None:
            return
        if snapshot.id.index > engine.raftLastApplied:
            self.install_snapshot(peer, part.term, snapshot)
        else:
            self.snapshot_installed(peer, part.term, snapshot.id.index)

    def snapshot_installed(self, peer: int, term: int, index: int) -> None:
        """This voter stands at that entry or behind it, which the leader of the term is told, if it still leads."""
        assert self._engine is not None, "snapshots arrive when it is attached"
        if self._engine.raftCurrentTerm != term:
            return
        # Whoever has applied an entry holds all before it as every leader does.
        self._hand(peer, sign_of_life(term, index))
        self._put(peer, AppendResponse(term=term, next_index=index + 1, success=True, reset=False))

    def _hand(self, peer: int, message: EngineMessage) -> None:
        self._onMessageReceived(self._nodes[peer], message)
