"""`python -m benchmarks.quotas`: clients with a quota beside one without, on both listeners.

All clients run at the same time, each with the default quota for itself. After the burst that a quota allows, what
each of them gets in 30 seconds is compared with the quota. Then the limits of one client after the other are lifted for
a moment, and the wait until more passes is measured.

The neighbour has no quota. Its latency is measured before the others begin, beside them, and beside the same clients
without quotas, each of which limits itself to the same rate: what differs between the last two is what quotas cost.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from multiprocessing import get_context
from threading import Event, Thread
from typing import Annotated, Final, Self

import confluent_kafka
import kafka
import typer

import kraft.client
from benchmarks.cpu_clock import process_cpu_s
from benchmarks.report import Cell, Output, Report, print_report
from kraft.client import Admin, KraftError, TopicPartition
from kraft.model.list_offsets import LATEST_TIMESTAMP
from kraft.testing import Cluster
from tests.support.kafka.kafka_jars import fetched_kafka_jars, java_command

RATE: Final = 1 << 20
RECORD: Final = b"r" * 1_000
BURST_S: Final = 12.0
"""The burst is over by then, and so is the first window of Kafka's measure."""

MEASURED_S: Final = 30.0
PACE_S: Final = 0.02
KEYS: Final = ("producer_byte_rate", "consumer_byte_rate")
UNLIMITED: Final = 1e12
READ_TOPIC: Final = "read"
NEIGHBOUR: Final = "neighbour"

_CONSOLE_CONSUMER: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_PRODUCER_PERFORMANCE: Final = "org.apache.kafka.tools.ProducerPerformance"


@dataclass
class Used:
    """How much a client has got, which its thread or process adds to."""

    size_bytes: int = 0
    began_s: float | None = None
    """When it began to limit itself. None: it does not."""

    paced_bytes: int = 0

    def read(self, size_bytes: int) -> None:
        self.size_bytes += size_bytes
        self.pace(size_bytes)

    def pace(self, size_bytes: int) -> None:
        """Wait as long as the client is ahead of its rate, if it limits itself."""
        if self.began_s is None:
            return
        self.paced_bytes += size_bytes
        ahead_s = self.began_s + self.paced_bytes / RATE - time.monotonic()
        # Not for each record: a sleep is hardly shorter than this.
        if ahead_s > PACE_S:
            time.sleep(ahead_s)


Program = Callable[[Cluster, Used, Event], None]
"""Runs until the event is set."""


def _librdkafka_produces(cluster: Cluster, used: Used, over: Event) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": cluster.kafka_bootstrap_servers,
            "client.id": "librdkafka-p",
            "queue.buffering.max.kbytes": 4_096,
        }
    )

    def delivered(error: object, _: object) -> None:
        used.size_bytes += 0 if error else len(RECORD)

    while not over.is_set():
        try:
            producer.produce("librdkafka", RECORD, on_delivery=delivered)
            producer.poll(0)
            used.pace(len(RECORD))
        except BufferError:
            producer.poll(0.05)


def _kafka_python_produces(cluster: Cluster, used: Used, over: Event) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=cluster.kafka_bootstrap_servers, client_id="kafka-python-p")
    with closing(producer):
        while not over.is_set():
            futures = [producer.send("kafka-python", RECORD) for _ in range(200)]
            for future in futures:
                future.get(60)
                used.size_bytes += len(RECORD)
            used.pace(200 * len(RECORD))


def _kraft_produces(cluster: Cluster, used: Used, over: Event) -> None:
    with kraft.client.Producer(cluster.bootstrap_servers, client_id="kraft-p", buffer_memory=4 << 20) as producer:

        def delivered(_: object) -> None:
            used.size_bytes += len(RECORD)

        while not over.is_set():
            producer.send("kraft", RECORD).add_done_callback(delivered)
            used.pace(len(RECORD))


def _java_produces(cluster: Cluster, used: Used, over: Event) -> None:
    settings = (f"bootstrap.servers={cluster.kafka_bootstrap_servers}", "client.id=java-p", "buffer.memory=4194304")
    records_per_s = -1 if used.began_s is None else RATE // len(RECORD)
    size = ("--num-records", "100000000", "--record-size", str(len(RECORD)), "--throughput", str(records_per_s))
    arguments = ("--topic", "java", *size, "--producer-props", *settings)
    command = java_command(fetched_kafka_jars(), _PRODUCER_PERFORMANCE, *arguments)
    with Admin(cluster.bootstrap_servers, client_id=NEIGHBOUR) as admin:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while not over.wait(0.1):
            (end,) = admin.list_offsets({TopicPartition("java", 0): LATEST_TIMESTAMP}).values()
            assert not isinstance(end, KraftError), end
            used.size_bytes = end.offset * len(RECORD)
        process.kill()
        process.wait()


