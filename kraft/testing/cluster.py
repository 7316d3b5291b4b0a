"""A cluster of real nodes: processes, sockets and files on this machine, to be killed and started at will."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from kraft.local import cluster_files
from kraft.local.cluster_files import NodePlan
from kraft.local.free_ports import ReservedPorts
from kraft.local.local_cluster import READY_DEADLINE_S, LocalCluster
from kraft.local.node_process import STOP_DEADLINE_S, NodeProcess
from kraft.server.identity import storage

VOTERS_MAX = 3
"""More nodes than this are brokers only, unless `roles` says otherwise."""

_BROKER, _CONTROLLER = "broker", "controller"

_PORTS_A_NODE = 3


class Cluster:
    """A context manager: ready to be used inside, gone afterwards.

    `roles` gives each node's, as `process.roles` does; without it the first three nodes are broker and controller and
    the others brokers. `overrides` are settings for every node's file, by Kafka's names; `node_overrides` for single
    nodes, by id. Ids count from 1. Without `directory`, files live in a temporary one that is removed at the end.

    An exception that leaves the `with` block gets the end of every node's log as a note. Calls block, each with a
    deadline; from a coroutine, go through `asyncio.to_thread`.
    """

    def __init__(
        self,
        nodes: int = 3,
        directory: Path | str | None = None,
        overrides: Mapping[str, str] | None = None,
        roles: Sequence[str] | None = None,
        node_overrides: Mapping[int, Mapping[str, str]] | None = None,
    ) -> None:
        roles = roles if roles is not None else _usual_roles(nodes)
        if len(roles) != nodes:
            raise ValueError(f"{len(roles)} roles for {nodes} nodes")
        self.cluster_id = storage.random_cluster_id()
        self._reserved = ReservedPorts(_PORTS_A_NODE * nodes)
        try:
            plans = _plans(roles, self._reserved.ports, overrides or {}, node_overrides or {})
        except ValueError:
            self._reserved.release()
            raise
        self._is_temporary = directory is None
        self.directory = Path(tempfile.mkdtemp(prefix="kraft-cluster-") if directory is None else directory).absolute()
        try:
            cluster_files.write(self.directory, plans, self.cluster_id)
        except BaseException:
            self._forget_files()
            raise
        self._local = LocalCluster(self.directory, plans)
        self.nodes = list(self._local.nodes.values())

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of every broker, running or not, separated by commas."""
        return self._local.bootstrap_servers

    @property
    def kafka_bootstrap_servers(self) -> str:
        """The same for clients that speak Kafka's protocol."""
        return self._local.kafka_bootstrap_servers

    def node(self, node_id: int) -> NodeProcess:
        return self._local.nodes[node_id]

    def start(self) -> None:
        """Start every node that does not run; return at once."""
        self._local.start()

    def wait_ready(self, deadline_s: float = READY_DEADLINE_S) -> None:
        """Wait until the running brokers know an active controller and each other."""
        self._local.wait_ready(deadline_s)

    def stop(self, deadline_s: float = STOP_DEADLINE_S) -> None:
        """Stop all nodes in order. Raises NodeFailed, all nodes being gone, when one had to be killed or failed."""
        self._local.stop(deadline_s)

    def kill(self) -> None:
        """kill -9 for every node that runs."""
        for node in self.nodes:
            if node.is_running:
                node.kill()

    def __enter__(self) -> Self:
        try:
            self.start()
            self.wait_ready()
        except BaseException:
            self._discard()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.stop()
            else:
                error.add_note(self._logs())
        finally:
            self._discard()

    def _discard(self) -> None:
        self.kill()
        self._forget_files()

    def _forget_files(self) -> None:
        self._reserved.release()
        if self._is_temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _logs(self) -> str:
        return "\n".join(f"--- the end of node {node.node_id}'s log\n{node.log_tail()}" for node in self.nodes)


def _usual_roles(nodes: int) -> list[str]:
    return [f"{_BROKER},{_CONTROLLER}" if index < VOTERS_MAX else _BROKER for index in range(nodes)]


def _plans(
    roles: Sequence[str],
    ports: Sequence[int],
    overrides: Mapping[str, str],
    node_overrides: Mapping[int, Mapping[str, str]],
) -> list[NodePlan]:
    plans = []
    for node_id, said in enumerate(roles, start=1):
        names = {name.strip() for name in said.split(",")}
        if not names or not names <= {_BROKER, _CONTROLLER}:
            raise ValueError(f"roles of node {node_id}: {said!r} is not broker, controller, or broker,controller")
        grpc_port, controller_port, kafka_port = ports[_PORTS_A_NODE * (node_id - 1) :][:_PORTS_A_NODE]
        plans.append(
            NodePlan(
                node_id=node_id,
                grpc_port=grpc_port if _BROKER in names else None,
                controller_port=controller_port if _CONTROLLER in names else None,
                kafka_port=kafka_port if _BROKER in names else None,
                settings={**overrides, **node_overrides.get(node_id, {})},
            )
        )
    return plans
