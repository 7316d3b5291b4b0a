"""Options, directory and exit code of `kraft demo`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from kraft.cli.demo import requirements
from kraft.cli.demo.failure import DemoFailed
from kraft.cli.one_line import one_line_errors
from kraft.cli.options import Output


def demo(
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", help="Empty directory for all files. By default a temporary one."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the files: logs, partitions, checkpoint.")] = False,
    flights: Annotated[
        int | None,
        typer.Option("--flights", min=1_000, help="Number of flights to send. By default all 336,776."),
    ] = None,
    output: Annotated[
        Output, typer.Option("--output", help="Output format: table for people, json for programs.")
    ] = Output.TABLE,
) -> None:
    """Send real flights through three nodes into a Spark query.

    A leader is killed on the way. The result of the query is compared with the file of the flights.
    """
    from kraft.local.node_process import NodeFailed
    from kraft.model.errors import KraftError

    with one_line_errors(DemoFailed, NodeFailed, KraftError, OSError):
        java_version = requirements.check()
        with _directory(data_dir, keep) as directory:
            _run(directory, flights, java_version, output)


@contextmanager
def _directory(chosen: Path | None, keep: bool) -> Iterator[Path]:
    """Yield the directory for the files, and remove it afterwards unless `keep`."""
    if chosen is not None and chosen.exists() and (not chosen.is_dir() or any(chosen.iterdir())):
        raise DemoFailed(f"--data-dir {chosen} is not an empty directory: choose another one")
    directory = Path(tempfile.mkdtemp(prefix="kraft-demo-")) if chosen is None else chosen.absolute()
    from kraft.runtime.disk import make_directories

    make_directories(directory)
    try:
        yield directory
    finally:
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)


def _run(directory: Path, flights_max: int | None, java_version: str, output: Output) -> None:
    # Imported late: Spark takes a second to load, which would delay the errors above.
    from rich.console import Console

    from kraft.cli.demo.report import print_report, to_json
    from kraft.cli.demo.run import run

    console = Console(highlight=False, soft_wrap=True, stderr=output is Output.JSON)
    report = run(directory, flights_max, java_version, console)
    if output is Output.JSON:
        print(to_json(report))
    else:
        print_report(report, console)
    faults = report.faults()
    if faults:
        raise DemoFailed(f"the demo failed: {', '.join(faults)}: run it with --keep and see {directory}")
