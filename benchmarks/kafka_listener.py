"""`python -m benchmarks.kafka_listener`: what goes in and out through Kafka's protocol, with librdkafka as the load.

One node with acks=1, beside two servers that keep no state; or a cluster with acks=all, synced and in the page cache.
With a prepared load, only what goes in: the load then leaves the cores to the servers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import typer
from rich.progress import Progress

from benchmarks import kafka_load, lone_record
from benchmarks.bare_kafka_loop import HOST, Kind
from benchmarks.kafka_load import Flow, Latencies, LoadFailed
from benchmarks.loads import Load, produce_with
from benchmarks.report import Cell, Output, Report, print_report
from benchmarks.servers import OWN_NAMES, Server, beside_server, kafka, nodes
from kraft.server.config.values import Durability
from tests.support.maven_jars import JarsMissing

RECORDS: Final = 500_000
ROUNDS: Final = 3
PINGS: Final = 5_000
BATCH_BYTES: Final = (65_536, 1_000_000)
"""A usual batch, and librdkafka's default."""

NODES_MAX: Final = 5
WARM_UP_RECORDS_MAX: Final = 10_000_000

DEADLINE_S: Final = 30

_REMOVED_S: Final = 2.5
"""Time in which brokers remove the files of a topic, with the key of REMOVAL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured."""

    records: int = RECORDS
    rounds: int = ROUNDS
    pings: int = PINGS
    nodes: int = 1
    warm_up_records: int = 0
    """Produced to each server before the first round, beside what each load warms up with: for Java's compiler."""
    load: Load = Load.LIBRDKAFKA
    """Prepared: in only, without pings."""
    pause_s: float = _REMOVED_S
    """After each flow and warm-up, while its files are removed."""

    @property
    def acks(self) -> int:
        return 1 if self.nodes == 1 else -1


@dataclass(slots=True, kw_only=True)
class Figures:
    """Figures of one server with batches of one size, one value for each round."""

    flows_in: list[Flow] = field(default_factory=list)
    flows_out: list[Flow] = field(default_factory=list)
    in_us: list[float] = field(default_factory=list)
    out_us: list[float] = field(default_factory=list)


def measure(servers: Sequence[Server], plan: Plan, of: Server) -> Report:
    """Measure the servers in turns; ratios are beside `of`."""
    started_mib = {server.name: server.resident_mib() for server in servers}
    figures = {(server.name, size): Figures() for size in BATCH_BYTES for server in servers}
    latencies: dict[str, list[Latencies]] = {server.name: [] for server in servers}
    alone_us: dict[str, list[float]] = {server.name: [] for server in servers}
    with Progress(transient=True) as progress:
        if plan.warm_up_records:
            for server in progress.track(servers, description="warming up"):
                _warm_up(server, plan)
        for number in progress.track(range(plan.rounds), description="measuring"):
            # Who is first differs, so that none always follows the same other one.
            turns = (*servers[number % len(servers) :], *servers[: number % len(servers)])
            for size in BATCH_BYTES:
                for server in turns:
                    _flow(server, f"flow-{size}-{number}", plan, size, figures[server.name, size])
            if plan.load is Load.PREPARED:
                continue
            for server in turns:
                server.topics.make(f"ping-{number}", 1)
                found = kafka_load.ping(server.address, f"ping-{number}", plan.pings, plan.acks)
                latencies[server.name].append(found)
            if plan.nodes == 1:
                for server in turns:
                    alone_us[server.name].append(_alone_us(server, f"ping-{number}", plan))
    rows = [_flows(server, size, figures, of) for size in BATCH_BYTES for server in servers]
    # What does not depend on the size of batches stands in the first row of each server.
    for row, server in zip(rows, servers, strict=False):
        row |= _of_server(server, latencies[server.name], alone_us[server.name], started_mib[server.name])
    for row in rows[len(servers) :]:
        row |= {name: None for name in rows[0] if name not in row}
    acks, replicas = ("1", "one replica") if plan.nodes == 1 else ("all", f"{plan.nodes} replicas")
    values = f"{kafka_load.VALUE_BYTES}-byte values"
    return Report(
        title=f"Kafka's protocol: {plan.load} load, {values}, one partition, {replicas}, acks={acks}",
        durability="page cache, unless a name says synced: what is written counts, and is synced later",
        rows=rows,
        notes=_notes(plan, of),
    )


