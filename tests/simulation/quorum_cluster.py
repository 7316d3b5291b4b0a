"""Voters on simulated disks, clocks and networks: the real quorum with the real engine, in one thread and one process.

The engine reads time, random numbers and its poller from its module; they are replaced while a cluster is open.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import Context, copy_context
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeVar
from unittest.mock import patch

import structlog
from pysyncobj import syncobj

from kraft.model.callbacks import Fatal
from kraft.model.errors import Corruption
from kraft.quorum import engine, journal_segments
from kraft.quorum.config import APPEND_BATCH_BYTES, QuorumConfig, VoterAddress
from kraft.quorum.engine import RaftEngine
from kraft.quorum.handshake import Greeting
from kraft.quorum.journal import QuorumJournal
from kraft.quorum.messages import Message
from kraft.quorum.peer_link import PeerLink
from kraft.quorum.peer_security import PeerSecurity
from kraft.quorum.port import NotLeader, ProposalUnknown, QuorumListener
from kraft.quorum.raft_quorum import RaftQuorum
from kraft.quorum.voter_resources import VoterResources
from tests.simulation.quorum_invariants import History, Invariant, Violation
from tests.simulation.quorum_loop import LIFE, Life, VirtualLoop
from tests.simulation.quorum_network import Network, SimLink
from tests.simulation.quorum_snapshots import SimKeeper
from tests.simulation.quorum_world import DriftingClock, NullPoller, SeededBytes
from tests.support.disks.sim_content import CrashMode
from tests.support.disks.sim_disk import PowerFailure, SimDisk
from tests.support.no_snapshots import NoSnapshots

Result = TypeVar("Result")

BARRIER_SHARE = 0.1
STALE_PROPOSAL_SHARE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The settings of a run."""

    voter_count: int = 3
    append_batch_bytes: int = APPEND_BATCH_BYTES
    """Small, so that the engine sends a follower's missing entries in many pieces."""
    election_timeout_ms_min: int = 200
    election_timeout_ms_max: int = 400
    fetch_timeout_ms: int = 0
    election_backoff_ms_max: int = 0
    append_linger_ms: int = 0
    clock_drift: float = 0.0
    """Clocks run faster or slower by up to this fraction."""
    payload_bytes_max: int = 100
    pause_s_max: float = 0.1
    """The longest pause between two proposals of one client."""
    clients: int = 2
    link_bytes_per_s: int = 0
    """Bandwidth of a link, 0 for unlimited; bytes that wait are limited to about the window."""
    link_window_bytes: int = 2_000
    segment_bytes: int = journal_segments.SEGMENT_BYTES
    """Size of a journal segment; small segments are many, and are removed often."""
    disk_s_max: float = 0.0
    """The longest that a write waits for its thread, and its completion for the event loop."""
    entries_between_snapshots: int = 0
    """Entries between two snapshots of a voter; 0 for no snapshots."""


class SimulatedQuorum(RaftQuorum):
    """The quorum under test, with simulated links."""

    def __init__(
        self,
        *,
        network: Network,
        life: Life,
        config: QuorumConfig,
        world: VoterResources,
        listener: QuorumListener,
        fatal: Fatal,
        snapshots: SimKeeper | NoSnapshots,
    ) -> None:
        security = PeerSecurity()
        super().__init__(
            config=config, resources=world, listener=listener, fatal=fatal, security=security, snapshots=snapshots
        )
        self._network = network
        self._life = life
        self.links: dict[int, SimLink] = {}

    def _link_to(self, peer: int) -> PeerLink:
        told = (self._on_link_up, self._on_link_down, self._on_link_room)
        self.links[peer] = SimLink(self._network, self._life, peer, *told, self._greetings)
        return self.links[peer]  # type: ignore[return-value]  # It does what the quorum asks of a link.

    @property
    def is_open(self) -> bool:
        return self._parts is not None and not self._failed

    @property
    def engine(self) -> RaftEngine:
        assert self._parts is not None
        return self._parts.engine

    @property
    def journal(self) -> QuorumJournal:
        assert self._parts is not None
        return self._parts.journal

    def take(self, sender: int, messages: list[Message]) -> None:
        self._on_messages(sender, messages)

    def greeted(self, sender: int, greeting: Greeting) -> None:
        self._greetings.received(sender, greeting)
        self._on_hello(sender)

    def greeting(self) -> Greeting:
        return self._greetings.ours()


