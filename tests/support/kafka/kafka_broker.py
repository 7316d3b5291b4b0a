"""Apache Kafka itself: nodes on loopback, from the jars that the tests fetch, to compare ours with."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kraft.local.free_ports import ReservedPorts
from kraft.server.identity.storage import random_cluster_id
from tests.support.kafka.kafka_jars import java_command, run_kafka_tool, server_command

_HOST: Final = "127.0.0.1"
_START_DEADLINE_S: Final = 90.0
_STOP_DEADLINE_S: Final = 30.0
_TAIL_LINES: Final = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    node_id: int
    client_port: int
    controller_port: int
    directory: Path

    @property
    def address(self) -> str:
        return f"{_HOST}:{self.client_port}"

    @property
    def config_path(self) -> Path:
        return self.directory / "server.properties"

    @property
    def log_path(self) -> Path:
        return self.directory / "server.log"


class KafkaProcess:
    """A running node of Kafka."""

    def __init__(self, command: Sequence[str], node: _Node) -> None:
        self._command = command
        self._node = node
        self._process = _start(command, node)

    @property
    def address(self) -> str:
        return self._node.address

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """Kill it as `kill -9` does."""
        self._process.kill()
        self._process.wait(_STOP_DEADLINE_S)

    def start(self) -> None:
        """Start it again, and wait until it listens."""
        self._process = _start(self._command, self._node)
        self.wait_listening()

    def wait_listening(self) -> None:
        _wait_listening(self._node, self._process)

    def terminate(self) -> None:
        self._process.terminate()

    def wait_stopped(self) -> None:
        try:
            self._process.wait(_STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.kill()


@contextmanager
def kafka_brokers(jars: Path, settings: Mapping[str, str], nodes: int = 1) -> Iterator[list[str]]:
    """`host:port` of each broker; they are their own controllers. They and their files are gone afterwards.

    Ids count from 1. `settings` are for every node's file.
    """
    with kafka_processes(jars, settings, nodes) as processes:
        yield [each.address for each in processes]


@contextmanager
def kafka_processes(
    jars: Path, settings: Mapping[str, str], nodes: int = 1, *, measured: bool = False
) -> Iterator[list[KafkaProcess]]:
    """The same, with process ids. `measured`: the JVMs have the options of Kafka's own start script."""
    with ReservedPorts(2 * nodes) as ports, tempfile.TemporaryDirectory(prefix="kafka-") as directory:
        planned = [
            _Node(
                node_id=number,
                client_port=ports[2 * number - 2],
                controller_port=ports[2 * number - 1],
                directory=Path(directory) / f"n{number}",
            )
            for number in range(1, nodes + 1)
        ]
        cluster_id = random_cluster_id()
        for node in planned:
            node.directory.mkdir()
            node.config_path.write_text(_properties(node, planned, settings))
            formatted = run_kafka_tool(
                jars, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", node.config_path
            )
            assert formatted.code == 0, formatted.errors or formatted.output
        command = server_command if measured else java_command
        running = [KafkaProcess(command(jars, "kafka.Kafka", str(node.config_path)), node) for node in planned]
        try:
            for process in running:
                process.wait_listening()
            yield running
        finally:
            for process in running:
                process.terminate()
            for process in running:
                process.wait_stopped()


def _properties(node: _Node, nodes: Sequence[_Node], settings: Mapping[str, str]) -> str:
    controller = f"{_HOST}:{node.controller_port}"
    own = {
        "process.roles": "broker,controller",
        "node.id": str(node.node_id),
        "controller.quorum.voters": ",".join(f"{each.node_id}@{_HOST}:{each.controller_port}" for each in nodes),
        "listeners": f"PLAINTEXT://{node.address},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{node.address}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(node.directory / "data"),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
    return "".join(f"{key}={value}\n" for key, value in (own | dict(settings)).items())


def _start(command: Sequence[str], node: _Node) -> subprocess.Popen[bytes]:
    with node.log_path.open("ab") as log:
        # In a session of its own, as our nodes are: where sessions share a busy CPU, a client gets a broker in the same
        # session a hundred times sooner.
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def _wait_listening(node: _Node, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_DEADLINE_S
    while True:
        try:
            socket.create_connection((_HOST, node.client_port), 1).close()
        except OSError:
            tail = "\n".join(node.log_path.read_text(errors="replace").splitlines()[-_TAIL_LINES:])
            assert process.poll() is None, f"Kafka ended with code {process.returncode}:\n{tail}"
            assert time.monotonic() < deadline, f"Kafka did not listen within {_START_DEADLINE_S:.0f} s:\n{tail}"
            # Polled: a program that is not ours tells nobody that it is ready.
            time.sleep(0.1)
        else:
            return
