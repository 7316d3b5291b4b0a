"""`python -m benchmarks.partition_log`: how fast a partition's log appends, recovers and finds."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from benchmarks import log_append, log_lookup, log_recovery
from benchmarks.report import Output, print_report

MIB: Final = 1 << 20
ROUNDS: Final = 15
ROUND_MIB: Final = 512
"""More than the log writes from one recovery point to the next, so that the price of one is in it."""

OPENINGS: Final = 3
RECOVERY_MIB: Final = 1_264
"""A GiB, and then most of the way to the next recovery point, so that the kill comes at a bad time."""

LOOKUPS: Final = 20_000
LARGE_MIB: Final = 10 * 1_024
SMALL_MIB: Final = 100
SEED: Final = 1

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help="Benchmarks of the partition log.")

DirectoryOption = Annotated[
    Path | None, typer.Option(help="Where to write; by default where temporary files go.", exists=True, file_okay=False)
]
OutputOption = Annotated[Output, typer.Option(help="For people or for programs.")]


@app.command()
def append(
    rounds: Annotated[int, typer.Option(min=1)] = ROUNDS,
    round_mib: Annotated[int, typer.Option(min=1, help="Written in each of the four ways of a round.")] = ROUND_MIB,
    directory: DirectoryOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Append, in the page cache and with group commit, against checksum and write in a bare loop."""
    with _place(directory) as place:
        print_report(log_append.measure(place, rounds, round_mib * MIB), output)


@app.command()
def recovery(
    times: Annotated[int, typer.Option(min=1, help="How often it is opened, warm and cold each.")] = OPENINGS,
    log_mib: Annotated[int, typer.Option(min=1)] = RECOVERY_MIB,
    directory: DirectoryOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Open a log whose writer was killed with signal 9."""
    with _place(directory) as place:
        print_report(log_recovery.measure(place, times, log_mib * MIB), output)


@app.command()
def lookup(
    lookups: Annotated[int, typer.Option(min=100)] = LOOKUPS,
    large_mib: Annotated[int, typer.Option(min=1)] = LARGE_MIB,
    small_mib: Annotated[int, typer.Option(min=1)] = SMALL_MIB,
    seed: Annotated[int, typer.Option(help="Decides the places.")] = SEED,
    directory: DirectoryOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Find offsets and timestamps in a large log and in a small one."""
    with _place(directory) as place:
        print_report(log_lookup.measure(place, lookups, large_mib * MIB, small_mib * MIB, seed), output)


@contextmanager
def _place(directory: Path | None) -> Iterator[Path]:
    """A new directory, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="kraft-benchmark-", dir=directory) as path:
        yield Path(path)


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.partition_log")