def _librdkafka_consumes(cluster: Cluster, used: Used, over: Event) -> None:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.kafka_bootstrap_servers,
            "client.id": "librdkafka-c",
            "group.id": "quotas",
            "queued.max.messages.kbytes": 2_048,
        }
    )
    with closing(consumer):
        consumer.assign([confluent_kafka.TopicPartition(READ_TOPIC, 0, 0)])
        while not over.is_set():
            used.read(sum(len(each.value() or b"") for each in consumer.consume(1_000, 0.1)))


def _kafka_python_consumes(cluster: Cluster, used: Used, over: Event) -> None:
    consumer = kafka.KafkaConsumer(bootstrap_servers=cluster.kafka_bootstrap_servers, client_id="kafka-python-c")
    with closing(consumer):
        place = kafka.TopicPartition(READ_TOPIC, 0)
        consumer.assign([place])
        consumer.seek(place, 0)
        while not over.is_set():
            used.read(sum(len(each.value) for found in consumer.poll(100).values() for each in found))


def _kraft_consumes(cluster: Cluster, used: Used, over: Event) -> None:
    with kraft.client.Consumer(
        cluster.bootstrap_servers, client_id="kraft-c", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition(READ_TOPIC, 0)])
        while not over.is_set():
            used.read(sum(len(each.value or b"") for each in consumer.poll(timeout_ms=100)))


def _java_consumes(cluster: Cluster, used: Used, over: Event) -> None:
    arguments = ("--bootstrap-server", cluster.kafka_bootstrap_servers, "--topic", READ_TOPIC, "--from-beginning")
    command = java_command(
        fetched_kafka_jars(), _CONSOLE_CONSUMER, *arguments, "--command-property", "client.id=java-c"
    )
    process = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0)
    assert process.stdout is not None
    output = process.stdout

    def count() -> None:
        # Without a buffer it returns what there is.
        while piece := output.read(1 << 16):
            used.read(len(piece))

    reading = Thread(target=count, daemon=True)
    reading.start()
    over.wait()
    process.kill()
    process.wait()
    reading.join()


PROGRAMS: Final[Mapping[str, Program]] = {
    "librdkafka produces": _librdkafka_produces,
    "kafka-python produces": _kafka_python_produces,
    "Java produces": _java_produces,
    "kraft produces (gRPC)": _kraft_produces,
    "librdkafka consumes": _librdkafka_consumes,
    "kafka-python consumes": _kafka_python_consumes,
    "Java consumes": _java_consumes,
    "kraft consumes (gRPC)": _kraft_consumes,
}


CLIENT_IDS: Final = dict(
    zip(
        PROGRAMS,
        [f"{library}-{way}" for way in "pc" for library in ("librdkafka", "kafka-python", "java", "kraft")],
        strict=True,
    )
)


@dataclass(frozen=True, kw_only=True)
class Beside:
    """What the neighbour measured beside some clients, or alone."""

    where: str
    latencies_ms: list[float]
    node_cpu_share: float
    """Processor time of the node meanwhile, of one core's."""

    @property
    def p99_ms(self) -> float:
        return self.latencies_ms[int(len(self.latencies_ms) * 0.99)]

    def __str__(self) -> str:
        p50_ms = self.latencies_ms[len(self.latencies_ms) // 2]
        cpu = f"the node takes {self.node_cpu_share:.0%} of a core"
        return f"{self.where} p99 {self.p99_ms:.1f} ms, p50 {p50_ms:.1f} ms, {cpu}"


def _measured(cluster: Cluster, where: str, seconds: float) -> Beside:
    # A process of its own: in this one it would wait for the other clients' threads.
    with get_context("spawn").Pool(1) as process:
        began_s, began_cpu_s = time.monotonic(), process_cpu_s(cluster.node(1).pid)
        latencies_ms = process.apply(_latencies_ms, (cluster.kafka_bootstrap_servers, seconds))
        took_s, cpu_s = time.monotonic() - began_s, process_cpu_s(cluster.node(1).pid) - began_cpu_s
    return Beside(where=where, latencies_ms=latencies_ms, node_cpu_share=cpu_s / took_s)


def _latencies_ms(servers: str, seconds: float) -> list[float]:
    """Send one record after the other, a hundred in a second, without a quota; return each one's time."""
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "client.id": NEIGHBOUR, "linger.ms": 0})
    found, until_s = list[float](), time.monotonic() + seconds
    while time.monotonic() < until_s:
        began_s = time.monotonic()
        producer.produce(NEIGHBOUR, b"n" * 100)
        producer.flush(60)
        found.append((time.monotonic() - began_s) * 1_000)
        # The rate of a client that is far below what a broker can do.
        time.sleep(0.01)
    return sorted(found)


