"""Reports of measurements: a bar and lines while they run, then the result as a table or as JSON."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from kraft.cli.printing import print_columns, say
from kraft.perf.latencies import Latencies
from kraft.perf.rates import Rate

Measurement = TypeVar("Measurement")

_BAR_WIDTH: Final = 40
_KIB_PER_MIB: Final = 1_024


class Running:
    """Shows how far a measurement is: a bar on a terminal, and a line on standard error after each interval."""

    def __init__(self, progress: Progress, records: int, interval_ms: int) -> None:
        self._progress = progress
        self._task = progress.add_task("records", total=records)
        self._interval_s = interval_ms / 1_000
        self._reported_s = time.monotonic()

    def show(self, records: int, line: Callable[[float], str]) -> None:
        """Move the bar; if the interval has passed, print the line, which gets its length in seconds."""
        self._progress.update(self._task, completed=records)
        passed_s = time.monotonic() - self._reported_s
        if passed_s >= self._interval_s:
            self._reported_s += passed_s
            self._progress.console.print(line(passed_s), markup=False, highlight=False, soft_wrap=True)


@contextmanager
def running(records: int, interval_ms: int) -> Iterator[Running]:
    """Show progress in the block."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        yield Running(progress, records, interval_ms)


class Latest(Generic[Measurement]):
    """What was measured so far, which an interrupt does not lose."""

    def __init__(self) -> None:
        self._found: Measurement | None = None

    def keeping(self, show: Callable[[Measurement], None]) -> Callable[[Measurement], None]:
        """Return a function that keeps what is measured, and shows it."""

        def keep(found: Measurement) -> None:
            self._found = found
            show(found)

        return keep

    @contextmanager
    def printed(self, printing: Callable[[Measurement], None]) -> Iterator[None]:
        """Print what was measured if Ctrl-C or SIGTERM ends the block, which goes on as an interrupt."""
        try:
            yield
        except KeyboardInterrupt:
            if self._found is not None:
                say("kraft: interrupted: this was measured until then")
                printing(self._found)
            raise


def rate_line(rate: Rate, latencies: Latencies) -> str:
    """Return the line of Kafka's producer test."""
    return (
        f"{rate.records} records sent, {rate.records_per_s:.1f} records/sec ({rate.mb_per_s:.2f} MB/sec), "
        f"{latencies.mean_ms:.2f} ms avg latency, {latencies.max_ms:.2f} ms max latency"
    )


def percentiles_line(latencies: Latencies) -> str:
    """Return percentiles in words: `1.20 ms 50th, 3.10 ms 95th`."""
    return ", ".join(f"{value:.2f} ms {percent:g}th" for percent, value in latencies.percentiles_ms().items())


def print_histogram(latencies: Latencies) -> None:
    """Print how many latencies are up to each bound."""
    bars = list(latencies.histogram())
    if bars:
        print()
        longest = max(each.count for each in bars)
        rows = [(f"{each.below_ms:g}", each.count, "#" * round(_BAR_WIDTH * each.count / longest)) for each in bars]
        print_columns(("UP TO MS", "RECORDS", ""), rows)


def rate_as_json(rate: Rate) -> dict[str, Any]:
    return {
        "records": rate.records,
        "size_bytes": rate.size_bytes,
        "elapsed_s": round(rate.elapsed_s, 3),
        "records_per_s": round(rate.records_per_s, 1),
        "mb_per_s": round(rate.mb_per_s, 3),
    }


def latencies_as_json(latencies: Latencies) -> dict[str, Any]:
    return {
        "count": latencies.count,
        "mean_ms": round(latencies.mean_ms, 3),
        "max_ms": latencies.max_ms,
        "percentiles_ms": {f"{percent:g}": value for percent, value in latencies.percentiles_ms().items()},
        "histogram": [{"up_to_ms": each.below_ms, "records": each.count} for each in latencies.histogram()],
    }


def process_metrics() -> dict[str, float]:
    """Return what the measuring process has used: the clients keep no metrics of their own."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "user_cpu_s": round(used.ru_utime, 3),
        "system_cpu_s": round(used.ru_stime, 3),
        "peak_memory_mib": round(used.ru_maxrss / _KIB_PER_MIB, 1),
    }


def print_metrics() -> None:
    print()
    print_columns(("METRIC OF THIS PROCESS", "VALUE"), list(process_metrics().items()))
