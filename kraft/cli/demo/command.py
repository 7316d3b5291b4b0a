"""The command itself: its options, where its files go, and how it ends."""

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
        typer.Option("--data-dir", help="An empty directory for all files; by default a temporary one."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the files there: logs, partitions, checkpoint.")] = False,
    flights: Annotated[
        int | None,
        typer.Option("--flights", min=1_000, help="Only so many of the 336,776, for a quick look."),
    ] = None,
    output: Annotated[Output, typer.Option("--output", help="json: the figures, on standard output.")] = Output.TABLE,
) -> None:
    """Real flights through three nodes into a Spark query, with a leader killed on the way."""
    from kraft.local.node_process import NodeFailed
    from kraft.model.errors import KraftError

    with one_line_errors(DemoFailed, NodeFailed, KraftError, OSError):
        java_version = requirements.check()
        with _directory(data_dir, keep) as directory:
            _run(directory, flights, java_version, output)


@contextmanager
def _directory(chosen: Path | None, keep: bool) -> Iterator[Path]:
    """Gone afterwards, unless it is to be kept."""
    if chosen is not None and chosen.exists() and (not chosen.is_dir() or any(chosen.iterdir())):
        raise DemoFailed(f"--data-dir {chosen} is not an empty directory: choose another one")
    directory = Path(tempfile.mkdtemp(prefix="kraft-demo-")) if chosen is None else chosen.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    try:
        yield directory
    finally:
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)


def _run(directory: Path, flights_max: int | None, java_version: str, output: Output) -> None:
    # Imported now: Spark takes a second to load, which would come before every complaint of above.
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
        raise DemoFailed(f"the demo found {', '.join(faults)}; run with --keep and see {directory}")
