"""`python -m tests.soak.power_loss_runs`: the power of all nodes fails at once, repeatedly.

Three nodes, each on a disk of its own that loses what was not synced. Under load of records and of metadata, all of
them are killed at a random time, and their disks lose everything that was not synced, or a random part of it.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random, SystemRandom
from statistics import median
from typing import Annotated, Any, Final

import typer

from chaos.nemesis.power_loss import AtStake, CannotMount, Loss, PowerLossDisk
from kraft.testing import Cluster, NodeFailed
from tests.soak.full_disk_runs import verify
from tests.soak.loads.numbered_load import Contents
from tests.soak.loads.numbered_topics import NumberedTopics
from tests.soak.loads.quorum_load import DEADLINE_S, PARTITIONS, SETTINGS, Surroundings, surroundings
from tests.support.waiting import until

NODES: Final = 3
SYNC_MS_MAX: Final = 10.0
"""A sync takes half of that on average, about as on a disk that turns; the longer, the more is at stake at a time."""

_LOAD_S: Final = (0.3, 2.5)
_HELD_S: Final = (0.05, 0.4)
# Segments are rolled every few seconds.
_SETTINGS: Final = {**SETTINGS, "log.segment.bytes": str(256 * 1024)}
_LOAD_SETTINGS: Final[Mapping[str, Any]] = {
    # Records of most of a page each, which tear.
    "value_bytes": 3_000,
    "burst_pause_s": PARTITIONS / 150,
    "unacknowledged_max": 200,
    # A record may meet several losses, one after the other.
    "delivery_timeout_ms": 600_000,
}
_POLL_S: Final = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLoss:
    """One time that the power of all nodes failed, from their new start on."""

    loss: Loss
    held_s: float
    """Seconds for which the disks hung before, so that no sync ended; 0 in half of all losses."""

    at_stake: tuple[AtStake, ...]
    """Unsynced bytes on each disk; at least six, because the owner of a lock is never synced."""

    ready_s: float
    """Until every node serves and knows the others."""

    acknowledged_changes: int
    """Acknowledged changes of the metadata since the run began; each was found on every controller."""

    topics: tuple[int, int]
    """Created and deleted, all since the run began; all there with their records, or gone."""

    contents: Contents

    @property
    def unsynced_bytes(self) -> int:
        return sum(disk.written_bytes for disk in self.at_stake)

    @property
    def unsynced_names(self) -> int:
        return sum(disk.names for disk in self.at_stake)


def run(
    *,
    times: int,
    seed: int,
    directory: Path,
    losses: Sequence[Loss] = tuple(Loss),
    load_s: tuple[float, float] = _LOAD_S,
    tell: Callable[[PowerLoss], None],
) -> list[PowerLoss]:
    """The losses take turns. Mounts below `directory`.

    Raises CannotMount, NodeFailed when a node does not start on what is left, and AssertionError when anything
    acknowledged is not there, anything is there twice, or the load had an error.
    """
    chance = Random(seed)
    found = []
    with _disks(directory, chance) as disks:
        with (
            Cluster(nodes=NODES, directory=directory / "cluster", overrides=_SETTINGS) as cluster,
            surroundings(cluster, load_settings=_LOAD_SETTINGS) as running,
            NumberedTopics(cluster.bootstrap_servers) as topics,
        ):
            for number in range(times):
                # The power fails at random moments.
                time.sleep(chance.uniform(*load_s))
                found.append(_lose_power(running, topics, disks, losses[number % len(losses)], chance))
                tell(found[-1])
            with topics.quiet():
                running.finish()
        for disk in disks:
            verify(disk.mount_point)
    return found


@contextmanager
def _disks(directory: Path, chance: Random) -> Iterator[list[PowerLossDisk]]:
    """One for each node, mounted where the cluster has the node's directory."""
    with ExitStack() as mounted:
        yield [
            mounted.enter_context(
                PowerLossDisk(
                    directory / f"disk-{node_id}",
                    directory / "cluster" / f"node-{node_id}",
                    sync_ms_max=SYNC_MS_MAX,
                    seed=chance.getrandbits(32),
                )
            )
            for node_id in range(1, NODES + 1)
        ]


