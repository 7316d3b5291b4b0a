"""The engine's transport: filters what arrives, and holds back what leaves until the journal is synced.

The engine believes it sends at once. Its messages wait in the outbox until `flush`, which the driver calls after the
sync that covers them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import structlog
from pysyncobj.node import Node
from pysyncobj.transport import Transport

from kraft.quorum.filters import Acknowledgements, BallotBox, LogView, trim_append
from kraft.quorum.messages import (
    Append,
    AppendResponse,
    EngineMessage,
    Message,
    SnapshotPart,
    VoteRequest,
    VoteResponse,
    from_engine,
    sign_of_life,
    to_engine,
)
from kraft.quorum.snapshot_transfer import IncomingSnapshot, OutgoingSnapshots, parts_of
from kraft.quorum.snapshots import Snapshot
from kraft.quorum.world import MonotonicClock

log = structlog.get_logger(__name__)

Deliver = Callable[[int, list[Message]], None]
"""Takes the messages of one step for one voter; they may be lost, never reordered."""


class EngineFacts(Protocol):
    """What the filters must know of the engine."""

    @property
    def raftCurrentTerm(self) -> int: ...

    @property
    def raftLastApplied(self) -> int: ...


class TrimmedLog(LogView, Protocol):
    @property
    def first_index(self) -> int:
        """Nothing before it can be sent to anybody."""


def _no_snapshot() -> Snapshot | None:
    return None


def _refuse_snapshot(snapshot: Snapshot) -> None:
    raise ValueError(f"a snapshot at entry {snapshot.id.index} arrived, and this voter keeps none")


class VoterNode(Node):  # type: ignore[misc]  # PySyncObj has no type information.
    """A voter by its node id. An integer hashes alike in every process, so sets of voters have one order everywhere."""

    def __str__(self) -> str:
        return str(self.id)


class QuorumTransport(Transport):  # type: ignore[misc]  # PySyncObj has no type information.
    """Joins the engine with the links to the other voters. Everything happens on the event loop."""

    def __init__(self, peer_ids: Iterable[int], log: TrimmedLog, clock: MonotonicClock) -> None:
        super().__init__(None, None, [])
        self._nodes = {peer: VoterNode(peer) for peer in peer_ids}
        self._log = log
        self._clock = clock
        self._engine: EngineFacts | None = None
        self._deliver: Deliver | None = None
        self._outbox: dict[int, list[Message]] = {peer: [] for peer in self._nodes}
        self._ballots = BallotBox()
        self._heard_at_ms: dict[int, int] = {}
        self.acknowledgements = Acknowledgements()
        self.resend_wanted = False
        """A follower asked for entries again; waiting for the next period would make it a period an answer."""
        self.latest_snapshot: Callable[[], Snapshot | None] = _no_snapshot
        """What a voter is sent that lacks more than the log has."""
        self.install_snapshot: Callable[[Snapshot], None] = _refuse_snapshot
        """Makes this voter stand where the snapshot does; on return that is durable."""
        self._connected: set[int] = set()
        self._lagging: set[int] = set()
        """Those to whom the engine had nothing to send in this step, because the log begins behind what they lack."""
        self._outgoing = OutgoingSnapshots()
        self._incoming = IncomingSnapshot()

    def attach(self, engine: EngineFacts, deliver: Deliver) -> None:
        """Joins both sides; before that, nothing is sent or received."""
        self._engine, self._deliver = engine, deliver

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
        self._outbox[node.id].append(translated)
        return True

    def _put_off(self, node: VoterNode, message: EngineMessage) -> None:
        """The engine wants to send a snapshot, and would try for as long as the voter is connected: until the flush it
        is not. Meanwhile the voter is shown that there is a leader; its answer tells the engine that it lives."""
        self._lagging.add(node.id)
        self._onNodeDisconnected(node)
        base = self._log.first_index
        base_term = self._log.term_at(base)
        assert base_term is not None, "a log that was trimmed has a base"
        self._outbox[node.id].append(
            Append(
                term=message["term"],
                previous_index=base,
                previous_term=base_term,
                entries=(),
                commit_index=min(message["commit_index"], base),
            )
        )

    def _send_snapshots(self) -> None:
        lagging, self._lagging = self._lagging, set()
        now_ms = self._clock.monotonic_ms()
        for peer in sorted(lagging & self._connected):
            self._onNodeConnected(self._nodes[peer])
            if self._engine is None or not self._outgoing.is_due(peer, now_ms):
                continue
            snapshot = self.latest_snapshot()
            if snapshot is not None:
                log.info("snapshot is sent to a voter that lags", voter=peer, index=snapshot.id.index)
                self._outbox[peer] += parts_of(snapshot, self._engine.raftCurrentTerm)
                self._outgoing.sent(peer, sum(map(len, snapshot.chunks)), now_ms)

    def flush(self) -> None:
        """Everything that was sent since the last flush leaves. The journal must be synced."""
        assert self._deliver is not None, "flushed before the links were attached"
        self._send_snapshots()
        for peer, messages in self._outbox.items():
            if messages:
                self._outbox[peer] = []
                self._deliver(peer, messages)

    # --- the links' side -----------------------------------------------------------------------------------------

    def link_up(self, peer: int) -> None:
        self._connected.add(peer)
        self._onNodeConnected(self._nodes[peer])

    def link_down(self, peer: int) -> None:
        self._connected.discard(peer)
        self._outgoing.forget(peer)
        self._outbox[peer].clear()
        self._onNodeDisconnected(self._nodes[peer])

    def receive(self, peer: int, messages: Iterable[Message]) -> None:
        """Hands on what the engine may see. Raises Diverged."""
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
                now_ms = self._clock.monotonic_ms()
                admitted = self.acknowledgements.admit(peer, message, self._log.last_index, now_ms)
                if admitted is not None:
                    self.resend_wanted |= admitted.reset
                    self._hand(peer, to_engine(admitted))
            case SnapshotPart():
                self._receive_part(engine, peer, message)
            case VoteRequest():
                self._hand(peer, to_engine(message))
            case VoteResponse():
                if self._ballots.admit(peer, message.term, engine.raftCurrentTerm):
                    self._hand(peer, to_engine(message))

    def _receive_append(self, engine: EngineFacts, peer: int, append: Append) -> None:
        if append.term < engine.raftCurrentTerm:
            return
        trimmed = trim_append(append, self._log, engine.raftLastApplied)
        if trimmed.held_index is None:
            self._hand(peer, to_engine(trimmed.append))
            return
        self._hand(peer, sign_of_life(append.term, trimmed.commit_index))
        self._outbox[peer].append(
            AppendResponse(term=engine.raftCurrentTerm, next_index=trimmed.held_index + 1, success=True, reset=False)
        )

    def _receive_part(self, engine: EngineFacts, peer: int, part: SnapshotPart) -> None:
        if part.term < engine.raftCurrentTerm:
            return
        self._hand(peer, sign_of_life(part.term, 0))
        snapshot = self._incoming.take(peer, part)
        if snapshot is None:
            return
        if snapshot.id.index > engine.raftLastApplied:
            self.install_snapshot(snapshot)
        # Whoever has applied an entry holds all before it as every leader does.
        self._hand(peer, sign_of_life(part.term, snapshot.id.index))
        self._outbox[peer].append(
            AppendResponse(term=engine.raftCurrentTerm, next_index=snapshot.id.index + 1, success=True, reset=False)
        )

    def _hand(self, peer: int, message: EngineMessage) -> None:
        self._onMessageReceived(self._nodes[peer], message)
