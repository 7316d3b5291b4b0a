"""`python -m benchmarks.metrics`: what a scrape costs a broker with many partitions and groups.

The broker's parts are real, and so are its logs, offsets and HTTP; only the process around them is this one. While a
scrape runs, the loop of the node has a timer every millisecond. How late it fires is how long the loop was held: by the
snapshot, which the loop takes itself, or by the thread that writes the text. Beside it the same timer without a scrape.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, Final

import typer

from benchmarks.metrics_parts import OFFSETS_OF_GROUP, built_parts
from benchmarks.report import Cell, Output, Report, file_system, print_report
from kraft.local.free_ports import ReservedPorts
from kraft.runtime.cycle_collector import bound_collections
from kraft.server.config.values import METRICS, Listener
from kraft.server.http.listener import HttpListener
from kraft.server.loop.crowds import new_event_loop
from kraft.server.metrics.node_parts import NodeParts
from kraft.server.metrics.scrapes import Scrapes
from kraft.server.metrics.snapshot import Values, take
from kraft.server.metrics.table import collecting
from kraft.server.process.file_limit import raise_file_limit

TICK_S: Final = 0.001


class _Ticks:
    """A timer every millisecond, and how late it fired."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._late_s: list[float] = []
        self._next()

    def _next(self) -> None:
        self._timer = self._loop.call_later(TICK_S, self._fired)

    def _fired(self) -> None:
        self._late_s.append(self._loop.time() - self._timer.when())
        self._next()

    def taken(self) -> list[float]:
        """Return the delays since the last call, ascending."""
        late_s, self._late_s = sorted(self._late_s), []
        return late_s


class _Scraper:
    """Scrapes from another process, which is there before anything is measured: to start one holds this process up."""

    _PROGRAM: Final = """
import sys, urllib.request
for address in sys.stdin:
    print(len(urllib.request.urlopen(address.strip()).read()), flush=True)
"""

    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}/metrics\n".encode()

    async def start(self) -> None:
        program = sys.executable, "-c", self._PROGRAM
        self._process = await asyncio.create_subprocess_exec(*program, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    async def scrape(self) -> int:
        """Return the bytes of the text."""
        assert self._process.stdin is not None, "it was asked for"
        assert self._process.stdout is not None, "it was asked for"
        self._process.stdin.write(self._address)
        return int(await self._process.stdout.readline())

    async def stop(self) -> None:
        assert self._process.stdin is not None, "it was asked for"
        self._process.stdin.close()
        await self._process.wait()


async def _measured(parts: NodeParts, rounds: int) -> dict[str, Cell]:
    turns: list[float] = []
    before_s = 0.0

    def turn_ended(_: float) -> None:
        nonlocal before_s
        turns.append(time.thread_time() - before_s)
        before_s = time.thread_time()

    async def timed() -> Values:
        nonlocal before_s
        before_s = time.thread_time()
        return await take(collecting(parts), turn_ended)

    with ReservedPorts(1) as (port,):
        scrapes = Scrapes(asyncio.get_running_loop(), timed)
        listener = HttpListener(Listener(METRICS, "127.0.0.1", port), {"/metrics": scrapes.answer})
        await listener.start()
        scraper = _Scraper(port)
        await scraper.start()
        ticks = _Ticks()
        idle, late = list[list[float]](), list[list[float]]()
        size_bytes, scrape_s, cpu_s = 0, 0.0, 0.0
        for _ in range(rounds):
            began_s, began_cpu_s = time.monotonic(), time.process_time()
            size_bytes = await scraper.scrape()
            took_s = time.monotonic() - began_s
            scrape_s, cpu_s = scrape_s + took_s / rounds, cpu_s + (time.process_time() - began_cpu_s) / rounds
            late.append(ticks.taken())
            await asyncio.sleep(took_s)
            idle.append(ticks.taken())
        await scraper.stop()
        await listener.stop()
    values = await take(collecting(parts))
    return {
        "partitions": len(parts.broker.logs.partitions) if parts.broker is not None else 0,
        "series": sum(map(len, values.values())),
        "MiB": size_bytes / 2**20,
        "scrape s": scrape_s,
        "CPU s": cpu_s,
        "loop CPU ms": sum(turns) / rounds * 1_000,
        "longest turn ms": max(turns) * 1_000,
        "hold p99 ms": median(each[len(each) * 99 // 100] for each in late) * 1_000,
        "longest hold ms": median(each[-1] for each in late) * 1_000,
        "idle p99 ms": median(each[len(each) * 99 // 100] for each in idle) * 1_000,
        "longest idle ms": median(each[-1] for each in idle) * 1_000,
    }


async def _rows(partitions: Sequence[int], groups: int, rounds: int, place: Path) -> list[dict[str, Cell]]:
    rows = []
    for count in partitions:
        with tempfile.TemporaryDirectory(prefix="kraft-benchmark-", dir=place) as directory:
            parts = await built_parts(Path(directory), count, groups)
            # As a node does once it is in service.
            bound_collections()
            rows.append(await _measured(parts, rounds))
    return rows


def main(
    partitions: Annotated[list[int] | None, typer.Option(help="Numbers of partitions. May be repeated.")] = None,
    groups: Annotated[int, typer.Option(help="Number of groups.")] = 1_000,
    rounds: Annotated[int, typer.Option(min=1, help="Number of scrapes.")] = 5,
    directory: Annotated[
        Path | None,
        typer.Option(help="Where the logs are; by default where temporary files go.", exists=True, file_okay=False),
    ] = None,
    output: Annotated[Output, typer.Option("--output", help="Output format.")] = Output.TABLE,
) -> None:
    """Print a table with a line for each number of partitions."""
    raise_file_limit()
    place = directory or Path(tempfile.gettempdir())
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        rows = runner.run(_rows(partitions or (1_000, 10_000), groups, rounds, place))
    notes = (
        f"{groups:,} groups with {OFFSETS_OF_GROUP} offsets each; metrics.per.partition=true.",
        "Longest turn: of the snapshot, in CPU time. Holds: how late a timer of 1 ms fires in the node's event loop;",
        "the 99th percentile and the longest of each scrape, and of as long a time without one: medians of the rounds.",
    )
    print_report(
        Report(title="A scrape", durability=f"not written, in {file_system(place)}", rows=rows, notes=notes), output
    )


if __name__ == "__main__":
    typer.run(main)
