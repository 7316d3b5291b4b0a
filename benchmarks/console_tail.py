"""`python -m benchmarks.console_tail`: what ten people who watch a topic live cost the broker that others write to.

A node, a console beside it, and a producer at a fixed rate. Rounds without anybody and with ten live tails take turns;
the latency of each record is from its sending to its acknowledgement. CPU hardly depends on what else runs here.
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Final

import psutil
import typer

from benchmarks.cpu_clock import process_cpu_s
from benchmarks.report import Cell, Output, Report, print_report, say
from kraft.client import Admin, Producer
from kraft.testing import Cluster
from tests.support.console_browser import console

TOPIC: Final = "watched"
PARTITIONS: Final = 3
VALUE_BYTES: Final = 200
TAILS: Final = "live tails"
DEADLINE_S: Final = 30.0


class Watcher:
    """One person with a live tail, who counts what it shows and what it skips."""

    def __init__(self, port: int) -> None:
        self.shown = 0
        self.skipped = 0
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._connection.request(
            "GET", f"/clusters/measured/topics/{TOPIC}/tail/events", headers={"Host": f"localhost:{port}"}
        )
        # The connection forgets it with the head of a response that says nothing of its end.
        self._sock = self._connection.sock
        self._response = self._connection.getresponse()
        assert self._response.status == 200, self._response.read(500)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        try:
            for line in iter(self._response.readline, b""):
                if line.startswith(b"data: {"):
                    turn = json.loads(line[6:])
                    self.shown += len(turn["rows"])
                    self.skipped += turn["skipped"]
        except (OSError, ValueError, AttributeError):
            # Closed while it waited.
            return

    def close(self) -> None:
        if self._sock is not None:
            # The thread reads from it, which would keep it open, and the console serving it, after a close.
            with suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._connection.close()


def _watch_together(port: int, tails: int, ends: Connection) -> None:
    """Watch, in a process of its own as people do, until told that it is enough; send what each was shown."""
    watchers = [Watcher(port) for _ in range(tails)]
    ends.send("watching")
    ends.recv()
    ends.send([(each.shown, each.skipped) for each in watchers])
    for each in watchers:
        each.close()


@contextmanager
def _console(directory: Path, servers: str) -> Iterator[tuple[int, int]]:
    """Run a console; its port and its process."""
    before = {each.pid for each in psutil.Process().children()}
    settings = {"clusters": "measured", "cluster.measured.bootstrap.servers": servers}
    with console(directory, settings) as port:
        (process,) = (each for each in psutil.Process().children() if each.pid not in before)
        yield port, process.pid


def _latencies_ms(producer: Producer, rate: int, seconds: float) -> list[float]:
    """Send at the rate; return how long each record took. One that is due late is counted from when it was due."""
    took_ms: list[float] = []
    began_s = time.perf_counter()
    waiting = []
    for number in range(int(rate * seconds)):
        due_s = began_s + number / rate
        # The pace is what is measured with.
        time.sleep(max(0.0, due_s - time.perf_counter()))
        future = producer.send(TOPIC, b"x" * VALUE_BYTES, partition=number % PARTITIONS)
        future.add_done_callback(partial(_note, took_ms, due_s))
        waiting.append(future)
    for each in waiting:
        each.result(30)
    return sorted(took_ms)


def _note(took_ms: list[float], due_s: float, _: object) -> None:
    took_ms.append((time.perf_counter() - due_s) * 1_000)


def main(
    tails: Annotated[int, typer.Option(min=1, max=10, help="People who watch.")] = 10,
    rate: Annotated[int, typer.Option(min=1, help="Records that are sent in a second.")] = 500,
    seconds: Annotated[float, typer.Option(min=0.5, help="Time of each round.")] = 6.0,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each kind.")] = 5,
    output: Annotated[Output, typer.Option("--output", help="Output format.")] = Output.TABLE,
) -> None:
    """Print a table: without anybody, and with live tails."""
    figures: dict[str, list[dict[str, float]]] = {"nobody": [], TAILS: []}
    with (
        tempfile.TemporaryDirectory(prefix="kraft-benchmark-") as directory,
        Cluster(1, overrides={"log.durability": "page-cache"}) as cluster,
        _console(Path(directory), cluster.bootstrap_servers) as (port, console_pid),
        Producer(cluster.bootstrap_servers, linger_ms=0) as producer,
    ):
        with Admin(cluster.bootstrap_servers) as admin:
            admin.create_topic(TOPIC, PARTITIONS, 1)
        _latencies_ms(producer, rate, 1.0)
        pids = (cluster.node(1).pid, console_pid)
        for number in range(rounds):
            for kind in ("nobody", TAILS) if number % 2 else (TAILS, "nobody"):
                figures[kind].append(_round(producer, port, tails if kind == TAILS else 0, rate, seconds, pids))
                say(f"{number + 1} of {rounds}, {kind}: {figures[kind][-1]['p99 ms']:.2f} ms at the 99th percentile")
    rows = [_row(kind, found) for kind, found in figures.items()]
    ratios = [
        with_tails["p99 ms"] / without["p99 ms"]
        for with_tails, without in zip(figures[TAILS], figures["nobody"], strict=True)
    ]
    notes = [
        f"{rate} records a second of {VALUE_BYTES} bytes to {PARTITIONS} partitions, {tails} live tails, in turns.",
        f"99th percentile with live tails: {median(ratios):.2f} times that without (median of the pairs).",
        "A record is counted from when it was due. CPU is in cores; shown and skipped are of one person, a second.",
        f"Load average at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores: if higher, times are too long.",
    ]
    print_report(Report(title="Produce beside live tails", durability="page cache", rows=rows, notes=notes), output)


def _round(
    producer: Producer, port: int, tails: int, rate: int, seconds: float, pids: tuple[int, int]
) -> dict[str, float]:
    ends, of_watchers = multiprocessing.Pipe()
    people = multiprocessing.get_context("spawn").Process(target=_watch_together, args=(port, tails, of_watchers))
    people.start()
    try:
        _answer(ends)
        began_s, began_cpu_s = time.perf_counter(), [process_cpu_s(each) for each in pids]
        took_ms = _latencies_ms(producer, rate, seconds)
        took_s = time.perf_counter() - began_s
        node, console_ = ((process_cpu_s(each) - began_cpu_s[at]) / took_s for at, each in enumerate(pids))
        ends.send("enough")
        seen = _answer(ends) or [(0, 0)]
        people.join(DEADLINE_S)
    finally:
        people.kill()
    if tails and not any(shown for shown, _ in seen):
        sys.exit("The live tails showed no record, so nothing was measured.")
    return {
        "p50 ms": median(took_ms),
        "p99 ms": took_ms[len(took_ms) * 99 // 100],
        "node's cores": node,
        "console's cores": console_,
        "shown": median(shown for shown, _ in seen) / took_s,
        "skipped": median(skipped for _, skipped in seen) / took_s,
    }


def _answer(ends: Connection) -> Any:
    if not ends.poll(DEADLINE_S):
        sys.exit(f"Those who watch did not answer within {DEADLINE_S:g} s.")
    return ends.recv()


def _row(kind: str, found: list[dict[str, float]]) -> dict[str, Cell]:
    return {"with": kind, **{name: median(each[name] for each in found) for name in found[0]}}


if __name__ == "__main__":
    typer.run(main)
