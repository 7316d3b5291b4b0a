"""`python -m tests.end_to_end.disk_fault_runs`: faults of real disks, deaths of real nodes, over and over."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import SystemRandom
from statistics import median
from typing import Annotated

import typer

from chaos.nemesis import power_loss
from tests.end_to_end import full_disk_runs, kill_runs, sync_error_runs
from tests.end_to_end.full_disk_runs import HEAD_ROOM_BYTES, RESUMED_WITHIN_S, CannotMount, FullDisk
from tests.end_to_end.kill_runs import Kill
from tests.end_to_end.numbered_load import Contents
from tests.end_to_end.sync_error_runs import SyncError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help="Faults of disks and deaths of nodes.")

Times = Annotated[int, typer.Option(min=1)]
Seed = Annotated[int | None, typer.Option(help="By default a new one, which is printed.")]


@app.command()
def kill(times: Times = 50, nodes: Annotated[int, typer.Option(min=1, max=9)] = 1, seed: Seed = None) -> None:
    """kill -9 under load: what was acknowledged is there exactly once, each time."""
    chosen = _chosen(seed)

    def tell(made: Kill) -> None:
        _say(f"node {made.node_id} online after {made.online_s:.2f} s: {made.contents}")

    with _judged():
        kills = kill_runs.run(times=times, nodes=nodes, seed=chosen, tell=tell)
        lost, repeated = (sum(map(len, each)) for each in _wrongs(made.contents for made in kills))
        _print_figures(
            f"{len(kills)} times kill -9 of one of {nodes} nodes, seed {chosen}",
            f"{kills[-1].contents.acknowledged:,} acknowledged, {lost} lost, {repeated} repeated",
            f"online again: {_figures([made.online_s for made in kills])}",
            f"acknowledging again: {_figures([made.acknowledged_s for made in kills])}",
        )
        assert lost == repeated == 0, "records are lost or doubled"


@app.command()
def sync_error(times: Times = 20, seed: Seed = None) -> None:
    """fsync and fdatasync fail with EIO: the node ends and is started again, and then the power fails."""
    chosen = _chosen(seed)

    def tell(met: SyncError) -> None:
        where = "of the log" if met.only_log else "of every file"
        _say(f"syncs {where} failed: {met.failed_bytes} bytes not written; {met.contents}")

    with _judged(), tempfile.TemporaryDirectory(prefix="kraft-sync-error-") as directory:
        errors = sync_error_runs.run(times=times, seed=chosen, directory=Path(directory), tell=tell)
        lost, repeated = (sum(map(len, each)) for each in _wrongs(met.contents for met in errors))
        _print_figures(
            f"{len(errors)} times failing syncs, seed {chosen}; each with a new start and then a loss of power",
            f"{sum(met.contents.acknowledged for met in errors):,} acknowledged, {lost} lost, {repeated} repeated",
            f"not written by syncs that failed: {sum(met.failed_bytes for met in errors):,} bytes in all",
            f"the last one said: {errors[-1].last_words}",
        )


@app.command()
def full_disk(
    times: Times = 50,
    head_room: Annotated[
        int, typer.Option(min=0, help="log.free.space.min.bytes; with 0 every byte of the disk is used.")
    ] = HEAD_ROOM_BYTES,
) -> None:
    """A disk of 64 MiB runs full and is freed: producers are refused meanwhile, readers are not."""

    def tell(met: FullDisk) -> None:
        _say(f"full with {met.free_bytes:,} bytes free, went on after {met.resumed_s:.2f} s: {met.while_full}")

    with _judged(), tempfile.TemporaryDirectory(prefix="kraft-full-disk-") as directory:
        found = full_disk_runs.run(times=times, head_room_bytes=head_room, directory=Path(directory), tell=tell)
        _print_figures(
            f"{len(found)} times a full disk, with log.free.space.min.bytes={head_room}; verified afterwards",
            f"{found[-1].while_full.acknowledged:,} acknowledged at the last one, 0 lost, 0 repeated",
            f"free at the refusal: {min(met.free_bytes for met in found):,} bytes at least",
            f"working again: {_figures([met.resumed_s for met in found])}",
            f"the last refusal: {found[-1].refusal}",
        )
        slowest_s = max(met.resumed_s for met in found)
        assert slowest_s <= RESUMED_WITHIN_S, f"work went on after {slowest_s:.1f} s only"


def _chosen(seed: int | None) -> int:
    return SystemRandom().randrange(1_000_000) if seed is None else seed


def _wrongs(contents: Iterator[Contents]) -> tuple[list[Sequence[int]], list[Sequence[int]]]:
    found = list(contents)
    return [each.lost for each in found], [each.repeated for each in found]


def _figures(seconds: Sequence[float]) -> str:
    return f"p50 {median(seconds):.2f} s, most {max(seconds):.2f} s (n={len(seconds)})"


def _say(text: str) -> None:
    """A line for each cycle, beside the figures."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _print_figures(*lines: str) -> None:
    for line in lines:
        print(line)


@contextmanager
def _judged() -> Iterator[None]:
    """What did not hold, or cannot be run here, ends in one line and exit code 1."""
    try:
        yield
    except (AssertionError, TimeoutError, CannotMount, power_loss.CannotMount) as failure:
        print(f"{type(failure).__name__}: {failure}", file=sys.stderr)
        for note in getattr(failure, "__notes__", ()):
            print(note, file=sys.stderr)
        raise typer.Exit(1) from None


if __name__ == "__main__":
    app(prog_name="python -m tests.end_to_end.disk_fault_runs")
