"""One voter: the engine driven on the event loop, between the journal, the links and the listener.

A step takes the messages and proposals that have come and lets the engine decide. What it adds to the journal is
written in a thread, one write after the other, and each takes all that was added meanwhile. Persist before you tell:
what a step says is held until all that it added is durable, and the listener is told of entries that are.
A step follows every message and proposal at once, and a slow beat when nothing comes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

import structlog

from kraft.quorum import command
from kraft.quorum.command import Command, CommandKind
from kraft.quorum.config import QuorumConfig
from kraft.quorum.engine import RaftEngine
from kraft.quorum.journal import QuorumJournal, join_snapshot
from kraft.quorum.messages import BadMessage, Message
from kraft.quorum.peer_link import PeerLink
from kraft.quorum.peer_security import PeerSecurity
from kraft.quorum.port import (
    NotLeader,
    PayloadTooLarge,
    ProposalUnknown,
    QuorumListener,
    QuorumStatus,
    VoterStatus,
)
from kraft.quorum.service import RaftService
from kraft.quorum.snapshot_transfer import SnapshotKeeper
from kraft.quorum.snapshots import Snapshot
from kraft.quorum.transport import QuorumTransport
from kraft.quorum.world import QuorumWorld

log = structlog.get_logger(__name__)

Fatal = Callable[[str], None]
"""Ends the process, soon if not at once: the voter has already fallen silent when this is called."""


class RaftQuorum:
    """The Quorum port. `service` belongs on the CONTROLLER listener before this is started."""

    def __init__(
        self,
        *,
        config: QuorumConfig,
        world: QuorumWorld,
        listener: QuorumListener,
        fatal: Fatal,
        security: PeerSecurity | None = None,
        snapshots: SnapshotKeeper | None = None,
    ) -> None:
        """Without `security`, everybody is trusted. Without `snapshots`, the journal is never trimmed."""
        self._committed: deque[tuple[int, int, bytes]] = deque()
        """Index, term and content of entries that the listener was not told of yet."""
        self._told_index = 0
        self._is_writing = False
        self._incoming: _IncomingSnapshot | None = None
        self._incarnation = world.entropy.bytes(command.REQUEST_ID_BYTES // 2)
        self._security = security
        self._snapshots = snapshots
        self.service = RaftService(config, security, self._incarnation)
        self._config = config
        self._world = world
        self._listener = listener
        self._fatal = fatal
        self._parts: _Parts | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next_beat: asyncio.TimerHandle | None = None
        self._step_scheduled = False
        self._lingering: list[bytes] = []
        """Proposals that wait for others, to share a sync with them."""
        self._linger_end: asyncio.TimerHandle | None = None
        self._failed = False
        self._leadership_term: int | None = None
        self._leadership_request = b""
        self._pending: dict[bytes, asyncio.Future[int]] = {}
        self._request_count = 0

    # --- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Raises Corruption."""
        assert self._parts is None, "started twice"
        self._loop = asyncio.get_running_loop()
        journal = QuorumJournal(self._config.directory, self._world.disk)
        try:
            join_snapshot(journal, None if self._snapshots is None else self._snapshots.start_id)
        except BaseException:
            journal.close()
            raise
        transport = QuorumTransport(self._config, journal, self._world.clock)
        engine = RaftEngine(self._config, journal, transport, self._on_apply, self._on_leading)
        links = {peer: self._link_to(peer) for peer in self._config.peer_ids}
        self._told_index = journal.start_index
        self._parts = _Parts(journal, transport, engine, links)
        transport.attach(engine, self._parts)
        if self._snapshots is not None:
            transport.latest_snapshot, transport.install_snapshot = self._snapshots.latest, self._install_snapshot
        for link in links.values():
            link.start()
        self.service.open(self._on_messages, lambda peer: links[peer].greeted())
        self._beat()
        log.info("quorum voter started", node=self._config.node_id, entries=journal.last_index, term=self.term)

    async def stop(self) -> None:
        parts = self._parts
        if parts is None:
            return
        self._fall_silent("this voter was stopped")
        self._parts = None
        await self.service.close()
        for link in parts.links.values():
            await link.stop()
        self._world.journal_thread.close()
        self._world.snapshot_thread.close()
        parts.engine.destroy()

    def _link_to(self, peer: int) -> PeerLink:
        return PeerLink(
            self._config,
            peer,
            self._on_link_up,
            self._on_link_down,
            self._on_link_room,
            self._security,
            self._incarnation,
        )

    # --- snapshots ---------------------------------------------------------------------------------------------------

    def forget_entries_to(self, index: int) -> None:
        """Two snapshots contain everything up to `index`, both durable: nobody needs these entries from here.

        A voter that lacks them is sent a snapshot.
        """
        if self._parts is None or self._failed:
            return
        assert self._snapshots is not None, "nobody could be sent a snapshot"
        assert index <= self.last_applied, f"entry {index} is not applied; {self.last_applied} is the last"
        self._parts.journal.begin_trim(index)
        self._schedule_step()

    def _install_snapshot(self, sender: int, term: int, snapshot: Snapshot) -> None:
        """Begins with it when what is in the journal is durable; one at a time."""
        if self._incoming is None:
            self._incoming = _IncomingSnapshot(sender, term, snapshot)
        else:
            # Its sender has no answer, and sends it again.
            log.info(
                "snapshot ignored",
                node=self._config.node_id,
                index=snapshot.id.index,
                reason="another one is being installed",
            )

    def _keep_snapshot(self, incoming: _IncomingSnapshot) -> None:
        assert self._snapshots is not None, "without a keeper nothing is installed"
        incoming.is_under_way = True
        keep, snapshot = self._snapshots.keep, incoming.snapshot
        self._world.snapshot_thread.start(lambda: keep(snapshot), lambda kept: self._snapshot_kept(incoming, kept))

    def _snapshot_kept(self, incoming: _IncomingSnapshot, kept: Future[Callable[[], None]]) -> None:
        self._incoming = None
        if self._parts is None or self._failed:
            return
        try:
            self._take_over(incoming.snapshot, kept.result())
        except Exception as error:  # noqa: BLE001  Whatever it is, this voter must not speak or vote again.
            self._fail(f"{type(error).__name__}: {error}")
            return
        self._parts.transport.snapshot_installed(incoming.sender, incoming.term, incoming.snapshot.id.index)
        self._schedule_step()

    def _take_over(self, snapshot: Snapshot, restore: Callable[[], None]) -> None:
        assert self._parts is not None, "called between start and stop"
        index, term = snapshot.id.index, snapshot.id.term
        if index <= self._parts.engine.raftLastApplied:
            # Entries came after all, while it was written.
            return
        log.info("snapshot installed", node=self._config.node_id, index=index, last_applied=self.last_applied)
        self._committed.clear()
        restore()
        self._told_index = index
        self._parts.journal.begin_rebase(index, term)
        self._parts.engine.skip_to(index)

    # --- the port ----------------------------------------------------------------------------------------------------

    async def propose(self, payload: bytes, term: int, deadline_s: float) -> int:
        if len(payload) > self._config.payload_bytes_max:
            raise PayloadTooLarge(len(payload), self._config.payload_bytes_max)
        if self._leadership_term != term:
            raise NotLeader(f"node {self._config.node_id} does not lead in term {term}", self.leader_id)
        return await self._submit(CommandKind.PAYLOAD, payload, term, deadline_s)

    async def barrier(self, deadline_s: float) -> int:
        if self._leadership_term is None:
            raise NotLeader(f"node {self._config.node_id} does not lead", self.leader_id)
        return await self._submit(CommandKind.BARRIER, b"", self._leadership_term, deadline_s)

    @property
    def is_leader(self) -> bool:
        return self._leadership_term is not None

    @property
    def leader_id(self) -> int | None:
        return None if self._parts is None or self._failed else self._parts.engine.leader_id

    @property
    def term(self) -> int:
        return 0 if self._parts is None else int(self._parts.engine.raftCurrentTerm)

    @property
    def commit_index(self) -> int:
        return 0 if self._parts is None else int(self._parts.engine.raftCommitIndex)

    @property
    def last_applied(self) -> int:
        return 0 if self._parts is None else self._told_index

    def describe(self) -> QuorumStatus:
        return QuorumStatus(
            leader_id=self.leader_id,
            term=self.term,
            commit_index=self.commit_index,
            voters=tuple(self._describe_voter(voter) for voter in sorted(self._config.voters)),
        )

    def _describe_voter(self, voter: int) -> VoterStatus:
        parts = self._parts
        if parts is None:
            return VoterStatus(node_id=voter, match_index=-1, heard_ms_ago=-1)
        if voter == self._config.node_id:
            return VoterStatus(node_id=voter, match_index=parts.journal.last_index, heard_ms_ago=0)
        transport = parts.transport
        match_index = transport.acknowledgements.match_index(voter) if parts.engine.leading else -1
        return VoterStatus(node_id=voter, match_index=match_index, heard_ms_ago=transport.heard_ms_ago(voter))

    async def _submit(self, kind: CommandKind, payload: bytes, term: int, deadline_s: float) -> int:
        assert self._loop is not None, "a leader is started"
        request_id = self._new_request_id()
        answer: asyncio.Future[int] = self._loop.create_future()
        self._pending[request_id] = answer
        try:
            linger_s = self._config.append_linger_ms / 1000 if kind is CommandKind.PAYLOAD else 0
            self._append(Command(kind=kind, decided_term=term, request_id=request_id, payload=payload), linger_s)
            async with asyncio.timeout(deadline_s):
                return await answer
        except TimeoutError:
            raise ProposalUnknown(f"the quorum did not commit within {deadline_s:g} s") from None
        finally:
            self._pending.pop(request_id, None)

    def _append(self, entry: Command, linger_s: float = 0) -> None:
        """At the next step, or with `linger_s` at the first one after that time."""
        assert self._parts is not None, "appended before the start"
        assert self._loop is not None, "appended before the start"
        body = command.encode_body(entry)
        if not linger_s:
            self._parts.engine.append(body)
            self._schedule_step()
            return
        self._lingering.append(body)
        if self._linger_end is None:
            self._linger_end = self._loop.call_later(linger_s, self._end_linger)

    def _end_linger(self) -> None:
        self._linger_end = None
        bodies, self._lingering = self._lingering, []
        if self._parts is not None and not self._failed:
            for body in bodies:
                self._parts.engine.append(body)
            self._schedule_step()

    def _new_request_id(self) -> bytes:
        self._request_count += 1
        return self._incarnation + self._request_count.to_bytes(command.REQUEST_ID_BYTES // 2, "big")

    # --- steps -------------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        assert self._loop is not None, "beats begin with the start"
        self._step()
        if not self._failed:
            self._next_beat = self._loop.call_later(self._config.beat_ms / 1000, self._beat)

    def _schedule_step(self) -> None:
        """Soon rather than now, so that everything which arrives in this turn of the loop shares one sync."""
        if not self._step_scheduled and self._loop is not None:
            self._step_scheduled = True
            self._loop.call_soon(self._step)

    def _step(self) -> None:
        self._step_scheduled = False
        if self._parts is None or self._failed:
            return
        try:
            self._parts.engine.advance()
            if not self._is_writing:
                self._persist(self._parts)
        except Exception as error:  # noqa: BLE001  Whatever it is, this voter must not speak or vote again.
            self._fail(f"{type(error).__name__}: {error}")

    def _persist(self, parts: _Parts) -> None:
        """Everything that was said so far leaves when all that was added so far is durable. No write is under way."""
        parts.transport.hold()
        write = parts.journal.next_write()
        if write is None:
            self._speak(parts)
            return
        self._is_writing = True
        carry_out, to_disk = parts.journal.carry_out, write
        self._world.journal_thread.start(lambda: carry_out(to_disk), lambda written: self._written(parts, written))

    def _written(self, parts: _Parts, written: Future[None]) -> None:
        self._is_writing = False
        if self._parts is not parts or self._failed:
            return
        error = written.exception()
        if error is not None:
            self._fail(f"{type(error).__name__}: {error}")
            return
        parts.journal.written()
        self._speak(parts)
        if not self._failed:
            # What was added while that was written.
            self._step()

    def _speak(self, parts: _Parts) -> None:
        """Sends held messages and reports committed entries that are durable."""
        parts.transport.release()
        while self._committed and self._committed[0][0] <= parts.journal.synced_index and not self._failed:
            self._tell(*self._committed.popleft())
        incoming = self._incoming
        # A snapshot beside a term that was not written yet would look like one beside a journal that was lost.
        if incoming is not None and not incoming.is_under_way and parts.journal.synced:
            self._keep_snapshot(incoming)

    def _on_messages(self, sender: int, messages: list[Message]) -> None:
        """Raises BadMessage."""
        if self._parts is None or self._failed:
            return
        self._parts.links[sender].heard()
        try:
            self._parts.transport.receive(sender, messages)
        except BadMessage:
            # Its sender is told, and this voter is none the worse.
            raise
        except Exception as error:  # noqa: BLE001  Whatever it is, this voter must not speak or vote again.
            self._fail(f"{type(error).__name__}: {error}")
        if messages:
            self._schedule_step()

    def _on_link_up(self, peer: int) -> None:
        if self._parts is not None:
            self._parts.transport.link_up(peer)
            self._schedule_step()

    def _on_link_down(self, peer: int) -> None:
        if self._parts is not None:
            self._parts.transport.link_down(peer)

    def _on_link_room(self, peer: int) -> None:
        if self._parts is not None:
            self._parts.transport.link_has_room(peer)
            self._schedule_step()

    def _fail(self, reason: str) -> None:
        if self._failed:
            return
        log.error("quorum voter failed", node=self._config.node_id, reason=reason)
        self._fall_silent(f"this voter failed: {reason}")
        self._fatal(f"the metadata quorum of node {self._config.node_id} cannot go on: {reason}")

    def _fall_silent(self, reason: str) -> None:
        self._failed = True
        for timer in (self._next_beat, self._linger_end):
            if timer is not None:
                timer.cancel()
        self._withdraw_leadership(reason)

    # --- what the engine tells ---------------------------------------------------------------------------------------

    def _on_apply(self, index: int, term: int, data: bytes) -> None:
        """Told when the entry is on this voter's disk: with one voter the engine takes its own copy for a majority as
        soon as it is added. Never raises, or the engine would apply the entry again, and again."""
        self._committed.append((index, term, data))

    def _tell(self, index: int, term: int, data: bytes) -> None:
        self._told_index = index
        try:
            entry = command.decode(data)
            if entry is not None:
                self._apply(index, term, entry)
        except Exception as error:  # noqa: BLE001  The entry counts on the other voters; here nothing may follow it.
            self._fail(f"entry {index} could not be applied: {type(error).__name__}: {error}")

    def _apply(self, index: int, term: int, entry: Command) -> None:
        answer = self._pending.get(entry.request_id)
        if entry.decided_term != term:
            # Its author led in another term and decided on a state that others have changed since.
            if answer is not None and not answer.done():
                answer.set_exception(NotLeader("the payload was stored in a later term and is void", self.leader_id))
            return
        if entry.kind is CommandKind.PAYLOAD:
            self._listener.on_committed(index, term, entry.payload)
        elif entry.request_id == self._leadership_request:
            self._announce_leadership(term)
        if answer is not None and not answer.done():
            answer.set_result(index)

    def _on_leading(self, leads: bool) -> None:
        assert self._parts is not None, "the engine changes its state only in a step"
        if self._failed:
            return
        if not leads:
            self._withdraw_leadership("leadership was lost")
            return
        self._parts.transport.acknowledgements.begin(self.term)
        self._leadership_request = self._new_request_id()
        self._append(Command(kind=CommandKind.BARRIER, decided_term=self.term, request_id=self._leadership_request))

    def _announce_leadership(self, term: int) -> None:
        assert self._parts is not None, "entries are applied only in a step"
        if self._parts.engine.leading and term == self.term:
            self._leadership_term = term
            log.info("raft leadership gained", node=self._config.node_id, term=term)
            self._listener.on_leadership(term)

    def _withdraw_leadership(self, reason: str) -> None:
        self._leadership_request = b""
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(ProposalUnknown(f"{reason} before the quorum's answer"))
        if self._leadership_term is not None:
            log.info("raft leadership lost", node=self._config.node_id, term=self._leadership_term, reason=reason)
            self._leadership_term = None
            self._listener.on_leadership(None)


@dataclass(slots=True)
class _IncomingSnapshot:
    """Sent by the leader of a term."""

    sender: int
    term: int
    snapshot: Snapshot
    is_under_way: bool = False
    """It is on its way to the disk; before that, it waits for the journal."""


class _Parts:
    """What exists between start and stop."""

    def __init__(
        self,
        journal: QuorumJournal,
        transport: QuorumTransport,
        engine: RaftEngine,
        links: dict[int, PeerLink],
    ) -> None:
        self.journal = journal
        self.transport = transport
        self.engine = engine
        self.links = links

    def deliver(self, peer: int, messages: list[Message]) -> None:
        self.links[peer].send(messages)

    def room_bytes(self, peer: int) -> int:
        return self.links[peer].room_bytes