def _notes(plan: Plan, of: Server) -> list[str]:
    has_pings, is_one_node = plan.load is Load.LIBRDKAFKA, plan.nodes == 1
    notes = [
        f"Medians of {plan.rounds} rounds of {plan.records:,} records, the servers in turns, on the load's cores.",
        plan.load.meaning,
        f"Before the first round, {plan.warm_up_records:,} records went to each server, in batches of each size.",
        "us: CPU of all the server's processes, a record, in the kernel and outside of it.",
        "load us: the same of the load. If it is above that of the server, the load may be the limit, not the server.",
        f"x: beside {of.name}.",
    ]
    if has_pings:
        rate = f"{kafka_load.PING_RATE_HZ:,} records a second, each sent at once, {plan.pings:,} a round"
        notes.append(f"p50 and p99: {rate}.")
    if has_pings and is_one_node:
        notes.append("alone us: median of one request after the other over a bare socket; least: of the best round.")
    if is_one_node:
        notes += [
            "bare loop: decodes a request, computes its checksum, writes it to a file, and keeps no state.",
            "floor: receives, writes and sends, and looks at no request. Both answer fetches from memory.",
        ]
    return notes


def _warm_up(server: Server, plan: Plan) -> None:
    records = max(1, plan.warm_up_records // len(BATCH_BYTES))
    server.topics.make("warm-up", 1)
    for size in BATCH_BYTES:
        produce_with(plan.load)(server.address, "warm-up", records, size, plan.acks)
    _remove(server, "warm-up", plan)


def _flow(server: Server, topic: str, plan: Plan, batch_bytes: int, into: Figures) -> None:
    server.topics.make(topic, 1)
    before_s = server.cpu_s()
    flow_in = produce_with(plan.load)(server.address, topic, plan.records, batch_bytes, plan.acks)
    into.flows_in.append(flow_in)
    between_s = server.cpu_s()
    into.in_us.append((between_s - before_s) / flow_in.all_records * 1e6)
    if plan.load is Load.LIBRDKAFKA:
        flow_out = kafka_load.consume(server.address, topic, plan.records)
        into.flows_out.append(flow_out)
        into.out_us.append((server.cpu_s() - between_s) / flow_out.all_records * 1e6)
    _remove(server, topic, plan)


def _remove(server: Server, topic: str, plan: Plan) -> None:
    """Remove a topic, so that the next flow uses its memory again.

    On a virtual machine, the first use of memory can cost more than all that a broker does.
    """
    server.topics.remove(topic)
    # A pause and not a wait: no broker says when it has removed files. If it takes longer, rates are less steady.
    time.sleep(plan.pause_s)


def _flows(server: Server, size: int, figures: dict[tuple[str, int], Figures], of: Server) -> dict[str, Cell]:
    own, beside = figures[server.name, size], figures[of.name, size]
    row: dict[str, Cell] = {"server": server.name, "batch bytes": size}
    row |= _direction("in", own.flows_in, own.in_us, beside.flows_in)
    if own.flows_out:
        row |= _direction("out", own.flows_out, own.out_us, beside.flows_out)
    return row


def _of_server(
    server: Server, latencies: Sequence[Latencies], alone_us: Sequence[float], started_mib: float
) -> dict[str, Cell]:
    row: dict[str, Cell] = {}
    if latencies:
        row = {
            "p50 ms": median(latency.p50_ms for latency in latencies),
            "p99 ms": median(latency.p99_ms for latency in latencies),
            "alone us": median(alone_us) if alone_us else None,
            "least": min(alone_us, default=None),
        }
    return row | {"MiB start": round(started_mib), "MiB loaded": round(server.resident_mib())}


def _direction(name: str, flows: Sequence[Flow], us: Sequence[float], beside: Sequence[Flow]) -> dict[str, Cell]:
    records_per_s = _rate(flows)
    return {
        f"{name}: records/s": round(records_per_s),
        f"{name}: MB/s": round(records_per_s * kafka_load.VALUE_BYTES / 1e6),
        f"{name}: x": records_per_s / _rate(beside),
        f"{name}: us": median(us),
        f"{name}: load us": median(flow.load_us for flow in flows),
    }


def _alone_us(server: Server, topic: str, plan: Plan) -> float:
    return median(lone_record.latencies_us(server.address, topic, plan.pings, plan.acks, kafka_load.VALUE_BYTES))


def _rate(flows: Sequence[Flow]) -> float:
    return median(flow.records_per_s for flow in flows)


# --- the servers -------------------------------------------------------------------------------------------------


class _OneFile:
    """Topics of a server that has every topic, in one file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def make(self, topic: str, partitions: int) -> None:
        """Do nothing: each topic is there."""

    def remove(self, topic: str) -> None:
        os.truncate(self._path, 0)


@contextmanager
def _bare(name: str, kind: Kind) -> Iterator[Server]:
    # In a session of its own, as nodes are: Linux shares a busy CPU between sessions first, and in the session of the
    # load the answers of this server would come a hundred times sooner.
    pipe = subprocess.PIPE
    with (
        TemporaryDirectory(prefix="bare-") as directory,
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.bare_kafka_loop", kind, Path(directory, "requests")],
            stdin=pipe,
            stdout=pipe,
            text=True,
            start_new_session=True,
        ) as process,
    ):
        assert process.stdin is not None, "asked for"
        assert process.stdout is not None, "asked for"
        port = int(process.stdout.readline())
        try:
            yield Server(
                name=name,
                address=f"{HOST}:{port}",
                pids=(process.pid,),
                topics=_OneFile(Path(directory, "requests")),
            )
        finally:
            process.stdin.close()
            process.wait(DEADLINE_S)


@contextmanager
def _servers(
    plan: Plan, durability: Sequence[Durability], beside: Sequence[Server], *, has_kafka: bool
) -> Iterator[list[Server]]:
    """Ours, then the other brokers, and, beside a single node, the bare loop and the floor."""
    with ExitStack() as running:
        servers = [running.enter_context(nodes(plan.nodes, each)) for each in durability]
        servers += beside
        if has_kafka:
            servers.append(running.enter_context(kafka(plan.nodes)))
        if plan.nodes == 1:
            servers.append(running.enter_context(_bare("bare loop", Kind.LOOP)))
            servers.append(running.enter_context(_bare("floor", Kind.FLOOR)))
        yield servers


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    records: Annotated[int, typer.Option(min=10_000, help="In and out, in each round.")] = RECORDS,
    rounds: Annotated[int, typer.Option(min=1)] = ROUNDS,
    pings: Annotated[int, typer.Option(min=100, help="Whose latency is taken, in each round.")] = PINGS,
    node_count: Annotated[
        int, typer.Option("--nodes", min=1, max=NODES_MAX, help="With more than one: acks=all, as many replicas.")
    ] = 1,
    warm_up: Annotated[
        int, typer.Option(min=0, max=WARM_UP_RECORDS_MAX, help="Records to each server before the first round.")
    ] = 0,
    load: Annotated[Load, typer.Option(help="prepared costs next to nothing, and measures what goes in only.")] = (
        Load.LIBRDKAFKA
    ),
    durability: Annotated[
        list[Durability] | None,
        typer.Option(help="Of ours; several times for several. By default page-cache, with more nodes both."),
    ] = None,
    has_kafka: Annotated[bool, typer.Option("--kafka", help="Apache Kafka beside us, from Maven's jars.")] = False,
    beside: Annotated[
        list[str] | None, typer.Option(help="NAME=HOST:PORT,PID of another broker that runs, with no records yet.")
    ] = None,
    output: Annotated[Output, typer.Option(help="For people or for programs.")] = Output.TABLE,
) -> None:
    """Records in and out, latency, CPU and memory, beside Kafka and beside servers that keep no state."""
    plan = Plan(records=records, rounds=rounds, pings=pings, nodes=node_count, warm_up_records=warm_up, load=load)
    durability = durability or ([Durability.PAGE_CACHE] if node_count == 1 else list(OWN_NAMES))
    others = list(map(beside_server, beside or ()))
    try:
        with _servers(plan, durability, others, has_kafka=has_kafka) as servers:
            by_name = {server.name: server for server in servers}
            of = by_name.get("kafka") or by_name.get("bare loop") or servers[0]
            print_report(measure(servers, plan, of), output)
    except (JarsMissing, LoadFailed) as failed:
        raise SystemExit(f"kafka_listener: {failed}") from None


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.kafka_listener")
