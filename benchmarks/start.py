"""`python -m benchmarks.start`: how long nodes take to start, what that costs, and what an idle node costs.

A node is in service when it logs that it was unfenced. The CPU time is that of all processes of the row until then, and
hardly depends on what else runs on the machine, as the time on the clock does.
"""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import IO, Annotated, Final

import psutil
import typer

from benchmarks.cpu_clock import process_cpu_s
from benchmarks.report import Cell, Output, Report, print_report, say
from kraft.local import cluster_files
from kraft.local.cluster_files import NodePlan
from kraft.local.free_ports import ReservedPorts
from kraft.local.launching import KRAFT, environment
from kraft.server.identity import storage

DEADLINE_S: Final = 60.0
IN_SERVICE: Final = "broker unfenced"
DEV_READY: Final = "Cluster ready"
DEV_OFFSETS: Final = tuple(node * 100 + listener for node in range(3) for listener in range(3))
"""Ports of `kraft dev` above its first one."""

SETTLING_S: Final = 3.0
"""Time between a start and the measurement of the idle node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One start."""

    clock_s: float
    cpu_s: float


class Program:
    """A process of the measurement whose output is read until it ends."""

    def __init__(self, command: Sequence[str], awaited: str) -> None:
        self._began = time.perf_counter()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(),
            start_new_session=True,
        )
        self._awaited = awaited
        self._is_ready = threading.Event()
        self._figure: Figure | None = None
        self._lines: list[str] = []
        assert self.process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, output: IO[bytes]) -> None:
        for line in output:
            self._lines.append(line.decode("utf-8", "replace"))
            if self._figure is None and self._awaited in self._lines[-1]:
                clock_s = time.perf_counter() - self._began
                self._figure = Figure(clock_s=clock_s, cpu_s=cpu_s(self.process.pid))
                self._is_ready.set()
        self._is_ready.set()

    def figure(self) -> Figure:
        """Wait for the awaited line. Raises RuntimeError if it does not come."""
        self._is_ready.wait(DEADLINE_S)
        if self._figure is None:
            raise RuntimeError(f"{self.process.args!r} has not printed {self._awaited!r}:\n{''.join(self._lines)}")
        return self._figure

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(DEADLINE_S)


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process and of all its descendants that run."""
    try:
        family = [pid, *(each.pid for each in psutil.Process(pid).children(recursive=True))]
    except psutil.NoSuchProcess:
        return 0.0
    return sum(map(process_cpu_s, family))


def show_help(_directory: Path) -> Figure:
    began, before = time.perf_counter(), _children_s()
    subprocess.run([*KRAFT, "--help"], env=environment(), stdout=subprocess.DEVNULL, timeout=DEADLINE_S, check=True)
    return Figure(clock_s=time.perf_counter() - began, cpu_s=_children_s() - before)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def nodes(directory: Path, count: int) -> Iterator[list[Program]]:
    """Nodes from configuration files, started at the same time."""
    with ExitStack() as stopping:
        with ReservedPorts(count, (0, 1, 2)) as ports:
            plans = [
                NodePlan(node_id=number, kafka_port=port, controller_port=port + 1, grpc_port=port + 2)
                for number, port in enumerate(ports, 1)
            ]
            kept = [config.cluster_id for config in cluster_files.read(directory) if config.cluster_id is not None]
            cluster_files.write(directory, plans, kept[0] if kept else storage.random_cluster_id())
            started: list[Program] = []
            for plan in plans:
                file = str(cluster_files.config_file(directory, plan.node_id))
                started.append(Program([*KRAFT, "server", "start", "-c", file], IN_SERVICE))
                stopping.callback(started[-1].stop)
            for each in started:
                each.figure()
        yield started


def start_nodes(count: int) -> Callable[[Path], Figure]:
    def start(directory: Path) -> Figure:
        with nodes(directory, count) as started:
            figures = [each.figure() for each in started]
        return Figure(clock_s=max(each.clock_s for each in figures), cpu_s=sum(each.cpu_s for each in figures))

    return start


def start_again(directory: Path) -> Figure:
    """Start a node on a directory that the last call of this function has left."""
    return start_nodes(1)(directory.parent / "kept")


def start_dev(count: int) -> Callable[[Path], Figure]:
    def start(directory: Path) -> Figure:
        with ReservedPorts(1, DEV_OFFSETS) as (port,):
            options = ["--nodes", str(count), "--base-port", str(port), "--data-dir", str(directory)]
            program = Program([*KRAFT, "dev", *options], DEV_READY)
            try:
                return program.figure()
            finally:
                program.stop()

    return start


STARTS: Final[dict[str, Callable[[Path], Figure]]] = {
    "kraft --help": show_help,
    "node, first start": start_nodes(1),
    "node, further start": start_again,
    "three nodes": start_nodes(3),
    "kraft dev, one node": start_dev(1),
    "kraft dev, three nodes": start_dev(3),
}


IDLE: Final = {1: "idle, a node alone", 3: "idle, one of three nodes"}

COLUMNS: Final = (
    "start",
    "seconds, median",
    "quartiles",
    "least",
    "CPU s, median",
    "CPU s, least",
    "n",
    "idle CPU %",
)


def idle_row(place: Path, count: int, seconds: float) -> dict[str, Cell]:
    """Measure nodes without clients. The figure is that of one node."""
    with nodes(place / f"idle-{count}", count) as started:
        time.sleep(SETTLING_S)
        before, began = sum(cpu_s(each.process.pid) for each in started), time.perf_counter()
        time.sleep(seconds)
        used = sum(cpu_s(each.process.pid) for each in started) - before
        took = time.perf_counter() - began
    return {**dict.fromkeys(COLUMNS), "start": IDLE[count], "idle CPU %": 100 * used / took / count}


def start_rows(place: Path, rounds: int, chosen: Sequence[str]) -> list[dict[str, Cell]]:
    """Measure the starts in alternation. The first round only warms the page cache up."""
    figures: dict[str, list[Figure]] = {name: [] for name in chosen}
    for number in range(rounds + 1):
        say(f"round {number} of {rounds}")
        for name in chosen:
            with tempfile.TemporaryDirectory(dir=place) as directory:
                figure = STARTS[name](Path(directory))
            if number:
                figures[name].append(figure)
    return [_row(name, each) for name, each in figures.items()]


def _row(name: str, figures: Sequence[Figure]) -> dict[str, Cell]:
    clock = [each.clock_s for each in figures]
    first, _, third = quantiles(clock, n=4, method="inclusive") if len(clock) > 1 else (clock[0],) * 3
    return {
        **dict.fromkeys(COLUMNS),
        "start": name,
        "seconds, median": median(clock),
        "quartiles": f"{first:.2f} - {third:.2f}",
        "least": min(clock),
        "CPU s, median": median(each.cpu_s for each in figures),
        "CPU s, least": min(each.cpu_s for each in figures),
        "n": len(figures),
    }


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def start(
    rounds: Annotated[int, typer.Option(min=1, help="Starts of each kind.")] = 9,
    idle_s: Annotated[float, typer.Option("--idle-seconds", min=0, help="Measurement of idle nodes; 0 for none.")] = 20,
    only: Annotated[
        list[str] | None, typer.Option(help=f"A row to measure, of: {'; '.join(STARTS)}. May be repeated.")
    ] = None,
    output: Annotated[Output, typer.Option(help="For people or for programs.")] = Output.TABLE,
) -> None:
    """Measure the starts of nodes, and what idle nodes cost."""
    unknown = [name for name in only or () if name not in STARTS]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]!r} is none of {json.dumps(list(STARTS))}", param_hint="--only")
    with tempfile.TemporaryDirectory(prefix="kraft-benchmark-") as directory:
        place = Path(directory)
        rows = start_rows(place, rounds, only or list(STARTS))
        if idle_s:
            rows += [idle_row(place, count, idle_s) for count in IDLE]
    notes = [
        f"In service: all nodes have logged {IN_SERVICE!r}; kraft dev: it has printed {DEV_READY!r}.",
        f"idle: nodes without clients for {idle_s:g} s; % of a core.",
    ]
    print_report(
        Report(title="Starts, and idle nodes", durability="synced, as a node does by default", rows=rows, notes=notes),
        output,
    )


if __name__ == "__main__":
    sys.exit(app(prog_name="python -m benchmarks.start"))
