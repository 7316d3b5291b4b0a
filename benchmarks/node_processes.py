"""`python -m benchmarks.node_processes`: one configuration file with one process and with several, under the same load.

Each producer has a partition and a process of its own. The CPU of all processes together says what the division costs,
that of the busiest one when a core is full.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Annotated, Final

import psutil
import typer
from rich.progress import Progress

from benchmarks.cpu_clock import process_cpu_s
from benchmarks.kafka_load import VALUE_BYTES, Flow, LoadFailed
from benchmarks.loads import Load, produce_with
from benchmarks.report import Cell, Output, Report, print_report
from benchmarks.servers import AdminTopics, Server
from kraft.local import background_start
from kraft.local.background_start import NotStarted
from kraft.local.cluster_files import HOST
from kraft.local.free_ports import ReservedPorts
from kraft.server.config import loading
from kraft.server.config.processes import PORT_STEP
from kraft.server.config.values import Durability

PROCESSES: Final = (1, 2, 4)
PROCESSES_MAX: Final = 64
RECORDS: Final = 500_000
ROUNDS: Final = 3
BATCH_BYTES: Final = 65_536

DEADLINE_S: Final = 60.0

_LISTENERS: Final = ("PLAINTEXT", "GRPC", "CONTROLLER")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured."""

    partitions: int
    """With a producer each."""
    records: int = RECORDS
    """Of all producers together, in each round."""
    rounds: int = ROUNDS
    batch_bytes: int = BATCH_BYTES
    load: Load = Load.LIBRDKAFKA


@dataclass(slots=True, kw_only=True)
class Figures:
    """Figures of one file, one value for each round."""

    records_per_s: list[float] = field(default_factory=list)
    together_us: list[float] = field(default_factory=list)
    busiest_us: list[float] = field(default_factory=list)
    load_us: list[float] = field(default_factory=list)


def measure(servers: Sequence[Server], plan: Plan) -> Report:
    """Measure the servers in turns; ratios are beside the first of them."""
    figures = {server.name: Figures() for server in servers}
    with Progress(transient=True) as progress:
        for number in progress.track(range(plan.rounds), description="measuring"):
            # Who is first differs, so that none always follows the same other one.
            turns = (*servers[number % len(servers) :], *servers[: number % len(servers)])
            for server in turns:
                _measure_once(server, f"flow-{number}", plan, figures[server.name])
    return Report(
        title=f"Processes of one file: {plan.load} load, {plan.partitions} producers with a partition each,"
        f" {VALUE_BYTES}-byte values, batches of {plan.batch_bytes:,} bytes, one replica, acks=1",
        durability="page cache: what is written counts, and is synced later",
        rows=[_row(server, figures[server.name], figures[servers[0].name]) for server in servers],
        notes=[
            f"Medians of {plan.rounds} rounds of {plan.records:,} records, the files in turns, on the load's cores.",
            plan.load.meaning,
            "records/s: from the first producer's first record until the last one has its last response.",
            "us: CPU a record of all processes of the file, in the kernel and outside of it; busiest: of one of them.",
            "load us: the same of all producers. It is taken from the same cores, so it limits the rate, too.",
            "x: beside the first row.",
        ],
    )


def _measure_once(server: Server, topic: str, plan: Plan, into: Figures) -> None:
    server.topics.make(topic, plan.partitions)
    before_s = {pid: process_cpu_s(pid) for pid in server.pids}
    flows = _flows(server, topic, plan)
    used_s = [process_cpu_s(pid) - before_s[pid] for pid in server.pids]
    records = sum(flow.all_records for flow in flows)
    into.records_per_s.append(together_per_s(flows))
    into.together_us.append(sum(used_s) / records * 1e6)
    into.busiest_us.append(max(used_s) / records * 1e6)
    into.load_us.append(sum(flow.cpu_s for flow in flows) / sum(flow.records for flow in flows) * 1e6)


