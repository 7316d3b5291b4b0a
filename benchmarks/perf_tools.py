"""`kraft perf` beside Kafka's own tools, on the same broker: `python -m benchmarks.perf_tools`.

One node of Kraft. In each round every tool has one turn at each of three works: records stored as fast as they are
taken, all of them read, and single records timed from end to end. The tools take turns, so that what else the machine
does meets all of them; the table has medians. CPU is that of the tool's process, its start included.
"""

from __future__ import annotations

import json
import re
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Final, TypeAlias

import typer

from benchmarks.report import Cell, Output, Report, print_report, say
from kraft.client import Admin
from kraft.testing import Cluster
from tests.support.kafka.kafka_jars import fetched_kafka_jars, server_command

PARTITIONS: Final = 4
RECORD_BYTES: Final = 100
DEADLINE_S: Final = 600.0
_ONE: Final = {"offsets.topic.replication.factor": "1", "group.initial.rebalance.delay.ms": "0"}
_KAFKAS: Final = "org.apache.kafka.tools"

Figures: TypeAlias = dict[str, float]
Tool: TypeAlias = Callable[[Cluster, str, int, int], Figures]
"""Does all three works: gets the cluster, a topic of its own, the number of records, and of those that are timed."""


def run(command: list[str]) -> tuple[str, float]:
    """Return the output, and the CPU seconds of the process. Raises RuntimeError if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-1_000:]}{done.stderr[-1_000:]}")
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def kraft_perf(cluster: Cluster, topic: str, records: int, timed: int, *, wire: str) -> Figures:
    servers = cluster.kafka_bootstrap_servers if wire == "kafka" else cluster.bootstrap_servers
    file = cluster.directory / f"{wire}.properties"
    file.write_text(f"wire.protocol={wire}\n")
    more = [topic, "--bootstrap-server", servers, "--command-config", str(file), "--output", "json"]
    count, size = ["--num-records", str(records)], ["--record-size", str(RECORD_BYTES)]
    perf = [sys.executable, "-m", "kraft", "perf"]
    sent, produce_cpu_s = run([*perf, "produce", *more, *count, *size])
    read, consume_cpu_s = run([*perf, "consume", *more, *count])
    late = json.loads(run([*perf, "latency", *more, "--num-records", str(timed), *size])[0])
    return {
        "produce records/s": json.loads(sent)["records_per_s"],
        "produce CPU s": produce_cpu_s,
        "consume records/s": json.loads(read)["fetch"]["records_per_s"],
        "consume CPU s": consume_cpu_s,
        "latency mean ms": late["mean_ms"],
        "latency 99th ms": late["percentiles_ms"]["99"],
    }


def kafkas_tools(cluster: Cluster, topic: str, records: int, timed: int) -> Figures:
    tool = partial(server_command, fetched_kafka_jars())
    servers = cluster.kafka_bootstrap_servers
    count = ("--topic", topic, "--num-records", str(records))
    size = ("--record-size", str(RECORD_BYTES))
    props = ("--throughput", "-1", "--bootstrap-server", servers)
    sent, produce_cpu_s = run(tool(f"{_KAFKAS}.ProducerPerformance", *count, *size, *props))
    read, consume_cpu_s = run(tool(f"{_KAFKAS}.ConsumerPerformance", *count, "--bootstrap-server", servers))
    late, _ = run(
        tool(
            f"{_KAFKAS}.EndToEndLatency",
            *("--bootstrap-server", servers, "--topic", topic, "--num-records", str(timed)),
            *("--producer-acks", "all", *size),
        )
    )
    *_, summary = sent.strip().splitlines()
    *_, row = read.strip().splitlines()
    return {
        "produce records/s": _number(r"([\d.]+) records/sec", summary),
        "produce CPU s": produce_cpu_s,
        "consume records/s": float(row.split(",")[-1]),
        "consume CPU s": consume_cpu_s,
        "latency mean ms": _number(r"Avg latency: ([\d.]+) ms", late),
        "latency 99th ms": _number(r"99th = ([\d.]+)", late),
    }


def _number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    if found is None:
        raise RuntimeError(f"{pattern!r} is not in {text[-300:]!r}")
    return float(found[1])


TOOLS: Final[Mapping[str, Tool]] = {
    "kraft perf": partial(kraft_perf, wire="grpc"),
    "kraft perf, Kafka's protocol": partial(kraft_perf, wire="kafka"),
    "Kafka's tools": kafkas_tools,
}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    records: Annotated[int, typer.Option(min=1_000)] = 1_000_000,
    timed: Annotated[int, typer.Option(min=10, help="Records that are timed one by one.")] = 2_000,
    rounds: Annotated[int, typer.Option(min=1)] = 5,
    output: Output = Output.TABLE,
) -> None:
    """Let each tool have its turn in each round."""
    found: dict[str, list[Figures]] = {each: [] for each in TOOLS}
    with Cluster(1, overrides=_ONE) as cluster, Admin(cluster.bootstrap_servers) as admin:
        for number in range(rounds):
            for at, (name, tool) in enumerate(TOOLS.items()):
                say(f"round {number + 1} of {rounds}: {name}")
                topic = f"perf-{number}-{at}"
                admin.create_topic(topic, PARTITIONS, 1)
                found[name].append(tool(cluster, topic, records, timed))
                admin.delete_topics([topic])
    titles = list(next(iter(found.values()))[0])
    rows: list[dict[str, Cell]] = [{"tool": name, **_medians(titles, each)} for name, each in found.items()]
    print_report(
        Report(
            title=f"{records:,} records of {RECORD_BYTES} bytes, {PARTITIONS} partitions; medians of {rounds} rounds",
            durability="acks=all, synced by one node",
            rows=rows,
            notes=["Reading: the rate without the time to join the group. Latency: one record after the other."],
        ),
        output,
    )


def _medians(titles: list[str], rounds: list[Figures]) -> dict[str, Cell]:
    return {title: round(statistics.median(each[title] for each in rounds), 2) for title in titles}


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.perf_tools")
