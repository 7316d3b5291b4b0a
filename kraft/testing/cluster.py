"""A cluster of real nodes: processes, sockets and files on this machine."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from kraft.local import cluster_files
from kraft.local.cluster_files import NodePlan
from kraft.local.forked_processes import ForkServer
from kraft.local.free_ports import ReservedPorts
from kraft.local.local_cluster import READY_DEADLINE_S, LocalCluster
from kraft.local.node_process import STOP_DEADLINE_S, NodeProcess
from kraft.local.security_files import SecurityFiles, make_here
from kraft.server.config.values import PLAINTEXT, SecurityProtocol
from kraft.server.identity import storage

_FORKS: Final = ForkServer("kraft.cli.foreground:preload")

VOTERS_MAX = 3
"""Number of controllers at most, unless `roles` is given."""

_BROKER, _CONTROLLER = "broker", "controller"

_PORTS_A_NODE = 3


class Cluster:
    """A context manager that starts a cluster, waits until it is ready, and removes it afterwards.

    `roles` has the `process.roles` of each node; by default the first three nodes are brokers and controllers, the
    others brokers. `overrides` are settings for all nodes, by Kafka's names; `node_overrides` for single nodes, by id.
    Ids begin at 1. Without `directory`, the files are in a temporary one that is removed at the end. With `secure`,
    clients need TLS and a login: `client_settings` has an administrator's, `security` their files.

    An exception that leaves the `with` block gets the end of every node's log as a note. Calls block, each with a
    deadline; from a coroutine, use `asyncio.to_thread`.
    """

    def __init__(
        self,
        nodes: int = 3,
        directory: Path | str | None = None,
        overrides: Mapping[str, str] | None = None,
        roles: Sequence[str] | None = None,
        node_overrides: Mapping[int, Mapping[str, str]] | None = None,
        secure: bool = False,
    ) -> None:
        roles = roles if roles is not None else _usual_roles(nodes)
        if len(roles) != nodes:
            raise ValueError(f"roles has {len(roles)} entries for {nodes} nodes: give one for each")
        self.cluster_id = storage.random_cluster_id()
        self._reserved = ReservedPorts(_PORTS_A_NODE * nodes)
        try:
            plans = _plans(roles, self._reserved.ports, overrides or {}, node_overrides or {}, secure)
        except ValueError:
            self._reserved.release()
            raise
        self._launcher = os.getpid()
        self._is_temporary = directory is None
        self.directory = Path(tempfile.mkdtemp(prefix="kraft-cluster-") if directory is None else directory).absolute()
        self.security: SecurityFiles | None = None
        """Of a secured cluster: `security.client` is for --command-config, `security.authority` the trusted CA."""
        try:
            if secure:
                self.security = make_here(cluster_files.security_directory(self.directory))
            cluster_files.write(self.directory, plans, self.cluster_id, self.security)
        except BaseException:
            self._remove_files()
            raise
        self._local = LocalCluster(self.directory, plans, launch=_FORKS.launch)
        self.nodes = list(self._local.nodes.values())

    @property
    def bootstrap_servers(self) -> str:
        """Return `host:port` of every broker, running or not, separated by commas."""
        return self._local.bootstrap_servers

    @property
    def kafka_bootstrap_servers(self) -> str:
        """Return `host:port` of every broker for clients of Kafka's protocol."""
        return self._local.kafka_bootstrap_servers

    @property
    def client_settings(self) -> dict[str, Any]:
        """Return settings by the keys of Kafka's clients, with which one logs in; empty unless the cluster is secured.

        `Producer(cluster.bootstrap_servers, **cluster.client_settings)`
        """
        return {} if self.security is None else {**self.security.client_settings()}

    def node(self, node_id: int) -> NodeProcess:
        return self._local.nodes[node_id]

    def start(self) -> None:
        """Start every node that is not running, and return at once."""
        self._local.start()

    def wait_ready(self, deadline_s: float = READY_DEADLINE_S) -> None:
        """Wait until the running brokers know an active controller and each other."""
        self._local.wait_ready(deadline_s)

    def stop(self, deadline_s: float = STOP_DEADLINE_S) -> None:
        """Stop all nodes in order. When all have ended, raises NodeFailed if one failed or had to be killed."""
        self._local.stop(deadline_s)

    def kill(self) -> None:
        """Kill every running node with SIGKILL."""
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
        if os.getpid() != self._launcher:
            return  # A forked process leaves the block; the cluster is its parent's.
        try:
            if error is None:
                self.stop()
            else:
                error.add_note(self._logs())
        finally:
            self._discard()

    def _discard(self) -> None:
        self.kill()
        self._remove_files()

    def _remove_files(self) -> None:
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
    secure: bool,
) -> list[NodePlan]:
    plans = []
    for node_id, text in enumerate(roles, start=1):
        names = {name.strip() for name in text.split(",")}
        if not names or not names <= {_BROKER, _CONTROLLER}:
            raise ValueError(
                f"roles of node {node_id}: {text!r} is unknown: expected broker, controller, or broker,controller"
            )
        grpc_port, controller_port, kafka_port = ports[_PORTS_A_NODE * (node_id - 1) :][:_PORTS_A_NODE]
        plans.append(
            NodePlan(
                node_id=node_id,
                grpc_port=grpc_port if _BROKER in names else None,
                controller_port=controller_port if _CONTROLLER in names else None,
                kafka_port=kafka_port if _BROKER in names else None,
                kafka_listener=SecurityProtocol.SASL_SSL.value if secure else PLAINTEXT,
                settings={**overrides, **node_overrides.get(node_id, {})},
            )
        )
    return plans
