"""One voter of a quorum as a process of its own; while it leads, it measures its own commits on request.

quorum_voter.py NODE_ID DIRECTORY ID=PORT,ID=PORT,...

status                        ->  {"leads": bool, "applied": entries delivered to the listener}
measure WINDOW COUNT BYTES    ->  {"seconds": ..., "latencies_ms": [...]}

One JSON object a line on standard output, for each line on standard input; the end of the input ends the voter.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Final

import grpc
import structlog

from benchmarks.untrimmed import Untrimmed
from kraft.quorum.config import QuorumConfig, VoterAddress
from kraft.quorum.peer_link import SERVER_OPTIONS
from kraft.quorum.peer_security import PeerSecurity
from kraft.quorum.raft_quorum import RaftQuorum
from kraft.quorum.voter_resources import VoterResources
from kraft.runtime.clock import SystemClock
from kraft.runtime.disk import RealDisk
from kraft.runtime.entropy import SystemEntropy

HOST: Final = "127.0.0.1"
CLUSTER: Final = "benchmark"
PROPOSAL_DEADLINE_S: Final = 30.0


class _CountingListener:
    def __init__(self) -> None:
        self.applied = 0

    def on_committed(self, index: int, term: int, payload: bytes) -> None:
        self.applied += 1

    def on_leadership(self, term: int | None) -> None:
        """Asked for by `status` instead."""


async def _measure(quorum: RaftQuorum, window: int, count: int, payload_bytes: int) -> dict[str, object]:
    """`window` proposers at once, each of which waits for its commit before it proposes the next."""
    payload, term = bytes(payload_bytes), quorum.term
    latencies_ms: list[float] = []
    left = count

    async def propose() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            began_s = time.perf_counter()
            await quorum.propose(payload, term, PROPOSAL_DEADLINE_S)
            latencies_ms.append((time.perf_counter() - began_s) * 1_000)

    began_s = time.perf_counter()
    async with asyncio.TaskGroup() as proposers:
        for _ in range(window):
            proposers.create_task(propose())
    return {"seconds": time.perf_counter() - began_s, "latencies_ms": latencies_ms}


async def _serve(node_id: int, directory: Path, ports: dict[int, int]) -> None:
    listener = _CountingListener()
    voters = {voter: VoterAddress(host=HOST, port=port) for voter, port in ports.items()}
    config = QuorumConfig(node_id=node_id, cluster_id=CLUSTER, voters=voters, directory=directory)
    world = VoterResources(disk=RealDisk(), clock=SystemClock(), entropy=SystemEntropy())
    quorum = RaftQuorum(
        config=config, resources=world, listener=listener, fatal=_die, security=PeerSecurity(), snapshots=Untrimmed()
    )
    server = grpc.aio.server(options=SERVER_OPTIONS)
    quorum.service.add_to(server)
    if server.add_insecure_port(str(voters[node_id])) == 0:
        _die(f"port {voters[node_id].port} cannot be bound")
    await server.start()
    await quorum.start()
    try:
        await _obey(quorum, listener)
    finally:
        await quorum.stop()
        await server.stop(None)


async def _obey(quorum: RaftQuorum, listener: _CountingListener) -> None:
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := (await lines.readline()).decode().strip():
        word, *numbers = line.split(" ")
        if word == "measure":
            window, count, payload_bytes = map(int, numbers)
            _say(await _measure(quorum, window, count, payload_bytes))
        else:
            _say({"leads": quorum.is_leader, "applied": listener.applied})


def _say(answer: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _die(reason: str) -> None:
    sys.stderr.write(reason + "\n")
    os._exit(3)


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    node_id, directory, voters = sys.argv[1:]
    ports = {int(voter): int(port) for voter, port in (pair.split("=") for pair in voters.split(","))}
    asyncio.run(_serve(int(node_id), Path(directory), ports))


if __name__ == "__main__":
    main()
