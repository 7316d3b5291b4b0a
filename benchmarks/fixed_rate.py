"""`python -m benchmarks.fixed_rate`: CPU that a cluster takes for one batch, at rates below what it could take.

As fast as it goes, a follower gets many batches in one fetch, which hides what a fetch costs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import Annotated, Final

import typer
from rich.progress import Progress

from benchmarks import prepared_load
from benchmarks.kafka_load import VALUE_BYTES, LoadFailed
from benchmarks.report import Cell, Output, Report, print_report
from benchmarks.servers import Server, beside_server, nodes
from kraft.model.produce import ACKS_ALL
from kraft.server.config.values import Durability

NODES_MAX: Final = 5
ROUNDS: Final = 3
SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Pace:
    """Batches of one size at one rate."""

    batches_per_s: float
    batch_bytes: int
    """At most; but a batch has one record at least."""


PACES: Final = (Pace(200, 65_536), Pace(40, 983_040), Pace(1_000, 1))
"""The last one: lone records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured."""

    rounds: int = ROUNDS
    seconds: float = SECONDS
    """Time of each pace in each round, and of the idle cluster before."""
    paces: Sequence[Pace] = PACES


@dataclass(slots=True, kw_only=True)
class Figures:
    """Figures of one cluster at one pace, one value for each round."""

    batches_per_s: list[float] = field(default_factory=list)
    us: list[float] = field(default_factory=list)
    load_us: list[float] = field(default_factory=list)
    """Both for a batch."""


def measure(servers: Sequence[Server], plan: Plan) -> Report:
    """Measure the clusters in turns."""
    figures = {(server.name, pace): Figures() for pace in plan.paces for server in servers}
    idle: dict[str, list[float]] = {server.name: [] for server in servers}
    with Progress(transient=True) as progress:
        for number in progress.track(range(plan.rounds), description="measuring"):
            for server in servers:
                idle[server.name].append(idle_cores(server, plan.seconds))
            for place, pace in enumerate(plan.paces):
                for server in servers:
                    topic = f"pace-{place}-{number}"
                    _measure_once(server, topic, pace, plan, idle[server.name][-1], figures[server.name, pace])
    return Report(
        title=f"CPU of a batch at fixed rates: one partition, {len(servers[0].pids)} replicas, acks=all,"
        f" {VALUE_BYTES}-byte values",
        durability="page cache, unless a name says synced: what is written counts, and is synced later",
        rows=[
            _row(server, pace, figures[server.name, pace], idle[server.name])
            for pace in plan.paces
            for server in servers
        ],
        notes=[
            f"Medians of {plan.rounds} rounds of {plan.seconds:g} s, the clusters in turns, on the load's cores.",
            "us: CPU of all nodes, a batch, after that of the idle cluster was taken off; least: of the best round.",
            "load us: CPU of the load, a batch. It sends one request, encoded once, again and again.",
            "idle %: of one core, all nodes together, before each round.",
            "batches/s below the rate: the cluster, or the load, has not kept up.",
        ],
    )


def idle_cores(server: Server, seconds: float) -> float:
    """Return the part of a core that the server takes without clients."""
    before_s, began_s = server.cpu_s(), time.monotonic()
    time.sleep(seconds)
    return (server.cpu_s() - before_s) / (time.monotonic() - began_s)


def _measure_once(server: Server, topic: str, pace: Pace, plan: Plan, idle: float, into: Figures) -> None:
    batch_records = prepared_load.largest_batch(pace.batch_bytes)[1]
    batches = max(1, round(pace.batches_per_s * plan.seconds))
    server.topics.make(topic, 1)
    before_s, began_s = server.cpu_s(), time.monotonic()
    flow = prepared_load.produce_at(
        server.address, topic, batches * batch_records, pace.batch_bytes, ACKS_ALL, pace.batches_per_s
    )
    used_s = server.cpu_s() - before_s - idle * (time.monotonic() - began_s)
    into.batches_per_s.append(flow.records_per_s / batch_records)
    into.us.append(used_s / flow.all_records * batch_records * 1e6)
    into.load_us.append(flow.load_us * batch_records)


def _row(server: Server, pace: Pace, own: Figures, idle: Sequence[float]) -> dict[str, Cell]:
    batch, records = prepared_load.largest_batch(pace.batch_bytes)
    return {
        "server": server.name,
        "rate": pace.batches_per_s,
        "batch bytes": len(batch),
        "records": records,
        "batches/s": median(own.batches_per_s),
        "us": median(own.us),
        "least": min(own.us),
        "load us": median(own.load_us),
        "idle %": 100 * median(idle),
    }


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    rounds: Annotated[int, typer.Option(min=1)] = ROUNDS,
    seconds: Annotated[float, typer.Option(min=0.1, help="Of each rate in each round, and idle before it.")] = SECONDS,
    node_count: Annotated[int, typer.Option("--nodes", min=1, max=NODES_MAX, help="Nodes, and replicas.")] = 3,
    beside: Annotated[
        list[str] | None,
        typer.Option(help="NAME=HOST:PORT,PID of another broker that runs; with one PID for each node of a cluster."),
    ] = None,
    durability: Annotated[Durability, typer.Option(help="Of ours.")] = Durability.PAGE_CACHE,
    output: Annotated[Output, typer.Option(help="For people or for programs.")] = Output.TABLE,
) -> None:
    """CPU of a cluster for one batch at rates of 200, 40 and 1,000 batches a second."""
    others = [beside_server(text) for text in beside or ()]
    try:
        with ExitStack() as running:
            servers = [running.enter_context(nodes(node_count, durability)), *others]
            print_report(measure(servers, Plan(rounds=rounds, seconds=seconds)), output)
    except LoadFailed as failed:
        raise SystemExit(f"fixed_rate: {failed}") from None


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.fixed_rate")
