"""Malformed handshakes for every listener of a secured node: its memory and files stay bounded, others are served.

    python -m tests.soak.handshake_runs --handshakes 1000000

Bytes of TLS go to Kafka's listener, GRPC and CONTROLLER, frames of SASL to Kafka's listeners, without TLS and inside
it: conversations with damaged places, cut off or continued by others, and sometimes noise. Each has a connection of its
own, from one of 20,000 addresses of this machine, so that no address is slowed down for its failures. Meanwhile one
client writes, and others log in. Ends with 1 if the node ended, a record or login of theirs failed, the log has a
traceback, or memory grew too much.
"""

from __future__ import annotations

import argparse
import socket
import ssl
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import psutil
from msgspec import Struct

from kraft.client import Admin, KraftError
from kraft.local import cluster_files
from kraft.local.cluster_files import HOST, NodePlan
from kraft.local.free_ports import ReservedPorts
from kraft.local.local_cluster import LocalCluster
from kraft.local.node_process import NodeProcess
from kraft.local.security_files import make_here
from kraft.server.config.values import CONTROLLER, GRPC
from kraft.server.identity import storage
from tests.soak.stranger_runs import MIB, TOPIC, Honest
from tests.support.handshake_bytes import logins, tls_conversations
from tests.support.mutation import mutated

PLAIN: Final = "SASL_PLAINTEXT"
TLS: Final = "SASL_SSL"
INSIDE: Final = "inside TLS"
KINDS: Final = (*(PLAIN, TLS, PLAIN, TLS, PLAIN, TLS, GRPC, CONTROLLER) * 8, INSIDE)
"""What the handshakes go to, in turn. INSIDE completes one of TLS, which takes each end a millisecond, and garbles the
login behind it."""

GROWTH_BYTES_MAX: Final = 96 * MIB
"""With 200 connections at a time, what gRPC frees after handshakes leaves the allocator some 70 MiB to use again."""

WORKERS: Final = 200
DEADLINE_S: Final = 12.0
"""A node closes whoever says nothing after 10 s; most say too much, and end at once."""

LOGIN_PAUSE_S: Final = 0.5
TELL_S: Final = 10.0
_ADDRESSES: Final = 20_000
_PREFIX_BYTES: Final = 2
"""Each conversation of TLS begins with so many bytes that are for its fuzz target."""


class Outcome:
    """Result of a run, and its state meanwhile."""

    def __init__(self, goal: int, process: psutil.Process) -> None:
        self._goal = goal
        self._guard = threading.Lock()
        self._begun = 0
        self._process = process
        self.ends: Counter[tuple[str, str]] = Counter()
        self.seconds = 0.0
        self.resident_before = self.resident_max = process.memory_info().rss
        self.files_before = self.files_max = process.num_fds()
        self.is_over = threading.Event()

    @property
    def handshakes(self) -> int:
        return self.ends.total()

    def take(self) -> int | None:
        """Return the number of the next handshake; None after the last."""
        with self._guard:
            if self._begun >= self._goal or self.is_over.is_set():
                return None
            self._begun += 1
            return self._begun

    def note(self, kind: str, end: str) -> None:
        with self._guard:
            self.ends[kind, end] += 1

    def measure(self) -> None:
        self.resident_max = max(self.resident_max, self._process.memory_info().rss)
        self.files_max = max(self.files_max, self._process.num_fds())

    def __str__(self) -> str:
        return (
            f"{self.handshakes:,} handshakes in {self.seconds:.0f} s, resident {self.resident_before // MIB} MiB"
            f" before, {self.resident_max // MIB} at most; files {self.files_before} before, {self.files_max} at most"
        )