class SimDiskThread:
    """Does work after a delay and reports its end after another, within the life of the voter."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._free_at_s = 0.0

    def start(self, work: Callable[[], Result], done: Callable[[Future[Result]], None], /) -> None:
        loop = self._cluster.loop
        begins_s = max(self._free_at_s, loop.now_s) + self._delay_s()
        self._free_at_s = begins_s + self._delay_s()

        def carry_out() -> None:
            ended: Future[Result] = Future()
            try:
                ended.set_result(work())
            except PowerFailure:
                raise
            except Exception as error:  # noqa: BLE001  As a thread pool does.
                ended.set_exception(error)
            loop.call_at(max(self._free_at_s, loop.now_s), done, ended)

        loop.call_at(begins_s, carry_out)

    def _delay_s(self) -> float:
        slow_s = self._cluster.shape.disk_s_max
        return self._cluster.random.uniform(0, slow_s) if slow_s else 0.0

    def be_busy_for(self, seconds: float) -> None:
        self._free_at_s = self._cluster.loop.now_s + seconds

    async def close(self) -> None:
        """Does nothing: simulated voters are only killed."""


class RunningVoter:
    """One life of a voter, and of the clients that propose through it while it leads."""

    def __init__(self, cluster: Cluster, node_id: int, life: Life) -> None:
        self.life = life
        self.context: Context = copy_context()
        self.context.run(LIFE.set, life)
        self.watch = cluster.history.voter_started(node_id)
        self.failure: str | None = None
        self._cluster = cluster
        self._coroutines: list[Coroutine[object, object, object]] = []
        self._quorum: SimulatedQuorum | None = None
        self._keeper: SimKeeper | None = None
        self.journal_thread, self.snapshot_thread = SimDiskThread(cluster), SimDiskThread(cluster)
        self._reported_since_snapshot = 0
        cluster.loop.call_soon(self._start, context=self.context)

    @property
    def quorum(self) -> SimulatedQuorum:
        assert self._quorum is not None, "used before it was created"
        return self._quorum

    @property
    def keeper(self) -> SimKeeper:
        assert self._keeper is not None, "the shape has no snapshots"
        return self._keeper

    @property
    def is_open(self) -> bool:
        return self._quorum is not None and self._quorum.is_open

    def _start(self) -> None:
        try:
            self._open()
        except (OSError, Corruption) as error:
            self.failure = f"{type(error).__name__}: {error}"

    def _open(self) -> None:
        cluster, node_id = self._cluster, self.life.node_id
        disk = cluster.disks[node_id]
        if cluster.shape.entries_between_snapshots:
            self._keeper = SimKeeper(disk, self.watch)
        clock, entropy = DriftingClock(cluster.loop, self.life), SeededBytes(cluster.random)
        self._quorum = SimulatedQuorum(
            network=cluster.network,
            life=self.life,
            config=cluster.config(node_id),
            world=VoterResources(
                disk=disk,
                clock=clock,
                entropy=entropy,
                journal_thread=self.journal_thread,
                snapshot_thread=self.snapshot_thread,
            ),
            listener=self,
            fatal=self._fatal,
            snapshots=self._keeper or NoSnapshots(),
        )
        try:
            self._quorum.start().send(None)
        except StopIteration:
            # A start waits for nothing, so it runs to its end in one piece.
            cluster.network.receivers[node_id] = self
        else:
            raise AssertionError("the start of a voter waits")

    def spawn(self, coroutine: Coroutine[object, object, object]) -> None:
        """Run a task that ends with this life."""
        self._coroutines.append(coroutine)
        self._cluster.loop.call_soon(self._cluster.loop.create_task, coroutine, context=self.context)

    def end(self) -> None:
        self.life.is_dead = True
        for coroutine in self._coroutines:
            # Python warns of those that never began. The others stay as they are: a killed process cleans up nothing.
            if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
                coroutine.close()

    # --- from the network ----------------------------------------------------------------------------------------

    def receive(self, sender: int, messages: list[Message]) -> None:
        self._cluster.loop.call_soon(self.quorum.take, sender, messages, context=self.context)

    def greeting(self) -> Greeting:
        return self.quorum.greeting()

    def greet(self, sender: int, greeting: Greeting) -> None:
        if sender in self.quorum.links:
            self._cluster.loop.call_soon(self.quorum.greeted, sender, greeting, context=self.context)

    # --- from the quorum -----------------------------------------------------------------------------------------

    def on_committed(self, index: int, term: int, payload: bytes) -> None:
        self.watch.reported(index, term, payload)
        self._reported_since_snapshot += 1
        if self._keeper is not None and self._reported_since_snapshot >= self._cluster.shape.entries_between_snapshots:
            self._reported_since_snapshot = 0
            if self._keeper.capture(index, term, self.watch.state_hash):
                self._cluster.loop.call_later(self._cluster.random.uniform(0, 0.1), self._write_snapshot, self._keeper)

    def _write_snapshot(self, keeper: SimKeeper) -> None:
        """Write the snapshot later than it was captured, as a thread beside the event loop does."""
        try:
            self.quorum.forget_entries_to(keeper.write())
        except OSError as error:
            self._fatal(str(error))

    def on_leadership(self, term: int | None) -> None:
        self.watch.leadership(term)
        if term is not None:
            for _ in range(self._cluster.shape.clients):
                self.spawn(self._propose_during(term))

    def _fatal(self, reason: str) -> None:
        self.failure = reason

    # --- clients ---------------------------------------------------------------------------------------------------

    async def _propose_during(self, term: int) -> None:
        """Propose during the term and for a while after it: a refusal shows a client that the term has ended."""
        cluster, random = self._cluster, self._cluster.random
        refusals = 0
        while refusals < 3:
            await asyncio.sleep(random.uniform(0, cluster.shape.pause_s_max))
            if cluster.is_quiet:
                continue
            if random.random() < BARRIER_SHARE:
                await self._ask_for_barrier(random.uniform(0.05, 2.0))
                continue
            stale = random.random() < STALE_PROPOSAL_SHARE
            refusals += not await self.propose(term - stale, random.uniform(0.05, 2.0)) and not stale

    async def propose(self, term: int, deadline_s: float) -> bool:
        """Return False if the payload was refused."""
        payload = self._cluster.new_payload()
        history = self._cluster.history
        try:
            index = await self.quorum.propose(payload, term, deadline_s)
        except NotLeader:
            history.refused(payload)
            return False
        except ProposalUnknown:
            return True
        history.acknowledged(index, payload)
        return True

    async def _ask_for_barrier(self, deadline_s: float) -> None:
        expected = self._cluster.history.highest_acknowledged
        try:
            index = await self.quorum.barrier(deadline_s)
        except (NotLeader, ProposalUnknown):
            return
        self.watch.barrier(index, expected)


class Cluster:
    """Voters, their disks and their network; closed by `open_cluster`."""

    def __init__(self, random: Random, shape: Shape) -> None:
        self.shape = shape
        self.random = random
        self.loop = VirtualLoop()
        self.context = copy_context()
        """Belongs to no life."""
        self.network = Network(self.loop, random)
        if shape.link_bytes_per_s:
            self.network.link_bytes_per_s = shape.link_bytes_per_s
            self.network.link_window_bytes = shape.link_window_bytes
        self.history = History(shape.voter_count)
        self.network.on_send = self.history.sent
        self.node_ids = tuple(range(1, shape.voter_count + 1))
        self.disks = {node_id: SimDisk() for node_id in self.node_ids}
        self.voters: dict[int, RunningVoter] = {}
        """The running voters."""
        self.is_quiet = False
        """While set, clients propose nothing."""
        self.on_death: Callable[[int], None] = lambda _node_id: None
        self.tolerated_failures: set[int] = set()
        """Voters whose disk was made to fail; no other voter may stop with an error."""
        self.power_losses: Sequence[CrashMode] = (CrashMode.DROP, CrashMode.TEAR, CrashMode.REORDER)
        """The crash modes of a disk whose power fails in the middle of an operation."""
        self._payload_count = 0
        self._voters_config = {node: VoterAddress(host="sim", port=node) for node in self.node_ids}

    # --- power -----------------------------------------------------------------------------------------------------

    def start(self, node_id: int) -> RunningVoter:
        assert node_id not in self.voters, f"voter {node_id} runs"
        rate = 1 + self.random.uniform(-self.shape.clock_drift, self.shape.clock_drift)
        voter = RunningVoter(self, node_id, Life(node_id, rate))
        self.voters[node_id] = voter
        return voter

    def start_all(self) -> None:
        for node_id in self.node_ids:
            if node_id not in self.voters:
                self.start(node_id)

    def kill(self, node_id: int, mode: CrashMode = CrashMode.KEEP) -> None:
        """End the process; in any mode but KEEP, cut the power of its machine."""
        voter = self.voters.pop(node_id)
        self.network.receivers.pop(node_id, None)
        voter.end()
        self.disks[node_id].crash(mode, self.random)
        if mode is CrashMode.KEEP:
            # The machine still runs and resets the streams; a machine without power sends nothing.
            for other in self.voters.values():
                if other.is_open and self.network.reaches(node_id, other.life.node_id):
                    self.loop.call_soon(other.quorum.links[node_id].reset, context=other.context)

    def lose_directory(self, node_id: int) -> None:
        """Take a voter's directory away; it comes back with an empty one. Its process, if it runs, ends."""
        if node_id in self.voters:
            self.kill(node_id)
            self.on_death(node_id)
        self.disks[node_id] = SimDisk()
        self.history.directory_lost(node_id)

    @property
    def may_lose_a_directory(self) -> bool:
        """Return whether every voter counts, so that one of them may lose its directory."""
        return all(disk.counts for disk in self.history.disks.values())

    def freeze(self, node_id: int, duration_s: float) -> None:
        self.voters[node_id].life.frozen_until_s = self.loop.now_s + duration_s

    # --- time --------------------------------------------------------------------------------------------------------

    def run_for(self, duration_s: float) -> None:
        self.loop.run_until(self.loop.now_s + duration_s, self._after_callback)

    def run_until(self, condition: Callable[[], bool], limit_s: float) -> bool:
        """Run until the condition holds, checked after every event; return whether it did within the limit."""

        def after(life: Life | None) -> bool:
            return self._after_callback(life) or condition()

        return condition() or self.loop.run_until(self.loop.now_s + limit_s, after)

    def _after_callback(self, life: Life | None) -> bool:
        if self.history.violations:
            raise self.history.violations[0]
        if self.loop.problems:
            raise Violation(Invariant.VOTERS_GO_ON, self.loop.problems[0])
        if life is None or life.is_dead:
            return False
        voter = self.voters[life.node_id]
        if self.disks[life.node_id].is_off:
            self._lose_power(life.node_id)
        elif voter.failure is not None:
            if life.node_id not in self.tolerated_failures:
                raise Violation(Invariant.VOTERS_GO_ON, f"voter {life.node_id} stopped: {voter.failure}")
            self.kill(life.node_id)
            self.on_death(life.node_id)
        elif voter.is_open:
            voter.watch.check(voter.quorum.engine, voter.quorum.journal)
        return False

    def _lose_power(self, node_id: int) -> None:
        self.kill(node_id, self.random.choice(self.power_losses))
        self.on_death(node_id)

    # --- questions ---------------------------------------------------------------------------------------------------

    def config(self, node_id: int) -> QuorumConfig:
        return QuorumConfig(
            node_id=node_id,
            cluster_id="simulated",
            voters=self._voters_config,
            directory=Path("metadata"),
            election_timeout_ms_min=self.shape.election_timeout_ms_min,
            election_timeout_ms_max=self.shape.election_timeout_ms_max,
            fetch_timeout_ms=self.shape.fetch_timeout_ms,
            election_backoff_ms_max=self.shape.election_backoff_ms_max,
            append_linger_ms=self.shape.append_linger_ms,
        )

    def new_payload(self) -> bytes:
        self._payload_count += 1
        padding = self.random.randrange(self.shape.payload_bytes_max)
        return b"%d " % self._payload_count + bytes(padding)

    def leader(self) -> RunningVoter | None:
        """The voter with the highest term among those that consider themselves leader."""
        leading = [voter for voter in self.voters.values() if voter.is_open and voter.quorum.is_leader]
        return max(leading, key=lambda voter: voter.quorum.term, default=None)

    def are_equal(self) -> bool:
        """Return whether every voter runs, may vote, has applied every committed entry, and has the same log."""
        running = [voter.quorum for voter in self.voters.values() if voter.is_open]
        if len(running) < self.shape.voter_count:
            return False
        ends = {(quorum.journal.last_index, quorum.last_applied, quorum.term) for quorum in running}
        if not all(disk.counts for disk in self.history.disks.values()):
            return False
        return len(ends) == 1 and running[0].last_applied == running[0].journal.last_index


@contextmanager
def open_cluster(random: Random, shape: Shape) -> Iterator[Cluster]:
    cluster = Cluster(random, shape)
    logging_configuration = structlog.get_config()
    engine_log = logging.getLogger("pysyncobj.syncobj")
    engine_was_disabled = engine_log.disabled
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    engine_log.disabled = True

    def engine_time() -> float:
        life = LIFE.get()
        assert life is not None, "the engine runs in the life of a voter"
        return cluster.loop.now_s * life.clock_rate

    try:
        with (
            patch.object(syncobj, "monotonicTime", engine_time),
            patch.object(syncobj, "random", random),
            patch.object(syncobj, "createPoller", NullPoller),
            patch.object(engine, "APPEND_BATCH_BYTES", shape.append_batch_bytes),
            patch.object(journal_segments, "SEGMENT_BYTES", shape.segment_bytes),
        ):
            yield cluster
    finally:
        for voter in cluster.voters.values():
            voter.end()
        cluster.loop.close()
        structlog.configure(**logging_configuration)
        engine_log.disabled = engine_was_disabled
