"""`python -m benchmarks.kafka_listener`: what goes in and out through Kafka's protocol, with librdkafka as the load."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Annotated, Final

import typer
from rich.progress import Progress

from benchmarks import kafka_load
from benchmarks.bare_kafka_loop import HOST
from benchmarks.kafka_load import Flow, Latencies
from benchmarks.report import Cell, Output, Report, print_report
from benchmarks.servers import Server, beside_server, node

RECORDS: Final = 500_000
ROUNDS: Final = 3
PINGS: Final = 5_000
BATCH_BYTES: Final = (65_536, 1_000_000)
"""A usual batch, and librdkafka's default."""

DEADLINE_S: Final = 30
MIB: Final = 1 << 20
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True, kw_only=True)
class Figures:
    """Figures of one server with batches of one size, one value for each round."""

    flows_in: list[Flow] = field(default_factory=list)
    flows_out: list[Flow] = field(default_factory=list)
    in_us: list[float] = field(default_factory=list)
    out_us: list[float] = field(default_factory=list)


def measure(servers: Sequence[Server], records: int, rounds: int, pings: int) -> Report:
    started_mib = {server.name: server.resident_mib() for server in servers}
    figures = {(server.name, size): Figures() for size in BATCH_BYTES for server in servers}
    latencies: dict[str, list[Latencies]] = {server.name: [] for server in servers}
    with Progress(transient=True) as progress:
        for number in progress.track(range(rounds), description="measuring"):
            for size in BATCH_BYTES:
                for server in servers:
                    _flow(server, f"flow-{size}-{number}", records, size, figures[server.name, size])
            for server in servers:
                server.make_topic(f"ping-{number}", 1)
                latencies[server.name].append(kafka_load.ping(server.address, f"ping-{number}", pings))
    rows = [
        _row(server, size, figures, latencies[server.name], started_mib[server.name], of=servers[-1])
        for size in BATCH_BYTES
        for server in servers
    ]
    return Report(
        title=f"Kafka's protocol: librdkafka, {kafka_load.VALUE_BYTES}-byte values, one partition, acks=1",
        durability="page cache: what is written counts, nothing is synced before it is acknowledged",
        rows=rows,
        notes=[
            f"Medians of {rounds} rounds of {records:,} records, the servers in turns; the load has the same cores.",
            f"p50 and p99: {kafka_load.PING_RATE_HZ:,} records a second, each sent at once, {pings:,} a round.",
            "us: of the server's CPU, a record, in the kernel and outside of it.",
            f"x: beside {servers[-1].name}, which keeps nothing, checks nothing and answers from memory.",
        ],
    )


def _flow(server: Server, topic: str, records: int, batch_bytes: int, into: Figures) -> None:
    server.make_topic(topic, 1)
    before_s = server.cpu_s()
    into.flows_in.append(kafka_load.produce(server.address, topic, records, batch_bytes))
    between_s = server.cpu_s()
    into.flows_out.append(kafka_load.consume(server.address, topic, records))
    into.in_us.append((between_s - before_s) / (records + kafka_load.WARM_UP_RECORDS) * 1e6)
    into.out_us.append((server.cpu_s() - between_s) / records * 1e6)


def _row(
    server: Server,
    size: int,
    figures: dict[tuple[str, int], Figures],
    latencies: Sequence[Latencies],
    started_mib: float,
    of: Server,
) -> dict[str, Cell]:
    own, limit = figures[server.name, size], figures[of.name, size]
    records_in, records_out = _rate(own.flows_in), _rate(own.flows_out)
    return {
        "server": server.name,
        "batch KB": size // 1_000,
        "in: records/s": round(records_in),
        "in: MB/s": round(records_in * kafka_load.VALUE_BYTES / 1e6),
        "in: x": records_in / _rate(limit.flows_in),
        "in: us": median(own.in_us),
        "out: records/s": round(records_out),
        "out: MB/s": round(records_out * kafka_load.VALUE_BYTES / 1e6),
        "out: x": records_out / _rate(limit.flows_out),
        "out: us": median(own.out_us),
        "p50 ms": median(latency.p50_ms for latency in latencies),
        "p99 ms": median(latency.p99_ms for latency in latencies),
        "MiB start": round(started_mib),
        "MiB loaded": round(server.resident_mib()),
    }


def _rate(flows: Sequence[Flow]) -> float:
    return median(flow.records_per_s for flow in flows)


# --- the servers -------------------------------------------------------------------------------------------------


@contextmanager
def _bare_loop() -> Iterator[Server]:
    command = [sys.executable, "-m", "benchmarks.bare_kafka_loop"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None, "asked for"
        assert process.stdout is not None, "asked for"
        port = int(process.stdout.readline())
        try:
            yield Server(
                name="bare loop",
                address=f"{HOST}:{port}",
                pids=(process.pid,),
                make_topic=lambda topic, partitions: None,
            )
        finally:
            process.stdin.close()
            process.wait(DEADLINE_S)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    records: Annotated[int, typer.Option(min=10_000, help="In and out, in each round.")] = RECORDS,
    rounds: Annotated[int, typer.Option(min=1)] = ROUNDS,
    pings: Annotated[int, typer.Option(min=100, help="Whose latency is taken, in each round.")] = PINGS,
    beside: Annotated[
        list[str] | None, typer.Option(help="NAME=HOST:PORT,PID of another broker that runs, with no records yet.")
    ] = None,
    output: Annotated[Output, typer.Option(help="For people or for programs.")] = Output.TABLE,
) -> None:
    """Records in and out, latency, CPU and memory of one node, beside a loop that accepts and forgets."""
    others = [beside_server(text) for text in beside or ()]
    with ExitStack() as running:
        servers = [running.enter_context(node()), *others, running.enter_context(_bare_loop())]
        print_report(measure(servers, records, rounds, pings), output)


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.kafka_listener")
