"""`python -m benchmarks.tls`: what TLS costs a listener, beside asyncio's own TLS and a connection without.

The server is a process of its own, so that memory and CPU time are those of its end. The clients are OpenSSL over
blocking sockets, in this process.
"""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final, Self

import typer

from benchmarks.report import Cell, Output, Report, print_report
from benchmarks.tls_server import KINDS, PIECE, REQUEST

GOAL_KIB: Final = 40
DEADLINE_S: Final = 120
WARM_UP: Final = 50


class _Server:
    def __init__(self, kind: str, keystore: Path) -> None:
        command = [sys.executable, "-m", "benchmarks.tls_server", kind, str(keystore)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._has_tls = kind != "plain"
        self._port = int(self._line())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def figures(self) -> tuple[int, float]:
        """Return the resident bytes, and the seconds of CPU time."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        resident, cpu_s = self._line().split()
        return int(resident), float(cpu_s)

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def connect(self, context: ssl.SSLContext) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self._port), DEADLINE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return context.wrap_socket(connection) if self._has_tls else connection


def exchange(connection: socket.socket, sent: int, wanted: int) -> None:
    """Send a request of so many bytes, and receive the answer."""
    connection.sendall(REQUEST.pack(sent, wanted))
    while sent:
        piece = memoryview(PIECE)[:sent]
        connection.sendall(piece)
        sent -= len(piece)
    room = bytearray(1 << 20)
    while wanted:
        received = connection.recv_into(room)
        if not received:
            raise ConnectionError("the server closed the connection")
        wanted -= received


@contextmanager
def keystore(kind: str) -> Iterator[Path]:
    """A key and a certificate for it, made by the openssl command."""
    key = ("ec", "-pkeyopt", "ec_paramgen_curve:P-256") if kind == "P-256" else ("rsa:2048",)
    with TemporaryDirectory() as directory:
        private, shown, both = (Path(directory) / name for name in ("key.pem", "certificate.pem", "both.pem"))
        made = ["openssl", "req", "-x509", "-newkey", *key, "-nodes", "-subj", "/CN=localhost", "-days", "1"]
        subprocess.run([*made, "-keyout", str(private), "-out", str(shown)], check=True, capture_output=True)
        both.touch(mode=0o600)
        both.write_bytes(private.read_bytes() + shown.read_bytes())
        yield both


def measure(kind: str, key: str, connections: int, mebibytes: int) -> dict[str, Cell]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with keystore(key) as store, _Server(kind, store) as server, ExitStack() as opened:
        for _ in range(WARM_UP):
            exchange(opened.enter_context(server.connect(context)), 100, 100)
        (resident, cpu_s), began_s = server.figures(), time.perf_counter()
        for _ in range(connections):
            exchange(opened.enter_context(server.connect(context)), 100, 100)
        took_s, (resident_after, cpu_s_after) = time.perf_counter() - began_s, server.figures()
        connection, bulk = server.connect(context), mebibytes << 20
        rates = []
        for sent, wanted in ((bulk, 8), (8, bulk)):
            start_s, used_s = time.perf_counter(), server.figures()[1]
            exchange(connection, sent, wanted)
            rates.append((mebibytes / (time.perf_counter() - start_s), (server.figures()[1] - used_s) / bulk * 2**30))
    per_connection = (resident_after - resident) / connections / 1024
    return {
        "TLS": kind,
        "key": key if kind != "plain" else None,
        "KiB/connection": round(per_connection, 1),
        f"of {GOAL_KIB} KiB": round(per_connection / GOAL_KIB, 2),
        "connections/s": round(connections / took_s),
        "CPU ms/connection": round((cpu_s_after - cpu_s) / connections * 1_000, 2),
        "in MiB/s": round(rates[0][0]),
        "CPU s/GiB in": round(rates[0][1], 2),
        "out MiB/s": round(rates[1][0]),
        "CPU s/GiB out": round(rates[1][1], 2),
    }


def main(
    connections: Annotated[int, typer.Option(help="Connections that stay open.")] = 1_000,
    mebibytes: Annotated[int, typer.Option(help="Bytes through one connection, each way.")] = 1_024,
    output: Annotated[Output, typer.Option(help="Format of the report.")] = Output.TABLE,
) -> None:
    rows = [measure("plain", "P-256", connections, mebibytes)]
    rows += [measure(kind, key, connections, mebibytes) for key in ("P-256", "RSA-2048") for kind in KINDS[1:]]
    notes = [
        "Memory is the resident memory of the server's process, whose clients are in another one.",
        "One client connects, sends 100 bytes and gets 100, one connection after the other, all of which stay open.",
        "Throughput is that of one connection, with client and server on the same machine.",
    ]
    print_report(Report(title="TLS of a listener", durability="nothing is written", rows=rows, notes=notes), output)


if __name__ == "__main__":
    typer.run(main)
