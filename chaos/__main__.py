"""`python -m chaos`: faults against a cluster of real nodes on this machine, and what became of the records."""

from __future__ import annotations

import shutil
import sys
import tempfile
from enum import StrEnum
from pathlib import Path
from random import SystemRandom
from typing import Annotated

import typer
from rich.console import Console

from chaos import report
from chaos.run import FAULTS, RunPlan, run

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"


@app.command()
def main(
    cycles: Annotated[int, typer.Option(min=1, help="Number of faults, one after the other.")] = 20,
    faults: Annotated[str, typer.Option(help=f"Faults to use, separated by commas: {', '.join(FAULTS)}.")] = ",".join(
        FAULTS
    ),
    seed: Annotated[
        int | None, typer.Option(help="Seed of the faults' order, times and targets. By default a new one.")
    ] = None,
    duration: Annotated[float | None, typer.Option(min=1, help="Seconds after which no new fault begins.")] = None,
    nodes: Annotated[
        int, typer.Option(min=3, max=9, help="Number of nodes; the first three are controllers, too.")
    ] = 3,
    secure: Annotated[
        bool, typer.Option("--secure", help="Clients log in (SCRAM-SHA-512) inside TLS, and nodes speak TLS, too.")
    ] = False,
    output: Annotated[Output, typer.Option(help="Output format: table for people, json for programs.")] = Output.TABLE,
    directory: Annotated[
        Path | None,
        typer.Option(
            help="Empty directory that keeps the history and the nodes' files. By default a temporary one, which is"
            " kept when something is wrong."
        ),
    ] = None,
) -> None:
    """Inject faults into a cluster under load, then report lost, duplicated and misplaced records.

    The exit code is 1 if an acknowledged record is lost, duplicated or out of order.
    """
    plan = RunPlan(
        seed=SystemRandom().randrange(1_000_000) if seed is None else seed,
        cycles=cycles,
        faults=_fault_names(faults),
        duration_max_s=duration,
        nodes=nodes,
        secure=secure,
    )
    place = _place(directory)
    print(f"seed {plan.seed}, history in {place}", file=sys.stderr)
    result = run(plan, place, lambda text: print(text, file=sys.stderr, flush=True))
    if output is Output.JSON:
        print(report.as_json(result))
    else:
        report.print_table(result, Console())
    if result.is_clean and directory is None:
        shutil.rmtree(place, ignore_errors=True)
    raise typer.Exit(0 if result.is_clean else 1)


def _fault_names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in FAULTS]
    if unknown:
        raise typer.BadParameter(f"{', '.join(unknown)}: no such fault; there are {', '.join(FAULTS)}")
    if not names:
        raise typer.BadParameter("name at least one fault")
    return names


def _place(directory: Path | None) -> Path:
    if directory is None:
        return Path(tempfile.mkdtemp(prefix="kraft-chaos-"))
    if directory.exists() and any(directory.iterdir()):
        raise typer.BadParameter(f"{directory} is not empty: a history is never written over")
    return directory.absolute()


if __name__ == "__main__":
    app(prog_name="python -m chaos")