def _flows(server: Server, topic: str, plan: Plan) -> list[Flow]:
    produce, records = produce_with(plan.load), max(1, plan.records // plan.partitions)
    with ThreadPoolExecutor(plan.partitions) as threads:
        started = [
            threads.submit(produce, server.address, topic, records, plan.batch_bytes, partition=partition)
            for partition in range(plan.partitions)
        ]
        return [each.result() for each in started]


def together_per_s(flows: Sequence[Flow]) -> float:
    """Return the rate of flows that overlap, from the begin of the first to the end of the last."""
    ended_s = max(flow.began_s + flow.seconds for flow in flows)
    return sum(flow.records for flow in flows) / (ended_s - min(flow.began_s for flow in flows))


def _row(server: Server, own: Figures, first: Figures) -> dict[str, Cell]:
    records_per_s = median(own.records_per_s)
    return {
        "processes": len(server.pids),
        "records/s": round(records_per_s),
        "MB/s": round(records_per_s * VALUE_BYTES / 1e6),
        "x": records_per_s / median(first.records_per_s),
        "us": median(own.together_us),
        "busiest us": median(own.busiest_us),
        "load us": median(own.load_us),
        "MiB loaded": round(server.resident_mib()),
    }


@contextmanager
def processes_of_one_file(count: int) -> Iterator[Server]:
    """Run a node of so many processes for the duration of the context. Raises NotStarted."""
    apart = [number * PORT_STEP for number in range(count)]
    with (
        tempfile.TemporaryDirectory(prefix="kraft-benchmark-") as directory,
        ReservedPorts(len(_LISTENERS), apart) as ports,
    ):
        file = Path(directory) / "server.properties"
        file.write_text(
            f"process.roles=broker,controller\nnode.id=1\nnode.processes={count}\nlog.dirs={directory}/data\n"
            f"listeners={','.join(f'{name}://{HOST}:{port}' for name, port in zip(_LISTENERS, ports, strict=True))}\n"
            f"controller.quorum.voters=1@{HOST}:{ports[-1]}\nlog.durability={Durability.PAGE_CACHE}\n"
        )
        started = background_start.start(loading.load(file), Path(directory) / "server.log", DEADLINE_S)
        address = ",".join(f"{HOST}:{ports[0] + each}" for each in apart)
        node = psutil.Process(started.pid)
        try:
            pids = tuple(each.pid for each in node.children()) if count > 1 else (node.pid,)
            yield Server(name=f"{count}", address=address, pids=pids, topics=AdminTopics(address))
        finally:
            _stop(node)


def _stop(node: psutil.Process) -> None:
    node.terminate()
    try:
        node.wait(DEADLINE_S)
    except psutil.TimeoutExpired:
        # Its processes end with it.
        node.kill()
        node.wait(DEADLINE_S)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    processes: Annotated[
        list[int] | None,
        typer.Option(min=1, max=PROCESSES_MAX, help="node.processes of a file; several times for several. 1, 2 and 4."),
    ] = None,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="With a producer each. By default as many as the most processes.")
    ] = None,
    records: Annotated[int, typer.Option(min=10_000, help="Of all producers together, in each round.")] = RECORDS,
    rounds: Annotated[int, typer.Option(min=1)] = ROUNDS,
    batch_bytes: Annotated[int, typer.Option(min=2_000, max=1_000_000, help="Size of a batch at most.")] = BATCH_BYTES,
    load: Annotated[
        Load, typer.Option(help="prepared costs next to nothing, and leaves the cores to the processes.")
    ] = Load.LIBRDKAFKA,
    output: Annotated[Output, typer.Option(help="For people or for programs.")] = Output.TABLE,
) -> None:
    """Rate and CPU of one file with one process and with several."""
    counts = list(dict.fromkeys(processes or PROCESSES))
    plan = Plan(
        partitions=partitions or max(counts), records=records, rounds=rounds, batch_bytes=batch_bytes, load=load
    )
    try:
        with ExitStack() as running:
            servers = [running.enter_context(processes_of_one_file(count)) for count in counts]
            print_report(measure(servers, plan), output)
    except (LoadFailed, NotStarted) as failed:
        raise SystemExit(f"node_processes: {failed}") from None


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.node_processes")
