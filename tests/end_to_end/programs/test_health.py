"""What running nodes answer to probes (/healthz, /readyz), and what they tell the service manager that started them."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from kraft.client import Admin
from kraft.local.cluster_files import HOST
from kraft.local.free_ports import ReservedPorts
from kraft.local.launching import KRAFT, environment
from kraft.server.identity.storage import random_cluster_id
from tests.support.command_line import run
from tests.support.waiting import until

DEADLINE_S = 30
HANGING_NODE = (sys.executable, "-m", "tests.end_to_end.programs.hanging_node")
START = (*KRAFT, "server", "start", "-c")
ALIVE = (200, "alive: the event loop turns")
READY = (200, "ready: in service")


class Manager:
    """A service manager: the socket that a service tells its state."""

    def __init__(self, directory: Path) -> None:
        self.heard: list[str] = []
        """All lines, in order."""
        self.path = directory / "notify"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self.path))
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while message := self._socket.recv(4_096):
            self.heard += message.decode().splitlines()

    @property
    def statuses(self) -> list[str]:
        return [each.removeprefix("STATUS=") for each in self.heard if each.startswith("STATUS=")]

    def is_told(self, line: str) -> None:
        until(lambda: line in self.heard, lambda: f"{line} is not among {self.heard}", DEADLINE_S)


class Node:
    """One configuration file and its process, with a service manager."""

    def __init__(self, directory: Path, settings: str, ports: Sequence[int]) -> None:
        self.file = directory / "server.properties"
        self.grpc, self.controller, self.http = ports
        self.manager = Manager(directory)
        self.file.write_text(
            f"node.id=1\nlog.dirs={directory}/data\nmetrics.address={HOST}:{self.http}\n"
            f"broker.session.timeout.ms=3000\n{settings}\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, command: Sequence[str]) -> None:
        told = {"NOTIFY_SOCKET": str(self.manager.path), "WATCHDOG_USEC": "10000000"}
        with (self.file.parent / "output").open("wb") as output:
            self._process = subprocess.Popen([*command, str(self.file)], stderr=output, env=environment() | told)

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self) -> int:
        self.send(signal.SIGTERM)
        assert self._process is not None
        return self._process.wait(DEADLINE_S)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(DEADLINE_S)

    def answers(self, path: str, port: int = 0) -> tuple[int, str]:
        """Return the status and the line that is answered; -1 if nobody listens."""
        connection = http.client.HTTPConnection(HOST, port or self.http, timeout=DEADLINE_S)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode().removesuffix("\n")
        except ConnectionError:
            return -1, "nobody listens"
        finally:
            connection.close()

    def comes_to_answer(self, path: str, answer: tuple[int, str], port: int = 0) -> None:
        until(lambda: self.answers(path, port) == answer, lambda: f"{path}: {self.answers(path, port)}", DEADLINE_S)


@contextmanager
def one_node(directory: Path, settings: str, ports: Sequence[int]) -> Iterator[Node]:
    node = Node(directory, settings, ports)
    try:
        yield node
    finally:
        node.kill()


@pytest.mark.slow
def test_probes_and_the_service_manager_hear_how_a_node_is_from_start_to_stop(tmp_path: Path) -> None:
    with ReservedPorts(3) as ports:
        grpc, controller, _ = ports
        settings = (
            f"process.roles=broker,controller\ncontroller.quorum.voters=1@{HOST}:{controller}\n"
            f"listeners=GRPC://{HOST}:{grpc},CONTROLLER://{HOST}:{controller}"
        )
        with one_node(tmp_path, settings, ports) as node, Admin(f"{HOST}:{grpc}") as admin:
            node.start(HANGING_NODE)
            node.comes_to_answer("/readyz", READY)
            assert node.answers("/healthz") == ALIVE
            node.manager.is_told("READY=1")
            assert node.manager.heard[0].startswith("STATUS=not ready: it ")
            assert node.manager.statuses[-1] == "in service"
            node.manager.is_told("WATCHDOG=1")

            admin.fence_broker(1, force=True)
            fenced = "it is fenced by an operator, which 'kraft brokers unfence 1' ends"
            node.comes_to_answer("/readyz", (503, f"not ready: {fenced}"))
            assert node.answers("/healthz") == ALIVE
            node.manager.is_told(f"STATUS=not ready: {fenced}")
            admin.unfence_broker(1)
            node.comes_to_answer("/readyz", READY)

            node.send(signal.SIGUSR1)
            until(lambda: node.answers("/healthz")[0] == 503, "a loop that hangs is called alive", DEADLINE_S)
            status, reason = node.answers("/readyz")
            assert (status, reason.rsplit(" ", 2)[0]) == (503, "not ready: the event loop has not turned for")
            beats = node.manager.heard.count("WATCHDOG=1")
            node.comes_to_answer("/healthz", ALIVE)
            until(lambda: node.manager.heard.count("WATCHDOG=1") > beats, "the watchdog hears no more", DEADLINE_S)
            node.comes_to_answer("/readyz", READY)

            assert node.stop() == 0
            assert node.manager.heard.count("READY=1") == 1
            assert node.manager.statuses[-1] == "not ready: it stops"
            node.manager.is_told("STOPPING=1")


@pytest.mark.parametrize(
    ("role", "why"),
    [
        ("controller", "its controller knows no active controller"),
        ("broker", "it is not registered yet: no controller is active: "),
    ],
)
def test_a_node_that_waits_for_controllers_is_alive_and_says_why_it_is_not_ready(
    tmp_path: Path, role: str, why: str
) -> None:
    with ReservedPorts(3) as ports:
        own, elsewhere, _ = ports
        voters = {"controller": f"1@{HOST}:{own},2@{HOST}:{elsewhere}", "broker": f"2@{HOST}:{elsewhere}"}[role]
        listener = f"{'CONTROLLER' if role == 'controller' else 'GRPC'}://{HOST}:{own}"
        settings = (
            f"process.roles={role}\ncontroller.quorum.voters={voters}\nlisteners={listener}\n"
            f"cluster.id={random_cluster_id()}"
        )
        with one_node(tmp_path, settings, ports) as node:
            assert run("storage", "format", "-c", node.file).returncode == 0
            node.start(START)
            until(lambda: why in node.answers("/readyz")[1], lambda: node.answers("/readyz"), DEADLINE_S)
            assert node.answers("/readyz")[0] == 503
            assert node.answers("/healthz") == ALIVE
            until(lambda: why in node.manager.statuses[-1], lambda: node.manager.statuses, DEADLINE_S)
            # It may wait as long as it takes.
            node.manager.is_told("EXTEND_TIMEOUT_USEC=30000000")
            assert "READY=1" not in node.manager.heard
            assert node.stop() == 0


@pytest.mark.slow
def test_each_process_of_a_file_answers_for_itself_and_the_supervisor_tells_of_all(tmp_path: Path) -> None:
    with ReservedPorts(3, (0, 10)) as ports:
        grpc, controller, http_port = ports
        settings = (
            f"process.roles=broker,controller\nnode.processes=2\ncontroller.quorum.voters=1@{HOST}:{controller}\n"
            f"listeners=GRPC://{HOST}:{grpc},CONTROLLER://{HOST}:{controller}"
        )
        with one_node(tmp_path, settings, ports) as node:
            node.start(START)
            node.manager.is_told("READY=1")
            for port in (http_port, http_port + 10):
                node.comes_to_answer("/readyz", READY, port)
            assert "in service, with 2 processes" in node.manager.statuses
            node.manager.is_told("WATCHDOG=1")
            assert node.manager.heard.count("READY=1") == 1
            assert node.stop() == 0
            node.manager.is_told("STOPPING=1")
