"""One voter: drives the engine on the event loop, between the journal, the links and the listener.

A step takes the messages and proposals that have arrived and lets the engine decide. What it adds to the journal is
written in a thread, one write after the other; each write takes everything added meanwhile. The messages of a
step are held until everything that the step added is durable, and the listener gets only durable entries. A step runs
at once after every message and proposal, and when the engine has something to do: an append, or an election.
"""

from __future__ import annotations

import asyncio
import math
from concurrent.futures import Future
from typing import Final

import structlog

from kraft.model.callbacks import Callback, Fatal
from kraft.model.errors import KraftError
from kraft.quorum import command
from kraft.quorum.apply_queue import ApplyQueue
from kraft.quorum.command import CommandKind, EntryCommand
from kraft.quorum.config import QuorumConfig
from kraft.quorum.counts import QuorumCounts
from kraft.quorum.engine import RaftEngine
from kraft.quorum.handshake import Greeting, Greetings
from kraft.quorum.journal import QuorumJournal, join_snapshot, settle_membership
from kraft.quorum.membership import INCARNATION_BYTES, Membership
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
from kraft.quorum.running_voter import ArrivedSnapshot, RunningVoter
from kraft.quorum.service import RaftService
from kraft.quorum.snapshot_transfer import SnapshotKeeper
from kraft.quorum.snapshots import Snapshot
from kraft.quorum.standing import Standing
from kraft.quorum.transport import QuorumTransport
from kraft.quorum.voter_resources import VoterResources

log = structlog.get_logger(__name__)

CLOCK_SLACK_S: Final = 0.001
"""The engine reads another clock than the event loop; without slack it would often be called just before its time."""


