"""`python -m tests.soak.disk_fault_runs`: repeated faults of real disks and kills of real nodes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, Final

import typer

from chaos.nemesis import power_loss
from tests.soak import full_disk_runs, kill_runs, sync_error_runs
from tests.soak.fault_runs import Seed, Times, chosen, judged, say
from tests.soak.full_disk_runs import HEAD_ROOM_BYTES, RESUMED_WITHIN_S, CannotMount, FullDisk
from tests.soak.kill_runs import Kill
from tests.soak.loads.numbered_load import Contents
from tests.soak.sync_error_runs import SyncError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help="Faults of disks and kills of nodes.")

FAILURES: Final = (CannotMount, power_loss.CannotMount)


@app.command()
def kill(times: Times = 50, nodes: Annotated[int, typer.Option(min=1, max=9)] = 1, seed: Seed = None) -> None:
    """Kill nodes under load: each time, every acknowledged record is there exactly once."""
    seed = chosen(seed)

    def tell(made: Kill) -> None:
        say(f"node {made.node_id} online after {made.online_s:.2f} s: {made.contents}")

    with judged(*FAILURES):
        kills = kill_runs.run(times=times, nodes=nodes, seed=seed, tell=tell)
        lost, repeated = (sum(map(len, each)) for each in _wrongs(made.contents for made in kills))
        print(
            f"{len(kills)} times kill -9 of one of {nodes} nodes, seed {seed}",
            f"{kills[-1].contents.acknowledged:,} acknowledged, {lost} lost, {repeated} repeated",
            f"online again: {_figures([made.online_s for made in kills])}",
            f"acknowledging again: {_figures([made.acknowledged_s for made in kills])}",
            sep="\n",
        )
        assert lost == repeated == 0, "records are lost or doubled"


@app.command()
def sync_error(times: Times = 20, seed: Seed = None) -> None:
    """Make fsync and fdatasync fail with EIO: the node ends and is started again, and then the power fails."""
    seed = chosen(seed)

    def tell(met: SyncError) -> None:
        where = "of the log" if met.only_log else "of every file"
        say(f"syncs {where} failed: {met.failed_bytes} bytes not written; {met.contents}")

    with judged(*FAILURES), tempfile.TemporaryDirectory(prefix="kraft-sync-error-") as directory:
        errors = sync_error_runs.run(times=times, seed=seed, directory=Path(directory), tell=tell)
        lost, repeated = (sum(map(len, each)) for each in _wrongs(met.contents for met in errors))
        print(
            f"{len(errors)} times failing syncs, seed {seed}; each with a new start and then a loss of power",
            f"{sum(met.contents.acknowledged for met in errors):,} acknowledged, {lost} lost, {repeated} repeated",
            f"not written by syncs that failed: {sum(met.failed_bytes for met in errors):,} bytes in all",
            f"the last one said: {errors[-1].last_words}",
            sep="\n",
        )


@app.command()
def full_disk(
    times: Times = 50,
    head_room: Annotated[
        int, typer.Option(min=0, help="log.free.space.min.bytes; with 0 every byte of the disk is used.")
    ] = HEAD_ROOM_BYTES,
) -> None:
    """Fill a disk of 64 MiB and free it again: meanwhile producers are refused, readers are not."""

    def tell(met: FullDisk) -> None:
        say(f"full with {met.free_bytes:,} bytes free, went on after {met.resumed_s:.2f} s: {met.while_full}")

    with judged(*FAILURES), tempfile.TemporaryDirectory(prefix="kraft-full-disk-") as directory:
        found = full_disk_runs.run(times=times, head_room_bytes=head_room, directory=Path(directory), tell=tell)
        print(
            f"{len(found)} times a full disk, with log.free.space.min.bytes={head_room}; verified afterwards",
            f"{found[-1].while_full.acknowledged:,} acknowledged at the last one, 0 lost, 0 repeated",
            f"free at the refusal: {min(met.free_bytes for met in found):,} bytes at least",
            f"working again: {_figures([met.resumed_s for met in found])}",
            f"the last refusal: {found[-1].refusal}",
            sep="\n",
        )
        slowest_s = max(met.resumed_s for met in found)
        assert slowest_s <= RESUMED_WITHIN_S, f"work went on after {slowest_s:.1f} s only"


def _wrongs(contents: Iterator[Contents]) -> tuple[list[Sequence[int]], list[Sequence[int]]]:
    found = list(contents)
    return [each.lost for each in found], [each.repeated for each in found]


def _figures(seconds: Sequence[float]) -> str:
    return f"p50 {median(seconds):.2f} s, most {max(seconds):.2f} s (n={len(seconds)})"


if __name__ == "__main__":
    app(prog_name="python -m tests.soak.disk_fault_runs")
