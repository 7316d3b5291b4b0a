"""`python -m tests.end_to_end.deletion_kill_runs`: kill -9 of a leader while a topic is deleted, and without."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from kraft.client import Admin
from kraft.testing import Cluster
from tests.end_to_end.leader_kill_runs import LeaderKill, figures, kill_leader
from tests.end_to_end.numbered_load import NumberedLoad, compare
from tests.end_to_end.records import create_topic
from tests.end_to_end.waiting import until, until_in_sync

NODES: Final = 3
TOPIC: Final = "led"
_LARGE: Final = "large"
_DEADLINE_S: Final = 180.0
_ACKNOWLEDGED_BEFORE: Final = 20

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """`deleted` is how many partitions' deletion was acknowledged right before the kill."""

    kill: LeaderKill
    deleted: int


def run(*, times: int, partitions: int, tell: Callable[[Run], None] = lambda _: None) -> list[Run]:
    """Kills the leader of a topic's only partition under load: without a deletion, then with one, `times` over.

    Raises AssertionError when something acknowledged is lost or doubled, or the producer had to give anything up.
    """
    runs, acknowledged_at_s = list[Run](), list[float]()
    with Cluster(nodes=NODES) as cluster, Admin(cluster.bootstrap_servers) as admin:
        create_topic(cluster.bootstrap_servers, TOPIC, partitions=1, replication_factor=NODES)
        with NumberedLoad(
            cluster.bootstrap_servers,
            TOPIC,
            burst=1,
            burst_pause_s=0.005,
            on_acknowledged=lambda _: acknowledged_at_s.append(time.monotonic()),
        ) as load:
            load.resume()
            for number in range(2 * times):
                deleted = partitions if number % 2 else 0
                if deleted:
                    create_topic(cluster.bootstrap_servers, _LARGE, partitions=partitions, replication_factor=NODES)
                    # Creating it takes longer than deleting it, and is not what is measured.
                    until(lambda: _hold(cluster, partitions + 1), "the large topic is not taken up", _DEADLINE_S)
                load.wait_for_acknowledgements(_ACKNOWLEDGED_BEFORE)
                if deleted:
                    admin.delete_topics([_LARGE])
                kill = kill_leader(cluster, admin, load, acknowledged_at_s, TOPIC)
                runs.append(Run(kill=kill, deleted=deleted))
                tell(runs[-1])
                until_in_sync(admin, TOPIC, _DEADLINE_S)
                if deleted:
                    until(lambda: not _left(cluster), "replicas are left", _DEADLINE_S)
            load.pause(deadline_s=_DEADLINE_S)
            assert not load.errors, f"the load gave up: {dict(load.errors)}"
            contents = compare(cluster.bootstrap_servers, TOPIC, load)
            assert contents.is_exact, str(contents)
    return runs


def _hold(cluster: Cluster, replicas: int) -> bool:
    """Whether every node has acted on metadata that gives it so many replicas, and on nothing since."""
    told = [node.log_path.read_text().rpartition('"replicas": ')[2] for node in cluster.nodes]
    return all(text.startswith(f"{replicas},") for text in told)


def _left(cluster: Cluster) -> int:
    """Directories of replicas that are deleted, on all nodes."""
    names = [name for node in cluster.nodes for name in os.listdir(cluster.directory / f"node-{node.node_id}")]
    return sum(name.startswith(f"{_LARGE}-") and name.endswith("-delete") for name in names)


@app.command()
def main(
    times: Annotated[int, typer.Option(min=1)] = 5, partitions: Annotated[int, typer.Option(min=1)] = 1_000
) -> None:
    """Kills the leader of a partition of three nodes again and again, every other time while a topic is deleted."""

    def tell(run: Run) -> None:
        what = f"while {run.deleted} partitions are deleted" if run.deleted else "without a deletion"
        role = "leader and controller" if run.kill.was_controller else "leader"
        print(f"node {run.kill.node_id}, {role}, {what}: {run.kill.gap_s:.2f} s", file=sys.stderr, flush=True)

    runs = run(times=times, partitions=partitions, tell=tell)
    print(f"kill -9 of a partition's leader, {NODES} nodes, RF {NODES}; nothing lost, nothing doubled")
    print(f"a producer waited, without a deletion:      {figures([one.kill.gap_s for one in runs if not one.deleted])}")
    print(f"while {partitions} partitions are deleted: {figures([one.kill.gap_s for one in runs if one.deleted])}")


if __name__ == "__main__":
    app(prog_name="python -m tests.end_to_end.deletion_kill_runs")
