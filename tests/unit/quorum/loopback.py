"""Voters in one process that talk over real gRPC on the loopback interface, with a network that can be cut."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc

from kraft.local.free_ports import ReservedPorts
from kraft.quorum.config import QuorumConfig, VoterAddress
from kraft.quorum.messages import Message
from kraft.quorum.peer_link import SERVER_OPTIONS
from kraft.quorum.peer_security import PeerSecurity
from kraft.quorum.raft_quorum import RaftQuorum
from kraft.quorum.voter_resources import VoterResources
from kraft.runtime.clock import SystemClock
from kraft.runtime.disk import RealDisk
from kraft.runtime.entropy import SystemEntropy
from tests.support.no_snapshots import NoSnapshots

DEADLINE_S = 60.0

ELECTION_TIMEOUT_MS_MIN, ELECTION_TIMEOUT_MS_MAX = 500, 1_000


def real_world() -> VoterResources:
    return VoterResources(disk=RealDisk(), clock=SystemClock(), entropy=SystemEntropy())


def addresses(ports: list[int]) -> dict[int, VoterAddress]:
    """Return the addresses of voters 1, 2 and so on."""
    return {node_id: VoterAddress(host="127.0.0.1", port=port) for node_id, port in enumerate(ports, start=1)}


class RecordingListener:
    """Keeps what it was told, in order: payloads, and in between the terms of leadership, or None."""

    def __init__(self) -> None:
        self.events: list[bytes | int | None] = []
        self.indexes: list[int] = []

    def on_committed(self, index: int, term: int, payload: bytes) -> None:
        self.events.append(payload)
        self.indexes.append(index)

    def on_leadership(self, term: int | None) -> None:
        self.events.append(term)

    @property
    def payloads(self) -> list[bytes]:
        return [event for event in self.events if isinstance(event, bytes)]


class Voter:
    def __init__(self, config: QuorumConfig, cuts: set[tuple[int, int]]) -> None:
        self.config = config
        self.listener = RecordingListener()
        self.fatal_reasons: list[str] = []
        self.quorum = RaftQuorum(
            config=config,
            resources=real_world(),
            listener=self.listener,
            fatal=self.fatal_reasons.append,
            security=PeerSecurity(),
            snapshots=NoSnapshots(),
        )
        self._server = grpc.aio.server(options=SERVER_OPTIONS)
        self._gate_network(cuts)

    def _gate_network(self, cuts: set[tuple[int, int]]) -> None:
        """Drop messages that the service receives over a cut link."""
        open_service = self.quorum.service.open

        def open_gated(receive: Callable[[int, list[Message]], None], on_hello: Callable[[int], None]) -> None:
            def receive_unless_cut(sender: int, messages: list[Message]) -> None:
                if (sender, self.config.node_id) not in cuts:
                    receive(sender, messages)

            open_service(receive_unless_cut, on_hello)

        self.quorum.service.open = open_gated  # type: ignore[method-assign]  # The one place where the network is faked.

    async def start(self) -> None:
        self.quorum.service.add_to(self._server)
        assert self._server.add_insecure_port(str(self.config.voters[self.config.node_id]))
        await self._server.start()
        await self.quorum.start()

    async def stop(self) -> None:
        await self.quorum.stop()
        await self._server.stop(None)


class LoopbackCluster:
    def __init__(self, directory: Path, voter_count: int) -> None:
        # For as long as the cluster exists: a voter that is down must find its port again.
        self._reserved = ReservedPorts(voter_count)
        self._addresses = addresses(self._reserved.ports)
        self._directory = directory
        self._cuts: set[tuple[int, int]] = set()
        self.voters: dict[int, Voter] = {}

    def make_voter(self, node_id: int) -> Voter:
        config = QuorumConfig(
            node_id=node_id,
            cluster_id="cluster-under-test",
            voters=self._addresses,
            directory=self._directory / str(node_id),
            election_timeout_ms_min=ELECTION_TIMEOUT_MS_MIN,
            election_timeout_ms_max=ELECTION_TIMEOUT_MS_MAX,
        )
        return Voter(config, self._cuts)

    async def start(self, node_id: int) -> Voter:
        voter = self.make_voter(node_id)
        self.voters[node_id] = voter
        await voter.start()
        return voter

    async def start_all(self) -> None:
        for node_id in self._addresses:
            await self.start(node_id)

    async def stop(self, node_id: int) -> None:
        await self.voters.pop(node_id).stop()

    async def stop_all(self) -> None:
        for node_id in list(self.voters):
            await self.stop(node_id)

    def isolate(self, node_id: int) -> None:
        """The voter neither hears nor is heard; its streams stay up, as with a network that swallows packets."""
        for other in self._addresses:
            self._cuts |= {(node_id, other), (other, node_id)}

    def heal(self) -> None:
        self._cuts.clear()

    async def leader(self, among: Iterable[int] | None = None) -> Voter:
        node_ids = list(self.voters if among is None else among)
        await until(lambda: any(self.voters[node_id].quorum.is_leader for node_id in node_ids))
        return next(self.voters[node_id] for node_id in node_ids if self.voters[node_id].quorum.is_leader)

    async def until_all_told(self, payloads: list[bytes]) -> None:
        await until(lambda: all(voter.listener.payloads == payloads for voter in self.voters.values()))


@asynccontextmanager
async def running_cluster(directory: Path, voter_count: int = 3) -> AsyncIterator[LoopbackCluster]:
    cluster = LoopbackCluster(directory, voter_count)
    try:
        await cluster.start_all()
        yield cluster
    finally:
        await cluster.stop_all()


async def propose(voter: Voter, payload: bytes) -> int:
    return await voter.quorum.propose(payload, voter.quorum.term, DEADLINE_S)


async def until(condition: Callable[[], bool]) -> None:
    """There is nothing to wait on from outside a voter, so this looks again and again, up to a deadline."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"not within {DEADLINE_S} s")
        await asyncio.sleep(0.005)
