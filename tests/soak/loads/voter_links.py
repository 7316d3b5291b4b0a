"""Proxies between the controllers of a cluster, so that one of them can be cut off while everybody else reaches it.

Each node's configuration has the addresses of proxies for the other voters, one for each direction of each pair. The
requests of its broker to other controllers use them, too. Clients, and brokers among themselves, use none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from chaos.toxiproxy import HOST, Link, Server
from kraft.local import cluster_files
from kraft.local.free_ports import ReservedPorts
from kraft.server.config import properties
from kraft.server.config.values import Voter
from kraft.testing import Cluster

_VOTERS_KEY: Final = "controller.quorum.voters"


class VoterLinks:
    """The proxies of one cluster. Raises ToxiproxyFailed when they do not do as they are asked."""

    def __init__(self, server: Server, voters: list[int]) -> None:
        self._server = server
        self._voters = voters

    def cut_off(self, node_id: int, *, silently: bool) -> None:
        """Cut a voter off from the others: connections break, or only drop all bytes."""
        for name in self._around(node_id):
            if silently:
                for stream in ("upstream", "downstream"):
                    # Without an end, all bytes are dropped and the connection stays.
                    self._server.poison(name, "timeout", {"timeout": 0}, stream)
            else:
                self._server.cut(name)

    def mend(self, node_id: int) -> None:
        for name in self._around(node_id):
            self._server.mend(name)

    def _around(self, node_id: int) -> list[str]:
        others = [other for other in self._voters if other != node_id]
        return [_name(node_id, other) for other in others] + [_name(other, node_id) for other in others]


@contextmanager
def voters_behind_links(cluster: Cluster, program: Path) -> Iterator[VoterLinks]:
    """`cluster` has not been started, and is to be started in here; `program` is Toxiproxy's server."""
    voters = cluster_files.read(cluster.directory)[0].quorum.voters
    pairs = [(voter, other) for voter in voters for other in voters if voter is not other]
    with ReservedPorts(len(pairs) + 1) as (api_port, *ports):
        links = {}
        for (voter, other), port in zip(pairs, ports, strict=True):
            name = _name(voter.node_id, other.node_id)
            links[voter.node_id, other.node_id] = Link(name=name, listen_port=port, upstream=other.address)
        for voter in voters:
            addresses = [
                other if other is voter else Voter(other.node_id, HOST, links[voter.node_id, other.node_id].listen_port)
                for other in voters
            ]
            _rewrite(cluster_files.config_file(cluster.directory, voter.node_id), ",".join(map(str, addresses)))
        with Server(program, api_port, list(links.values())) as server:
            yield VoterLinks(server, [voter.node_id for voter in voters])


def _name(from_id: int, to_id: int) -> str:
    return f"voter-{from_id}-to-{to_id}"


def _rewrite(file: Path, voters: str) -> None:
    """Other voters in a node's configuration."""
    settings = {each.key: each.value for each in properties.parse(file.read_bytes(), str(file))}
    file.write_bytes(properties.serialize(settings | {_VOTERS_KEY: voters}))
