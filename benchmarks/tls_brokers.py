"""`python -m benchmarks.tls_brokers`: what TLS costs a broker, ours and Apache Kafka, beside the same without.

Four brokers run at a time, and take turns: each of the two with TLS, and without. A client here, OpenSSL over a
blocking socket, sends one produce request again and again, reads the same batches again and again, and connects again
and again.
"""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Final, Self

import typer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.cpu_clock import process_cpu_s
from benchmarks.lone_record import produce_frame
from benchmarks.prepared_load import IN_FLIGHT, largest_batch
from benchmarks.report import Cell, Output, Report, print_report, say
from benchmarks.servers import DEADLINE_S, MIB, REMOVAL, resident_mib
from benchmarks.tls import WARM_UP, keystore
from kraft.server.config.values import Durability
from kraft.testing import Cluster
from kraft.wire.declaration import Message
from kraft.wire.frame import SIZE_BYTES, encode_request
from kraft.wire.schema.api_versions import ApiVersionsRequest
from kraft.wire.schema.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.kafka.kafka_broker import kafka_processes
from tests.support.kafka.kafka_jars import fetched_kafka_jars

BATCH_BYTES: Final = 256 * 1024
TOPIC: Final = "tls"

_FETCH_VERSION: Final = 12
"""The last version that names topics by name only."""

_API_VERSIONS_VERSION: Final = 3
_SCRATCH: Final = memoryview(bytearray(MIB))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Broker:
    name: str
    address: str
    pid: int
    tls: ssl.SSLContext | None
    is_java: bool

    def used_kib(self) -> float:
        """Return the memory that it uses: what is resident, or of Java what is left of its heap after a collection."""
        if not self.is_java:
            return resident_mib(self.pid) * 1024
        _jcmd(self.pid, "GC.run")
        found = re.search(r"used (\d+)K", _jcmd(self.pid, "GC.heap_info"))
        assert found is not None, "jcmd prints the heap that is used"
        return float(found[1])


def _jcmd(pid: int, command: str) -> str:
    done = subprocess.run(["jcmd", str(pid), command], capture_output=True, text=True, check=True, timeout=DEADLINE_S)
    return done.stdout


# --- the client --------------------------------------------------------------------------------------------------


class _Connection:
    """A connection to a broker; a context manager. Each call raises OSError after some time."""

    def __init__(self, broker: _Broker) -> None:
        host, _, port = broker.address.rpartition(":")
        connected = socket.create_connection((host, int(port)), DEADLINE_S)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connected if broker.tls is None else broker.tls.wrap_socket(connected)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def exchange(self, frame: bytes, count: int) -> int:
        """Send a request so many times, some at once; return the bytes of the responses."""
        received = 0
        for number in range(count + IN_FLIGHT):
            if number >= IN_FLIGHT:
                received += self._response()
            if number < count:
                self._socket.sendall(frame)
        return received

    def once(self, frame: bytes) -> None:
        self._socket.sendall(frame)
        self._response()

    def _response(self) -> int:
        size = int.from_bytes(self._receive(SIZE_BYTES), "big")
        left = size
        while left:
            left -= len(self._receive(min(left, len(_SCRATCH))))
        return size

    def _receive(self, wanted: int) -> memoryview:
        filled = 0
        while filled < wanted:
            count = self._socket.recv_into(_SCRATCH[filled:wanted])
            if not count:
                raise ConnectionError("the broker closed the connection")
            filled += count
        return _SCRATCH[:wanted]


def _frame(request: Message, version: int) -> bytes:
    return b"".join(encode_request(request, version, correlation_id=1, client_id="tls"))


_FETCH: Final = _frame(
    FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=MIB,
        topics=(
            FetchTopic(topic=TOPIC, partitions=(FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=MIB),)),
        ),
    ),
    _FETCH_VERSION,
)
_HELLO: Final = _frame(
    ApiVersionsRequest(client_software_name="tls", client_software_version="1"), _API_VERSIONS_VERSION
)


# --- what is measured --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Cost:
    """Rate of something, and the broker's CPU time for one of them."""

    per_s: float
    cpu_s: float


@contextmanager
def _measured(broker: _Broker, count: float, into: list[_Cost]) -> Iterator[None]:
    cpu_s, began_s = process_cpu_s(broker.pid), time.perf_counter()
    yield
    took_s = time.perf_counter() - began_s
    into.append(_Cost(count / took_s, (process_cpu_s(broker.pid) - cpu_s) / count))


