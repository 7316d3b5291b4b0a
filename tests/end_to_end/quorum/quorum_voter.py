"""One voter of a quorum as a process of its own, spoken to in lines on standard input and output.

quorum_voter.py NODE_ID DIRECTORY ID=PORT,ID=PORT,...

propose TEXT   ->  ok TEXT INDEX | refused TEXT | unknown TEXT     (answered when known, several may be pending)
status         ->  status LEADING TERM LAST_APPLIED LEADER_ID
dump           ->  dump COUNT, then COUNT lines INDEX TEXT
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path

import grpc
import structlog

from kraft.quorum.config import QuorumConfig, VoterAddress
from kraft.quorum.peer_link import SERVER_OPTIONS
from kraft.quorum.peer_security import PeerSecurity
from kraft.quorum.port import NotLeader, ProposalUnknown
from kraft.quorum.raft_quorum import RaftQuorum
from kraft.quorum.voter_resources import VoterResources
from kraft.runtime.clock import SystemClock
from kraft.runtime.disk import RealDisk
from kraft.runtime.entropy import SystemEntropy
from tests.support.no_snapshots import NoSnapshots

PROPOSAL_DEADLINE_S = 5.0


class RememberingListener:
    def __init__(self) -> None:
        self.committed: list[tuple[int, bytes]] = []

    def on_committed(self, index: int, term: int, payload: bytes) -> None:
        self.committed.append((index, payload))

    def on_leadership(self, term: int | None) -> None:
        """Does nothing: `status` reports it."""


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def die(reason: str) -> None:
    sys.stderr.write(reason + "\n")
    os._exit(3)


async def propose(quorum: RaftQuorum, text: str) -> None:
    try:
        index = await quorum.propose(text.encode(), quorum.term, PROPOSAL_DEADLINE_S)
    except NotLeader:
        say(f"refused {text}")
    except ProposalUnknown:
        say(f"unknown {text}")
    else:
        say(f"ok {text} {index}")


async def serve(node_id: int, directory: Path, ports: dict[int, int]) -> None:
    listener = RememberingListener()
    voters = {voter: VoterAddress(host="127.0.0.1", port=port) for voter, port in ports.items()}
    config = QuorumConfig(node_id=node_id, cluster_id="test", voters=voters, directory=directory)
    world = VoterResources(disk=RealDisk(), clock=SystemClock(), entropy=SystemEntropy())
    quorum = RaftQuorum(
        config=config, resources=world, listener=listener, fatal=die, security=PeerSecurity(), snapshots=NoSnapshots()
    )
    server = grpc.aio.server(options=SERVER_OPTIONS)
    quorum.service.add_to(server)
    server.add_insecure_port(str(voters[node_id]))
    await server.start()
    await quorum.start()
    say("started")
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    under_way: set[asyncio.Task[None]] = set()
    while line := (await lines.readline()).decode().strip():
        word, _, text = line.partition(" ")
        if word == "propose":
            task = asyncio.create_task(propose(quorum, text))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
        elif word == "status":
            say(f"status {int(quorum.is_leader)} {quorum.term} {quorum.last_applied} {quorum.leader_id}")
        elif word == "dump":
            say(f"dump {len(listener.committed)}")
            for index, payload in listener.committed:
                say(f"{index} {payload.decode()}")
    await quorum.stop()
    await server.stop(None)


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    node_id, directory, voters = sys.argv[1:]
    ports = {int(voter): int(port) for voter, port in (pair.split("=") for pair in voters.split(","))}
    asyncio.run(serve(int(node_id), Path(directory), ports))


if __name__ == "__main__":
    main()
