"""Floods of strangers on each port of a node that may open 1,024 files, while an honest client writes.

    python -m tests.soak.stranger_runs --seed 1

On Kafka's port, GRPC and CONTROLLER in turn, in an order that the seed chooses: 1,100 connections, 1,100 prefaces of
HTTP/2, 20,000 calls without a message, and messages of 15 MiB that never end. After each the node has to be in
service, with its log directory, and to take new clients; its memory has to stay bounded. Printed are the times of an
honest client, before and during each flood, and the resident memory.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import psutil
from msgspec import Struct

from kraft.client import Admin, KraftError, Producer
from kraft.local.free_ports import ReservedPorts
from kraft.local.launching import KRAFT
from kraft.server.config.values import CONTROLLER, GRPC, PLAINTEXT
from tests.soak.loads import http2_flood
from tests.support.waiting import until

FILES_MAX: Final = 1_024
HOLD_S: Final = 4.0
SETTLE_S: Final = 2.0
PAUSE_S: Final = 0.01
TOPIC: Final = "honest"
SERVED_DEADLINE_S: Final = 60.0

MIB: Final = 1024 * 1024
GROWTH_BYTES_MAX: Final = 256 * MIB
"""Growth of resident memory during a flood: the budget of unfinished messages is 64 MiB, and a look comes late."""

SLOWER_MAX: Final = 3.0
SLOW_S: Final = 0.25
"""An honest client's p99 may be three times that of before, or this: a small figure trebles by chance."""

_LOGIN_NEEDED: Final = (
    "listener.security.protocol.map=GRPC:SASL_PLAINTEXT\nsasl.enabled.mechanisms=PLAIN\n"
    "listener.name.grpc.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' user_honest="of the honest client";\n'
)
_LOGIN: Final = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "honest",
    "sasl.password": "of the honest client",
}

_PATHS: Final = {
    PLAINTEXT: "/kraft.v1.Broker/Metadata",
    GRPC: "/kraft.v1.Broker/Produce",
    CONTROLLER: "/kraft.v1.Membership/Challenge",
}


class Measured(Struct, frozen=True, kw_only=True):
    """One flood, with the p99 of an honest client in seconds, and resident memory in bytes."""

    port: str
    kind: str
    p99_before_s: float
    p99_s: float
    written: int
    failed: int
    resident_before: int
    resident_max: int
    resident_after: int
    files_max: int
    problem: str | None = None


class Node:
    """A combined node in a process that may open FILES_MAX files."""

    def __init__(self, directory: Path, ports: Sequence[int], *, asks_for_login: bool = False) -> None:
        self.ports = dict(zip((PLAINTEXT, GRPC, CONTROLLER), ports, strict=True))
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        self._file = directory / "node.properties"
        self._file.write_text(
            "process.roles=broker,controller\nnode.id=1\n"
            f"controller.quorum.voters=1@127.0.0.1:{self.ports[CONTROLLER]}\nlisteners={listeners}\n"
            f"log.dirs={directory / 'data'}\nlog.segment.bytes=1048576\n"
            "metadata.log.max.record.bytes.between.snapshots=4096\nauto.create.topics.enable=false\n"
            f"offsets.topic.num.partitions=1\n{_LOGIN_NEEDED if asks_for_login else ''}"
        )
        self.settings: dict[str, Any] = _LOGIN if asks_for_login else {}
        self.log_file = directory / "node.log"
        self._process: subprocess.Popen[bytes]

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.ports[GRPC]}"

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def process(self) -> psutil.Process:
        return psutil.Process(self._process.pid)

    def start(self) -> None:
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", f'ulimit -n {FILES_MAX}; exec "$@"', "sh", *KRAFT, "server", "start", "-c", self._file],
                stdout=log,
                stderr=log,
            )
        until(self.is_served, "the node did not start", SERVED_DEADLINE_S)

    def is_served(self) -> bool:
        """Return whether a new client is served; with its whole path to the disk."""
        try:
            with Admin(self.bootstrap_servers, default_api_timeout_ms=2_000, **self.settings) as admin:
                if TOPIC not in admin.list_topics():
                    admin.create_topic(TOPIC, 1, 1)
            times_ms: dict[str, Any] = {"delivery_timeout_ms": 2_000, "request_timeout_ms": 1_000}
            with Producer(self.bootstrap_servers, **times_ms, **self.settings) as producer:
                producer.send(TOPIC, b"served").result(3)
        except (KraftError, TimeoutError):
            return False
        return True

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)


class Honest:
    """Writes a record at a time on connections that it keeps, and measures how long each took."""

    def __init__(self, bootstrap_servers: str, settings: Mapping[str, Any]) -> None:
        self._bootstrap_servers, self._settings = bootstrap_servers, settings
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.times_s: list[float] = []
        self.failed = 0

    def __enter__(self) -> Honest:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(30)

    def _run(self) -> None:
        with Producer(self._bootstrap_servers, linger_ms=0, **self._settings) as producer:
            while not self._is_over.wait(PAUSE_S):
                began_s = time.perf_counter()
                try:
                    producer.send(TOPIC, b"honest").result(30)
                except (KraftError, TimeoutError):
                    self.failed += 1
                self.times_s.append(time.perf_counter() - began_s)