def _fill(cluster: Cluster) -> None:
    """Write what consumers read: enough for the whole measurement."""
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.kafka_bootstrap_servers, "client.id": NEIGHBOUR})
    for number in range(int((BURST_S + 10 + MEASURED_S + 80) * RATE) // len(RECORD)):
        producer.produce(READ_TOPIC, RECORD)
        if number % 10_000 == 0:
            producer.flush(60)
    producer.flush(60)


def _lifted_s(used: Used, client_id: str, admin: Admin) -> float | None:
    """Lift one client's limits; return when it has got twice what they allow since. None: not in 5 s."""
    before, began_s = used.size_bytes, time.monotonic()
    admin.alter_client_quotas({"client-id": client_id}, dict.fromkeys(KEYS, UNLIMITED))
    found = None
    while found is None and (now_s := time.monotonic() - began_s) < 5:
        if used.size_bytes - before > RATE * (2 * now_s + 0.25):
            found = round(now_s, 2)
        # The client counts in a thread or process of its own, which tells nobody.
        time.sleep(0.02)
    # It would take the others' processor time.
    admin.alter_client_quotas({"client-id": client_id}, dict.fromkeys(KEYS))
    return found


class Running:
    """Clients that run until it ends. `are_limited_by_themselves`: each holds its rate without a quota."""

    def __init__(
        self, cluster: Cluster, programs: Mapping[str, Program], *, are_limited_by_themselves: bool = False
    ) -> None:
        began_s = time.monotonic() if are_limited_by_themselves else None
        self.used = {name: Used(began_s=began_s) for name in programs}
        self._over = Event()
        self._threads = [
            Thread(target=each, args=(cluster, self.used[name], self._over)) for name, each in programs.items()
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        # A JVM takes seconds to start when all of them do.
        time.sleep(BURST_S + 8)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(30)

    def beside(self, cluster: Cluster, where: str) -> tuple[Beside, dict[str, float]]:
        """Return what the neighbour measured, and what share of its rate each client got meanwhile."""
        before, began_s = {name: each.size_bytes for name, each in self.used.items()}, time.monotonic()
        neighbour = _measured(cluster, where, MEASURED_S)
        took_s = time.monotonic() - began_s
        shares = {name: (each.size_bytes - before[name]) / took_s / RATE for name, each in self.used.items()}
        return neighbour, shares


def measure(programs: Mapping[str, Program]) -> Report:
    with Cluster(1) as cluster, Admin(cluster.bootstrap_servers, client_id=NEIGHBOUR) as admin:
        for topic in (READ_TOPIC, NEIGHBOUR, "librdkafka", "kafka-python", "java", "kraft"):
            admin.create_topic(topic, 1, 1)
        _fill(cluster)
        alone = _measured(cluster, "alone", 10)
        admin.alter_client_quotas({"client-id": None}, dict.fromkeys(KEYS, float(RATE)))
        admin.alter_client_quotas({"client-id": NEIGHBOUR}, dict.fromkeys(KEYS, UNLIMITED))
        with Running(cluster, programs) as limited:
            with_quotas, shares = limited.beside(cluster, "beside clients with quotas")
            lifted = {name: _lifted_s(each, CLIENT_IDS[name], admin) for name, each in limited.used.items()}
        admin.alter_client_quotas({"client-id": None}, dict.fromkeys(KEYS))
        admin.alter_client_quotas({"client-id": NEIGHBOUR}, dict.fromkeys(KEYS))
        with Running(cluster, programs, are_limited_by_themselves=True) as control:
            themselves, control_shares = control.beside(cluster, "beside clients that limit themselves")
    rows: list[dict[str, Cell]] = [
        {
            "client": name,
            "share of the quota": round(shares[name], 3),
            "goes on after s": lifted[name],
            "share of its own limit": round(control_shares[name], 3),
        }
        for name in programs
    ]
    return Report(
        title="Clients with a quota of 1 MiB/s each",
        durability="acknowledged by one node, which syncs",
        rows=rows,
        notes=(
            f"Neighbour without a quota: {alone}; {themselves}; {with_quotas}.",
            f"Its p99 beside quotas is {with_quotas.p99_ms / themselves.p99_ms:.2f} times the one without them.",
            f"Shares are of the bytes of values in {MEASURED_S:g} s; the quota counts what is around them, too.",
        ),
    )


app = typer.Typer(add_completion=False)


@app.command()
def main(
    only: Annotated[str, typer.Option(help="Clients whose names have this in them.")] = "",
    output: Annotated[Output, typer.Option(help="For people or for programs.")] = Output.TABLE,
) -> None:
    """What clients get of their quotas, and what their neighbour notices."""
    print_report(measure({name: each for name, each in PROGRAMS.items() if only in name}), output)


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.quotas")