class Attackers:
    """Threads that shake hands badly until there is nothing left to do."""

    def __init__(self, ports: dict[str, int], outcome: Outcome, seed: int, kinds: Sequence[str]) -> None:
        self._ports = ports
        self._kinds = kinds
        self._outcome = outcome
        self._threads = [
            threading.Thread(target=self._run, args=(Random(f"{seed} {number}"),), daemon=True)
            for number in range(WORKERS)
        ]

    def __enter__(self) -> Attackers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._outcome.is_over.set()
        for thread in self._threads:
            thread.join(2 * DEADLINE_S)

    @property
    def are_at_work(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def _run(self, chance: Random) -> None:
        seeds = tuple(each[_PREFIX_BYTES:] for each in tls_conversations())
        of_tls, of_sasl = mutated(seeds, chance), mutated(logins(), chance)
        while (number := self._outcome.take()) is not None:
            kind = self._kinds[number % len(self._kinds)]
            self._outcome.note(kind, self._shake(kind, next(of_sasl if kind in (PLAIN, INSIDE) else of_tls), chance))

    def _shake(self, kind: str, data: bytes, chance: Random) -> str:
        """Return how the connection ended."""
        try:
            with self._connected(TLS if kind == INSIDE else kind, chance) as connection:
                if kind == INSIDE:
                    with _trusting_anybody().wrap_socket(connection) as inside:
                        return _converse(inside, data)
                return _converse(connection, data)
        except TimeoutError:
            return "timed out"
        except OSError as error:
            return type(error).__name__

    def _connected(self, kind: str, chance: Random) -> socket.socket:
        number = chance.randrange(_ADDRESSES)
        connection = socket.socket()
        connection.settimeout(DEADLINE_S)
        connection.bind((f"127.{1 + number // 62_500}.{number // 250 % 250}.{1 + number % 250}", 0))
        connection.connect((HOST, self._ports[kind]))
        return connection


def _converse(connection: socket.socket, data: bytes) -> str:
    connection.sendall(data)
    if not isinstance(connection, ssl.SSLSocket):
        connection.shutdown(socket.SHUT_WR)
    answered = False
    while connection.recv(65_536):
        answered = True
        if isinstance(connection, ssl.SSLSocket):
            # What the node still waits for does not come.
            break
    return "answered" if answered else "closed"


def _trusting_anybody() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class Logins:
    """An honest client that logs in again and again, at the GRPC listener."""

    def __init__(self, bootstrap_servers: str, settings: dict[str, Any]) -> None:
        self._bootstrap_servers, self._settings = bootstrap_servers, settings
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.done, self.failures = 0, list[str]()

    def __enter__(self) -> Logins:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._is_over.wait(LOGIN_PAUSE_S):
            try:
                with Admin(self._bootstrap_servers, **self._settings) as admin:
                    admin.list_topics()
                self.done += 1
            except KraftError as error:
                self.failures.append(str(error))


class Secured(Struct, frozen=True):
    """A node with a login on every listener of clients."""

    node: NodeProcess
    ports: dict[str, int]
    bootstrap_servers: str
    settings: dict[str, Any]


@contextmanager
def secured_node(directory: Path) -> Iterator[Secured]:
    files = make_here(cluster_files.security_directory(directory))
    with ReservedPorts(4) as reserved:
        ports = dict(zip((PLAIN, TLS, GRPC, CONTROLLER), reserved, strict=True))
        settings = {
            "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items()),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        }
        plan = NodePlan(
            node_id=1,
            grpc_port=ports[GRPC],
            controller_port=ports[CONTROLLER],
            kafka_port=ports[TLS],
            kafka_listener=TLS,
            settings=settings,
        )
        cluster_files.write(directory, [plan], storage.random_cluster_id(), files)
        cluster = LocalCluster(directory, [plan])
        cluster.start()
        try:
            cluster.wait_ready()
            yield Secured(cluster.nodes[1], ports, cluster.bootstrap_servers, {**files.client_settings()})
        finally:
            cluster.stop()


def run(handshakes: int, seed: int, seconds_max: float, kinds: Sequence[str] = KINDS) -> list[str]:
    """Return what is wrong; prints the state meanwhile, and the end."""
    with TemporaryDirectory() as directory, secured_node(Path(directory)) as secured:
        with Admin(secured.bootstrap_servers, **secured.settings) as admin:
            admin.create_topic(TOPIC, 1, 1)
        return _attacked(secured, handshakes, seed, seconds_max, kinds)


def _attacked(secured: Secured, handshakes: int, seed: int, seconds_max: float, kinds: Sequence[str]) -> list[str]:
    node, servers, settings = secured.node, secured.bootstrap_servers, secured.settings
    with Honest(servers, settings) as honest, Logins(servers, settings) as honest_logins:
        # What honest clients do before the attack shows that they can.
        time.sleep(3)
        outcome = Outcome(handshakes, psutil.Process(node.pid))
        began_s = told_s = time.monotonic()
        with Attackers(secured.ports, outcome, seed, kinds) as attackers:
            while attackers.are_at_work and node.is_running and outcome.seconds < seconds_max:
                # Memory and files of another process can only be looked at again and again.
                time.sleep(0.05)
                outcome.measure()
                outcome.seconds = time.monotonic() - began_s
                if time.monotonic() - told_s > TELL_S:
                    told_s = time.monotonic()
                    print(outcome, flush=True)
    print(outcome)
    for (kind, end), count in sorted(outcome.ends.items()):
        print(f"  {kind:15} {end:25} {count:9,}")
    log = node.log_path.read_text()
    print(
        f"meanwhile {len(honest.times_s):,} records and {honest_logins.done} logins of others; log: {len(log):,} bytes"
    )
    found = {
        "the node ended": not node.is_running,
        f"{honest.failed} records of the honest client failed": honest.failed,
        f"logins of the honest client failed: {honest_logins.failures[:3]}": honest_logins.failures,
        "nobody could log in": not honest_logins.done,
        "the log has a traceback": "Traceback" in log,
        "memory grew too much": outcome.resident_max - outcome.resident_before > GROWTH_BYTES_MAX,
    }
    return [what for what, holds in found.items() if holds]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--handshakes", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=3_600.0, help="end after so many, whatever was done")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=sorted(set(KINDS)), help="only handshakes of this kind")
    given = parser.parse_args()
    wrong = run(given.handshakes, given.seed, given.seconds, KINDS if given.kind is None else [given.kind])
    for what in wrong:
        print(f"WRONG: {what}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
