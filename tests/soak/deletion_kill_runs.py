"""`python -m tests.soak.deletion_kill_runs`: kill -9 of a leader while a topic is deleted, and otherwise."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from kraft.testing import Cluster
from tests.soak.creation_kill_runs import replicas_on_disk
from tests.soak.fault_runs import say
from tests.soak.leader_kill_runs import NODES, LeaderKill, figures, led_partition
from tests.support.records import create_topic
from tests.support.waiting import until

_LARGE: Final = "large"
_DEADLINE_S: Final = 180.0
_ACKNOWLEDGED_BEFORE: Final = 20

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One kill; `deleted` partitions were deleted right before it."""

    kill: LeaderKill
    deleted: int


def run(*, times: int, partitions: int, tell: Callable[[Run], None] = lambda _: None) -> list[Run]:
    """Kill the leader of a partition under load, without a deletion and with one, `times` times each.

    Raises what `led_partition` raises.
    """
    runs = list[Run]()
    with led_partition(_DEADLINE_S) as led:
        servers = led.cluster.bootstrap_servers
        for number in range(2 * times):
            deleted = partitions if number % 2 else 0
            if deleted:
                create_topic(servers, _LARGE, partitions=partitions, replication_factor=NODES)
                # Creating it takes longer than deleting it, and is not measured.
                until(
                    lambda: min(replicas_on_disk(led.cluster, _LARGE)) == partitions,
                    "the nodes do not have the large topic",
                    _DEADLINE_S,
                )
            led.load.wait_for_acknowledgements(_ACKNOWLEDGED_BEFORE)
            if deleted:
                led.admin.delete_topics([_LARGE])
            runs.append(Run(kill=led.kill_leader(), deleted=deleted))
            tell(runs[-1])
            led.wait_in_sync(_DEADLINE_S)
            if deleted:
                until(lambda: not _left(led.cluster), "replicas are left", _DEADLINE_S)
    return runs


def _left(cluster: Cluster) -> int:
    """Return the directories of deleted replicas, on all nodes."""
    names = [name for node in cluster.nodes for name in os.listdir(cluster.directory / f"node-{node.node_id}")]
    return sum(name.startswith(f"{_LARGE}-") and name.endswith("-delete") for name in names)


@app.command()
def main(
    times: Annotated[int, typer.Option(min=1)] = 5, partitions: Annotated[int, typer.Option(min=1)] = 1_000
) -> None:
    """Kill the leader of a partition of three nodes repeatedly, every other time while a topic is deleted."""

    def tell(run: Run) -> None:
        what = f"while {run.deleted} partitions are deleted" if run.deleted else "without a deletion"
        say(f"{run.kill}, {what}: {run.kill.gap_s:.2f} s")

    runs = run(times=times, partitions=partitions, tell=tell)
    print(f"kill -9 of a partition's leader, {NODES} nodes, RF {NODES}; no record lost or duplicated")
    print(f"a producer waited, without a deletion:      {figures([one.kill.gap_s for one in runs if not one.deleted])}")
    print(f"while {partitions} partitions are deleted: {figures([one.kill.gap_s for one in runs if one.deleted])}")


if __name__ == "__main__":
    app(prog_name="python -m tests.soak.deletion_kill_runs")
