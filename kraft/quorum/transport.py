"""The engine's transport: filters what arrives, and holds back what leaves until the journal is synced.

The engine believes it sends at once. Its messages wait in the outbox until `flush`, which the driver calls after the
sync that covers them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Protocol

from pysyncobj.node import Node
from pysyncobj.transport import Transport

from kraft.quorum.filters import Acknowledgements, BallotBox, LogView, trim_append
from kraft.quorum.messages import (
    Append,
    AppendResponse,
    EngineMessage,
    Message,
    VoteRequest,
    VoteResponse,
    from_engine,
    sign_of_life,
    to_engine,
)

Deliver = Callable[[int, list[Message]], None]
"""Takes the messages of one step for one voter; they may be lost, never reordered."""


class EngineFacts(Protocol):
    """What the filters must know of the engine."""

    @property
    def raftCurrentTerm(self) -> int: ...

    @property
    def raftLastApplied(self) -> int: ...


class VoterNode(Node):  # type: ignore[misc]  # PySyncObj has no type information.
    """A voter by its node id. An integer hashes alike in every process, so sets of voters have one order everywhere."""

    def __str__(self) -> str:
        return str(self.id)


class QuorumTransport(Transport):  # type: ignore[misc]  # PySyncObj has no type information.
    """Joins the engine with the links to the other voters. Everything happens on the event loop."""

    def __init__(self, peer_ids: Iterable[int], log: LogView) -> None:
        super().__init__(None, None, [])
        self._nodes = {peer: VoterNode(peer) for peer in peer_ids}
        self._log = log
        self._engine: EngineFacts | None = None
        self._deliver: Deliver | None = None
        self._outbox: dict[int, list[Message]] = {peer: [] for peer in self._nodes}
        self._ballots = BallotBox()
        self._heard_at_s: dict[int, float] = {}
        self.acknowledgements = Acknowledgements()
        self.resend_wanted = False
        """A follower asked for entries again; waiting for the next period would make it a period an answer."""

    def attach(self, engine: EngineFacts, deliver: Deliver) -> None:
        """Joins both sides; before that, nothing is sent or received."""
        self._engine, self._deliver = engine, deliver

    def heard_ms_ago(self, voter: int) -> int:
        """-1 when nothing was ever heard from the voter."""
        heard_at_s = self._heard_at_s.get(voter)
        return -1 if heard_at_s is None else int((time.monotonic() - heard_at_s) * 1000)

    # --- the engine's side ---------------------------------------------------------------------------------------

    @property
    def nodes(self) -> list[VoterNode]:
        return list(self._nodes.values())

    def send(self, node: VoterNode, message: EngineMessage) -> bool:
        """Called by the engine. True says: kept for the next flush."""
        if self._engine is None:
            return False
        translated = from_engine(message, self._engine.raftCurrentTerm)
        if translated is None:
            return False
        self._outbox[node.id].append(translated)
        return True

    def flush(self) -> None:
        """Everything that was sent since the last flush leaves. The journal must be synced."""
        assert self._deliver is not None, "flushed before the links were attached"
        for peer, messages in self._outbox.items():
            if messages:
                self._outbox[peer] = []
                self._deliver(peer, messages)

    # --- the links' side -----------------------------------------------------------------------------------------

    def link_up(self, peer: int) -> None:
        self._onNodeConnected(self._nodes[peer])

    def link_down(self, peer: int) -> None:
        self._outbox[peer].clear()
        self._onNodeDisconnected(self._nodes[peer])

    def receive(self, peer: int, messages: Iterable[Message]) -> None:
        """Hands on what the engine may see. Raises Diverged."""
        if self._engine is None:
            return
        self._heard_at_s[peer] = time.monotonic()
        for message in messages:
            self._receive_one(self._engine, peer, message)

    def _receive_one(self, engine: EngineFacts, peer: int, message: Message) -> None:
        match message:
            case Append():
                self._receive_append(engine, peer, message)
            case AppendResponse():
                admitted = self.acknowledgements.admit(peer, message, self._log.last_index)
                if admitted is not None:
                    self.resend_wanted |= admitted.reset
                    self._hand(peer, to_engine(admitted))
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

    def _hand(self, peer: int, message: EngineMessage) -> None:
        self._onMessageReceived(self._nodes[peer], message)