class _Figures:
    """Those of one broker, of all rounds."""

    def __init__(self, broker: _Broker) -> None:
        self._broker = broker
        self.written: list[_Cost] = []
        self.read: list[_Cost] = []
        self.connected: list[_Cost] = []
        self.connection_kib = 0.0

    def add_round(self, mebibytes: int, connections: int) -> None:
        batch, _ = largest_batch(BATCH_BYTES)
        frame, count = produce_frame(TOPIC, 1, batch), mebibytes * MIB // BATCH_BYTES
        with _Connection(self._broker) as connection:
            connection.exchange(frame, IN_FLIGHT)
            with _measured(self._broker, mebibytes, self.written):
                connection.exchange(frame, count)
            with _measured(self._broker, mebibytes, self.read):
                received = connection.exchange(_FETCH, mebibytes)
            assert received > mebibytes * MIB // 2, f"the broker sent {received} bytes only"
        with _measured(self._broker, connections, self.connected):
            for _ in range(connections):
                with _Connection(self._broker) as connection:
                    connection.once(_HELLO)

    def measure_memory(self, connections: int) -> None:
        with ExitStack() as opened:
            for _ in range(WARM_UP):
                opened.enter_context(_Connection(self._broker)).once(_HELLO)
            before_kib = self._broker.used_kib()
            for _ in range(connections):
                opened.enter_context(_Connection(self._broker)).once(_HELLO)
            self.connection_kib = (self._broker.used_kib() - before_kib) / connections

    def row(self, warm_up: int) -> dict[str, Cell]:
        def median_of(costs: list[_Cost]) -> _Cost:
            counted = costs[warm_up:]
            return _Cost(median(each.per_s for each in counted), median(each.cpu_s for each in counted))

        written, read, connected = map(median_of, (self.written, self.read, self.connected))
        return {
            "broker": self._broker.name,
            "in MiB/s": round(written.per_s),
            "CPU s/GiB in": round(written.cpu_s * 1024, 2),
            "out MiB/s": round(read.per_s),
            "CPU s/GiB out": round(read.cpu_s * 1024, 2),
            "connections/s": round(connected.per_s),
            "CPU ms/connection": round(connected.cpu_s * 1_000, 2),
            "KiB/connection": round(self.connection_kib, 1),
        }


# --- brokers -----------------------------------------------------------------------------------------------------


def _with_tls(store: Path) -> dict[str, str]:
    return {
        # Its name is that of the listener which each of the two has.
        "listener.security.protocol.map": "PLAINTEXT:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
    }


@contextmanager
def _kraft(settings: Mapping[str, str], tls: ssl.SSLContext | None) -> Iterator[_Broker]:
    with Cluster(1, overrides={"log.durability": Durability.PAGE_CACHE, **REMOVAL, **settings}) as node:
        name = "kraft" if tls is None else "kraft, TLS"
        yield _Broker(name=name, address=node.kafka_bootstrap_servers, pid=node.nodes[0].pid, tls=tls, is_java=False)


@contextmanager
def _kafka(settings: Mapping[str, str], tls: ssl.SSLContext | None) -> Iterator[_Broker]:
    own = {**REMOVAL, **settings}
    if tls is not None:
        own["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
        # Its requests to itself.
        own |= {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": settings["ssl.keystore.location"],
            "ssl.endpoint.identification.algorithm": "",
        }
    with kafka_processes(fetched_kafka_jars(), own, measured=True) as (broker,):
        name = "kafka" if tls is None else "kafka, TLS"
        yield _Broker(name=name, address=broker.address, pid=broker.pid, tls=tls, is_java=True)


def _make_topic(broker: _Broker) -> None:
    settings: dict[str, Any] = {"bootstrap.servers": broker.address, "log_level": 2}
    if broker.tls is not None:
        settings |= {"security.protocol": "SSL", "enable.ssl.certificate.verification": False}
    admin = AdminClient(settings)
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(DEADLINE_S)


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Rounds that count; the figures are their medians.")] = 3,
    warm_up: Annotated[int, typer.Option(min=0, help="Rounds before them, for Java's compiler.")] = 2,
    mebibytes: Annotated[int, typer.Option(min=1, help="Bytes through one connection in a round, each way.")] = 256,
    connections: Annotated[int, typer.Option(min=1, help="Connections one after the other in a round.")] = 1_000,
    output: Annotated[Output, typer.Option(help="Format of the report.")] = Output.TABLE,
) -> None:
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    with keystore("P-256") as store, ExitStack() as running:
        brokers = [
            running.enter_context(start(settings, tls))
            for start in (_kraft, _kafka)
            for settings, tls in (({}, None), (_with_tls(store), trusting))
        ]
        for broker in brokers:
            _make_topic(broker)
        figures = [_Figures(broker) for broker in brokers]
        for each in figures:
            # Before the rounds leave freed memory behind, which connections would get.
            each.measure_memory(connections)
        for number in range(warm_up + rounds):
            for each in figures:
                each.add_round(mebibytes, connections)
            say(f"round {number + 1} of {warm_up + rounds}")
        rows = [each.row(warm_up) for each in figures]
    notes = [
        "One client on the same machine: requests of 256 KiB and responses of 1 MiB, five at once on one connection.",
        "A connection: TCP, the handshake (P-256, TLS 1.3), and ApiVersions, one after the other.",
        "Memory: what is resident of ours; of Kafka what is used of its heap after a collection.",
        "CPU is the broker's.",
    ]
    print_report(Report(title="TLS of brokers", durability="page cache, acks=1", rows=rows, notes=notes), output)


if __name__ == "__main__":
    typer.run(main)