class _Peaks:
    """The most memory and files that a process had."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.resident = self.files = 0

    def note_for(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s and self.node.is_running:
            self.resident = max(self.resident, self.node.process.memory_info().rss)
            self.files = max(self.files, self.node.process.num_fds())
            time.sleep(0.02)


@contextmanager
def flooding(port: int, kind: str, path: str, peaks: _Peaks) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.soak.loads.http2_flood", str(port), kind, "--path", path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stranger:
        assert stranger.stdin is not None
        assert stranger.stdout is not None
        begun = threading.Thread(target=stranger.stdout.readline, daemon=True)
        begun.start()
        while begun.is_alive():
            peaks.note_for(0.1)
            if not peaks.node.is_running:
                stranger.kill()
                break
        yield
        stranger.stdin.close()


def measure(node: Node, port: str, kind: str, hold_s: float) -> Measured:
    peaks = _Peaks(node)
    with Honest(node.bootstrap_servers, node.settings) as honest:
        time.sleep(hold_s)
        before_s, resident_before = _p99(honest.times_s), node.process.memory_info().rss
        begun = len(honest.times_s)
        with flooding(node.ports[port], kind, _PATHS[port], peaks):
            peaks.note_for(hold_s)
        during_s = honest.times_s[begun:]
    problem = _problem(node)
    return Measured(
        port=port,
        kind=kind,
        p99_before_s=before_s,
        p99_s=_p99(during_s),
        written=len(honest.times_s),
        failed=honest.failed,
        resident_before=resident_before,
        resident_max=peaks.resident,
        resident_after=node.process.memory_info().rss if node.is_running else 0,
        files_max=peaks.files,
        problem=problem,
    )


def _problem(node: Node) -> str | None:
    until_s = time.monotonic() + SERVED_DEADLINE_S
    while node.is_running and time.monotonic() < until_s:
        if node.is_served():
            text = node.log_file.read_text()
            return "a log directory failed" if "log directory failed" in text else None
    return "new clients are not served" if node.is_running else f"the node ended: {node.log_file.read_text()[-400:]}"


def verdict(measured: Measured) -> str | None:
    """Return what is wrong; None if nothing is."""
    if measured.problem is not None:
        return measured.problem
    if measured.failed:
        return f"{measured.failed} records of the honest client failed"
    if measured.resident_max - measured.resident_before > GROWTH_BYTES_MAX:
        return "its memory grew too much"
    if measured.p99_s > max(SLOWER_MAX * measured.p99_before_s, SLOW_S):
        return "the honest client was slowed down"
    return None


def _p99(times_s: Sequence[float]) -> float:
    return sorted(times_s)[int(len(times_s) * 0.99)] if times_s else float("inf")


def run(
    kinds: Sequence[str], ports: Sequence[str], hold_s: float = HOLD_S, *, asks_for_login: bool = False
) -> Iterator[Measured]:
    """Yield the measurements of each flood, until the node has ended. Before a flood and in it, `hold_s` pass.

    With `asks_for_login`, clients of GRPC have to log in, which the floods do not.
    """
    with TemporaryDirectory() as directory:
        reserved = ReservedPorts(3)
        node = Node(Path(directory), reserved.ports, asks_for_login=asks_for_login)
        node.start()
        try:
            for port, kind in zip(ports, kinds, strict=True):
                measured = measure(node, port, kind, hold_s)
                yield measured
                if not node.is_running:
                    return
                time.sleep(SETTLE_S)
        finally:
            node.stop()
            reserved.release()


def line(measured: Measured) -> str:
    wrong = verdict(measured)
    return (
        f"{measured.port:10} {measured.kind:11} p99 {measured.p99_before_s * 1e3:6.1f} -> {measured.p99_s * 1e3:6.1f} "
        f"ms, {measured.written} records, {measured.failed} failed, resident {measured.resident_before // MIB} -> "
        f"{measured.resident_max // MIB} -> {measured.resident_after // MIB} MiB, {measured.files_max} files"
        f"{'' if wrong is None else f'  WRONG: {wrong}'}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--port", choices=tuple(_PATHS), help="only floods of this listener")
    parser.add_argument("--kind", choices=http2_flood.KINDS, help="only floods of this kind")
    parser.add_argument("--login", action="store_true", help="clients of GRPC have to log in")
    arguments = parser.parse_args()
    floods = [
        (port, kind)
        for port in _PATHS
        for kind in http2_flood.KINDS
        if arguments.port in (None, port) and arguments.kind in (None, kind)
    ]
    Random(arguments.seed).shuffle(floods)
    wrong = 0
    kinds, ports = [kind for _, kind in floods], [port for port, _ in floods]
    for measured in run(kinds, ports, asks_for_login=arguments.login):
        wrong += verdict(measured) is not None
        print(line(measured), flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