def _lose_power(
    running: Surroundings, topics: NumberedTopics, disks: Sequence[PowerLossDisk], loss: Loss, chance: Random
) -> PowerLoss:
    cluster = running.cluster
    held_s = chance.choice([0.0, chance.uniform(*_HELD_S)])
    if held_s:
        for disk in disks:
            disk.hold_syncs()
        # Whatever is acknowledged meanwhile must not need a sync that has not ended.
        time.sleep(held_s)
    # All are killed before the power is cut, so that no node sees a write fail; and it is cut before they are waited
    # for, so that no sync that is under way ends well.
    for pid in [node.pid for node in cluster.nodes]:
        os.kill(pid, signal.SIGKILL)
    for disk in disks:
        disk.cut_power()
    until(lambda: not any(node.is_running for node in cluster.nodes), "a killed process does not end", DEADLINE_S)
    at_stake = tuple(disk.restore_power(loss, chance.getrandbits(32)) for disk in disks)
    began_s = time.monotonic()
    cluster.start()
    cluster.wait_ready(DEADLINE_S)
    ready_s = time.monotonic() - began_s
    running.wait_every_partition_since(began_s)
    running.changes.wait_for_change(began_s)
    with topics.quiet():
        running.check_metadata()
        topics.check()
    return PowerLoss(
        loss=loss,
        held_s=held_s,
        at_stake=at_stake,
        ready_s=ready_s,
        acknowledged_changes=running.changes.acknowledged,
        topics=(topics.created, topics.deleted),
        contents=running.check_records(),
    )


# --- the command -----------------------------------------------------------------------------------------------

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    times: Annotated[int, typer.Option(min=1)] = 20,
    seed: Annotated[int | None, typer.Option(help="By default a new one, which is printed.")] = None,
    only: Annotated[Loss | None, typer.Option(help="Kind of loss; by default all take turns.")] = None,
) -> None:
    """Fail the power of all nodes at once under load: nothing acknowledged is lost or duplicated, every node starts."""
    chosen = SystemRandom().randrange(1_000_000) if seed is None else seed
    losses = tuple(Loss) if only is None else (only,)

    def tell(met: PowerLoss) -> None:
        print(f"{time.strftime('%H:%M:%S')} {_line(met)}", file=sys.stderr, flush=True)

    try:
        with tempfile.TemporaryDirectory(prefix="kraft-power-loss-") as directory:
            found = run(times=times, seed=chosen, directory=Path(directory), losses=losses, tell=tell)
    except CannotMount as reason:
        print(f"not run: {reason}", file=sys.stderr)
        raise typer.Exit(1) from None
    except (AssertionError, TimeoutError, NodeFailed) as failure:
        print(f"seed {chosen}: {type(failure).__name__}: {failure}", file=sys.stderr)
        for note in getattr(failure, "__notes__", ()):
            print(note, file=sys.stderr)
        raise typer.Exit(1) from None
    for line in _figures(found, chosen):
        print(line)


def _line(met: PowerLoss) -> str:
    return (
        f"{met.loss.value}, held {met.held_s:.2f} s: {met.unsynced_bytes:,} bytes and {met.unsynced_names} names"
        f" were not synced; ready after {met.ready_s:.2f} s; {met.acknowledged_changes:,} changes,"
        f" {met.topics[0]} topics; {met.contents}"
    )


def _figures(found: Sequence[PowerLoss], seed: int) -> Iterator[str]:
    each = ", ".join(
        f"{loss.value} {sum(met.loss is loss for met in found)}"
        for loss in Loss
        if any(met.loss is loss for met in found)
    )
    yield f"{len(found)} times loss of power of all {NODES} nodes at once ({each}), seed {seed}; verified afterwards"
    yield f"{found[-1].contents.acknowledged:,} records acknowledged, 0 lost, 0 repeated"
    created, deleted = found[-1].topics
    yield (
        f"{found[-1].acknowledged_changes:,} changes of the metadata acknowledged, 0 lost; besides, {created} topics"
        f" with a record each created and {deleted} deleted, 0 lost, 0 back"
    )
    yield (
        f"not synced at the loss: {sum(met.unsynced_bytes for met in found):,} bytes, "
        f"{sum(met.unsynced_names for met in found)} names, in all; "
        f"in {sum(met.held_s > 0 for met in found)} of the losses the disks had hung before"
    )
    seconds = [met.ready_s for met in found]
    yield f"every node serving again: p50 {median(seconds):.2f} s, most {max(seconds):.2f} s (n={len(seconds)})"


if __name__ == "__main__":
    app(prog_name="python -m tests.soak.power_loss_runs")
