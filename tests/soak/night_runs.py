"""`python -m tests.soak.night_runs`: a scripted 3 a.m. of ten faults, and what an operator sees of each.

A cluster of three nodes with load, a group and a Prometheus starts for each fault. Once the alerts have settled, what
fires, what `kraft health` and other commands answer, the probes, and the logs' lines with WARN or ERROR are written to
a transcript that does not name the fault. docs/runbook.md has to be enough to name it: a fault fails the run if none of
its alerts fires, or health or a log does not say the words by which that page knows it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from chaos.nemesis import power_loss
from chaos.toxiproxy import ToxiproxyMissing
from tests.soak.fault_runs import Seed, chosen, judged
from tests.soak.full_disk_runs import CannotMount
from tests.soak.night.faults import FAULTS, Fault
from tests.soak.night.transcript import look, transcript
from tests.soak.night.world import night

FAILURES: Final = (CannotMount, power_loss.CannotMount, ToxiproxyMissing)
KEY: Final = "key.txt"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def run(
    fault: Annotated[list[str] | None, typer.Option(help="Fault to inject, may be repeated; all by default.")] = None,
    transcripts: Annotated[Path | None, typer.Option("--transcript", help="Directory for the transcripts.")] = None,
    seed: Seed = None,
) -> None:
    """Inject each fault into a cluster of its own, and write what is seen of it to case-01 and so on.

    The order is drawn by the seed; key.txt says which case was what.
    """
    seed = chosen(seed)
    named = [each for each in FAULTS if fault is None or each.name in fault]
    unknown = set(fault or ()) - {each.name for each in FAULTS}
    if unknown or not named:
        raise typer.BadParameter(f"faults are {', '.join(each.name for each in FAULTS)}", param_hint="--fault")
    order = Random(seed).sample(named, len(named))
    print(f"{len(order)} faults, seed {seed}")
    missed = []
    with judged(*FAILURES), TemporaryDirectory(prefix="kraft-night-") as temporary:
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[now]}"))
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task("night", total=len(order), now="")
            for number, each in enumerate(order, 1):
                text, problem = _once(each, Path(temporary, str(number)), partial(_tell, progress, task, each.name))
                progress.advance(task)
                print(f"{each.name:<18} {problem or 'is named'}", flush=True)
                missed += [each.name] if problem else []
                if transcripts is not None:
                    transcripts.mkdir(parents=True, exist_ok=True)
                    (transcripts / f"case-{number:02}.txt").write_text(text)
                    with (transcripts / KEY).open("a") as key:
                        key.write(f"case-{number:02} {each.name}: {each.says}\n")
        assert not missed, f"not named by what is seen: {', '.join(missed)}"


def _tell(progress: Progress, task: TaskID, name: str, now: str) -> None:
    progress.update(task, now=f"{name}: {now}")


def _once(fault: Fault, directory: Path, tell: Callable[[str], None]) -> tuple[str, str]:
    """Return the transcript, and why what is seen does not name the fault; empty if it does."""
    tell("starting")
    with night(directory, fault.surroundings) as world:
        struck_at = time.time()
        fault.strike(world)
        sight = look(world, struck_at, tell)
    return transcript(sight), fault.unnamed(sight)


if __name__ == "__main__":
    app(prog_name="python -m tests.soak.night_runs")