class RaftQuorum:
    """Implements the Quorum port. `service` must be on the CONTROLLER listener before `start`."""

    def __init__(
        self,
        *,
        config: QuorumConfig,
        resources: VoterResources,
        listener: QuorumListener,
        fatal: Fatal,
        security: PeerSecurity,
        snapshots: SnapshotKeeper,
    ) -> None:
        self._committed = ApplyQueue(self._apply_entry)
        self._applied_index = 0
        self._is_writing = False
        self._incoming: ArrivedSnapshot | None = None
        self._process_id = resources.entropy.bytes(command.REQUEST_ID_BYTES // 2)
        self._greetings = Greetings(ours=self._greeting, received=self._on_greeting)
        self._security = security
        self._snapshots = snapshots
        self.counts = QuorumCounts()
        self.service = RaftService(config, security, self._greetings, self.counts)
        self._config = config
        self._resources = resources
        self._began_ms = resources.clock.monotonic_ms()
        self._listener = listener
        self._fatal = fatal
        self._opened: tuple[QuorumJournal, Membership] | None = None
        self._parts: RunningVoter | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next_beat: asyncio.TimerHandle | None = None
        self._step_scheduled = False
        self._lingering: list[bytes] = []
        """Proposals that wait to share a sync with later ones."""
        self._linger_end: asyncio.TimerHandle | None = None
        self._failed = False
        self._leadership_term: int | None = None
        self._leadership_request = b""
        self._pending: dict[bytes, asyncio.Future[int]] = {}
        self._request_count = 0

    # --- life ------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Open the journal for `start`. Blocks, in any thread. Raises Corruption and MembershipRefused."""
        journal = QuorumJournal(self._config.directory, self._resources.disk)
        try:
            membership = settle_membership(
                journal, self._config, lambda: self._resources.entropy.bytes(INCARNATION_BYTES)
            )
            join_snapshot(journal, self._snapshots.start_id)
        except BaseException:
            journal.close()
            raise
        self._opened = journal, membership

    async def start(self) -> None:
        """Take part. Opens the journal if that was not done, and raises as `open`."""
        assert self._parts is None, "started twice"
        self._loop = asyncio.get_running_loop()
        if self._opened is None:
            self.open()
        assert self._opened is not None, "it was opened"
        journal, membership = self._opened
        standing = Standing(self._config, membership, journal, is_confirmed=journal.membership is not None)
        transport = QuorumTransport(self._config, journal, self._resources.clock, standing)
        transport.append_barrier = self._append_barrier
        engine = RaftEngine(self._config, journal, transport, self._committed.add, self._on_leading)
        links = {peer: self._link_to(peer) for peer in self._config.peer_ids}
        self._applied_index = journal.start_index
        self._parts = RunningVoter(
            journal, transport, engine, links, node_id=self._config.node_id, clock=self._resources.clock
        )
        transport.attach(engine, self._parts)
        transport.latest_snapshot, transport.install_snapshot = self._snapshots.latest, self._install_snapshot
        for link in links.values():
            link.start()
        self.service.open(self._on_messages, self._on_hello)
        self._step()
        log.info("quorum voter started", node=self._config.node_id, entries=journal.last_index, term=self.term)

    async def stop(self) -> None:
        parts = self._parts
        if parts is None:
            return
        self._halt("this voter was stopped")
        self._parts = None
        await self.service.close()
        for link in parts.links.values():
            await link.stop()
        # What they report from now on is ignored.
        await self._resources.journal_thread.close()
        await self._resources.snapshot_thread.close()
        parts.engine.destroy()

    def _link_to(self, peer: int) -> PeerLink:
        return PeerLink(
            self._config,
            peer,
            self._on_link_up,
            self._on_link_down,
            self._on_link_room,
            self._security,
            self._greetings,
            self.counts,
        )

    # --- snapshots ---------------------------------------------------------------------------------------------------

    def forget_entries_to(self, index: int) -> None:
        """Drop the entries up to `index`, which two durable snapshots contain. A voter that lags gets a snapshot."""
        if self._parts is None or self._failed:
            return
        assert index <= self.last_applied, f"entry {index} is not applied; entry {self.last_applied} is the last"
        self._parts.journal.begin_trim(index)
        self._schedule_step()

    def _install_snapshot(self, sender: int, term: int, snapshot: Snapshot) -> None:
        """Install a snapshot once everything in the journal is durable; one at a time."""
        if self._incoming is None:
            self._incoming = ArrivedSnapshot(sender, term, snapshot)
        else:
            # The sender gets no response, and sends it again.
            reason = "another one is being installed"
            log.info("snapshot ignored", node=self._config.node_id, index=snapshot.id.index, reason=reason)

    def _keep_snapshot(self, incoming: ArrivedSnapshot) -> None:
        incoming.is_under_way = True
        keep, snapshot = self._snapshots.keep, incoming.snapshot
        self._resources.snapshot_thread.start(lambda: keep(snapshot), lambda kept: self._snapshot_kept(incoming, kept))

    def _snapshot_kept(self, incoming: ArrivedSnapshot, kept: Future[Callback]) -> None:
        self._incoming = None
        if self._parts is None or self._failed:
            return
        try:
            self._restore(incoming.snapshot, kept.result())
        except Exception as error:  # noqa: BLE001  After any error, this voter must not send or vote again.
            self._fail(f"{type(error).__name__}: {error}")
            return
        self._parts.transport.snapshot_installed(incoming.sender, incoming.term, incoming.snapshot.id.index)
        self._schedule_step()

    def _restore(self, snapshot: Snapshot, restore: Callback) -> None:
        assert self._parts is not None, "called between start and stop"
        index, term = snapshot.id.index, snapshot.id.term
        if index <= self._parts.engine.raftLastApplied:
            # The entries arrived while the snapshot was written.
            return
        log.info("snapshot installed", node=self._config.node_id, index=index, last_applied=self.last_applied)
        self._committed.clear()
        restore()
        self._applied_index = index
        self._parts.journal.begin_rebase(index, term)
        self._parts.engine.skip_to(index)

    # --- the port ----------------------------------------------------------------------------------------------------

    async def propose(self, payload: bytes, term: int, deadline_s: float) -> int:
        if len(payload) > self._config.payload_bytes_max:
            raise PayloadTooLarge(len(payload), self._config.payload_bytes_max)
        if self._leadership_term != term:
            raise NotLeader(f"node {self._config.node_id} is not the leader in term {term}", self.leader_id)
        return await self._submit(CommandKind.PAYLOAD, payload, term, deadline_s)

    async def barrier(self, deadline_s: float) -> int:
        if self._leadership_term is None:
            raise NotLeader(f"node {self._config.node_id} is not the leader", self.leader_id)
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
        return 0 if self._parts is None else self._applied_index

    def describe(self) -> QuorumStatus:
        return QuorumStatus(
            leader_id=self.leader_id,
            term=self.term,
            commit_index=self.commit_index,
            voters=tuple(self._describe_voter(voter) for voter in sorted(self._config.voters)),
            fetch_timeout_ms=self._config.fetch_timeout_range_ms[1],
            running_ms=self._resources.clock.monotonic_ms() - self._began_ms,
            voted_for=None if self._parts is None else self._parts.journal.getVotedForNodeId(),
        )

    def _describe_voter(self, voter: int) -> VoterStatus:
        parts = self._parts
        if parts is None:
            return VoterStatus(node_id=voter, match_index=-1, heard_ms_ago=-1)
        standing, transport = parts.transport.standing, parts.transport
        if voter == self._config.node_id:
            end, is_learner = parts.journal.last_index, standing.membership.is_learner
            return VoterStatus(node_id=voter, match_index=end, heard_ms_ago=0, is_learner=is_learner)
        match_index = transport.acknowledgements.match_index(voter) if parts.engine.leading else -1
        heard_ms_ago, is_learner = transport.heard_ms_ago(voter), standing.is_learner(voter)
        return VoterStatus(node_id=voter, match_index=match_index, heard_ms_ago=heard_ms_ago, is_learner=is_learner)

    async def _submit(self, kind: CommandKind, payload: bytes, term: int, deadline_s: float) -> int:
        assert self._loop is not None, "a leader is started"
        request_id, began_s = self._new_request_id(), self._loop.time()
        answer: asyncio.Future[int] = self._loop.create_future()
        self._pending[request_id] = answer
        try:
            linger_s = self._config.append_linger_ms / 1000 if kind is CommandKind.PAYLOAD else 0
            self._append(EntryCommand(kind=kind, decided_term=term, request_id=request_id, payload=payload), linger_s)
            async with asyncio.timeout(deadline_s):
                index = await answer
            self.counts.committed(self._loop.time() - began_s, self._loop.time())
            return index
        except TimeoutError:
            raise ProposalUnknown(f"the quorum did not commit within {deadline_s:g} s") from None
        finally:
            self._pending.pop(request_id, None)

    def _append(self, entry: EntryCommand, linger_s: float = 0) -> None:
        """Append at the next step; with `linger_s`, at the first one after that time."""
        assert self._parts is not None, "append before start"
        assert self._loop is not None, "append before start"
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
        return self._process_id + self._request_count.to_bytes(command.REQUEST_ID_BYTES // 2, "big")

    # --- steps -------------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        self._next_beat = None
        self._step()

    def _schedule_beat(self, engine: RaftEngine) -> None:
        """Run a step when the engine is due, unless one is scheduled before that."""
        assert self._loop is not None, "beat before start"
        at_s = self._loop.time() + max(engine.due_in_s + CLOCK_SLACK_S, self._config.beat_ms / 1000)
        if self._next_beat is not None:
            if self._next_beat.when() <= at_s:
                return
            self._next_beat.cancel()
        self._next_beat = None if math.isinf(at_s) else self._loop.call_at(at_s, self._beat)

    def _schedule_step(self) -> None:
        """Run a step soon: everything that arrives in this turn of the event loop shares one sync."""
        if not self._step_scheduled and self._loop is not None:
            self._step_scheduled = True
            self._loop.call_soon(self._step)

    def _step(self) -> None:
        self._step_scheduled = False
        if self._parts is None or self._failed:
            return
        try:
            self._parts.engine.advance()
            self._parts.remind()
            if not self._is_writing:
                self._persist(self._parts)
            if not self._failed:
                self._schedule_beat(self._parts.engine)
        except Exception as error:  # noqa: BLE001  After any error, this voter must not send or vote again.
            self._fail(f"{type(error).__name__}: {error}")

    def _persist(self, parts: RunningVoter) -> None:
        """Write everything added so far, then send the messages held so far. No write may be under way."""
        parts.transport.hold()
        write = parts.journal.next_write()
        if write is None:
            self._release(parts)
            return
        self._is_writing = True
        carry_out, to_disk = parts.journal.carry_out, write
        self._resources.journal_thread.start(lambda: carry_out(to_disk), lambda written: self._written(parts, written))

    def _written(self, parts: RunningVoter, written: Future[None]) -> None:
        self._is_writing = False
        if self._parts is not parts or self._failed:
            return
        error = written.exception()
        if error is not None:
            self._fail(f"{type(error).__name__}: {error}")
            return
        parts.journal.written()
        self._release(parts)
        if not self._failed:
            # Write what was added during that write.
            self._step()

    def _release(self, parts: RunningVoter) -> None:
        """Send held messages and pass committed entries that are durable to the listener."""
        parts.transport.release()
        self._committed.apply_up_to(lambda: parts.journal.synced_index)
        incoming = self._incoming
        # A snapshot of a term that the journal on disk does not have yet would look like a lost journal at a start.
        if incoming is not None and not incoming.is_under_way and parts.journal.synced:
            self._keep_snapshot(incoming)

    def _on_messages(self, sender: int, messages: list[Message]) -> None:
        """Take messages from another voter. Raises BadMessage."""
        if self._parts is None or self._failed:
            return
        self._parts.links[sender].heard()
        try:
            self._parts.transport.receive(sender, messages)
        except BadMessage:
            # The sender gets the error; this voter is unharmed.
            raise
        except Exception as error:  # noqa: BLE001  After any error, this voter must not send or vote again.
            self._fail(f"{type(error).__name__}: {error}")
        if messages:
            self._schedule_step()

    def _on_hello(self, peer: int) -> None:
        if self._parts is not None:
            self._parts.links[peer].hello_received()
            self._parts.transport.hello_received(peer)
            self._schedule_step()

    def _greeting(self) -> Greeting:
        return Greeting(process_id=self._process_id) if self._parts is None else self._parts.greeting(self._process_id)

    def _on_greeting(self, peer: int, greeting: Greeting) -> None:
        if self._parts is not None:
            self._parts.transport.greeted(peer, greeting)
            self._schedule_step()

    def _append_barrier(self) -> None:
        request_id = self._new_request_id()
        self._append(EntryCommand(kind=CommandKind.BARRIER, decided_term=self.term, request_id=request_id))

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
        self._halt(f"this voter failed: {reason}")
        self._fatal(f"the quorum voter of node {self._config.node_id} failed: {reason}")

    def _halt(self, reason: str) -> None:
        """Stop taking part: no step, message or vote follows."""
        self._failed = True
        self._committed.clear()
        for timer in (self._next_beat, self._linger_end):
            if timer is not None:
                timer.cancel()
        self._withdraw_leadership(reason)

    # --- called by the engine ----------------------------------------------------------------------------------------

    def _apply_entry(self, index: int, term: int, data: bytes) -> None:
        self._applied_index = index
        try:
            entry = command.decode(data)
            if entry is not None:
                self._apply(index, term, entry)
        except Exception as error:  # noqa: BLE001  The other voters apply it, so this one may apply nothing after it.
            reason = str(error) if isinstance(error, KraftError) else f"{type(error).__name__}: {error}"
            self._fail(f"entry {index} of the metadata log could not be applied: {reason}")

    def _apply(self, index: int, term: int, entry: EntryCommand) -> None:
        answer = self._pending.get(entry.request_id)
        if entry.decided_term != term:
            # The leader that decided it led in another term; others may have changed the state since.
            if answer is not None and not answer.done():
                answer.set_exception(
                    NotLeader("the leader changed before the change was stored, so it was dropped", self.leader_id)
                )
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
            self._withdraw_leadership("this voter lost its leadership")
            return
        self._parts.transport.leadership_begins(self.term)
        self._leadership_request = self._new_request_id()
        self._append(
            EntryCommand(kind=CommandKind.BARRIER, decided_term=self.term, request_id=self._leadership_request)
        )

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
                answer.set_exception(ProposalUnknown(f"{reason} before the quorum committed the change"))
        if self._leadership_term is not None:
            log.info("raft leadership lost", node=self._config.node_id, term=self._leadership_term, reason=reason)
            self._leadership_term = None
            self._listener.on_leadership(None)
