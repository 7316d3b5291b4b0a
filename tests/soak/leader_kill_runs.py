"""`python -m tests.soak.leader_kill_runs`: the end of a partition's leader; measures how long a producer waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import cycle, islice, pairwise
from math import ceil
from random import Random
from statistics import median
from typing import Annotated, Final

import typer

from kraft.client import Admin
from kraft.testing import Cluster
from tests.soak.fault_runs import say
from tests.soak.loads.numbered_load import NumberedLoad, compare
from tests.support.records import create_topic
from tests.support.waiting import until_in_sync

NODES: Final = 3
_TOPIC: Final = "led"
_DEADLINE_S: Final = 60.0
_POLL_S: Final = 0.05
_ACKNOWLEDGED_AFTERWARDS: Final = 20

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class End(StrEnum):
    """How the leader's process ends."""

    KILL = "kill"
    """kill -9."""
    STOP = "stop"
    """SIGTERM: a controlled shutdown, which hands on what the broker leads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderKill:
    """One end of a leader; `gap_s` is the longest time between two acknowledgements around it."""

    node_id: int
    end: End = End.KILL
    was_controller: bool
    gap_s: float

    def __str__(self) -> str:
        return f"{self.end} of node {self.node_id}, {'leader and controller' if self.was_controller else 'leader'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedPartition:
    """The only partition of a topic with replicas on all nodes, and the load on it."""

    cluster: Cluster
    admin: Admin
    load: NumberedLoad
    acknowledged_at_s: Sequence[float]

    def kill_leader(self, end: End = End.KILL) -> LeaderKill:
        """Start the node again once the partition has another leader. Raises AssertionError."""
        (described,) = self.admin.describe_topics([_TOPIC])
        leader_id = described.metadata.partitions[0].leader_id
        was_controller = self.admin.describe_quorum().leader_id == leader_id
        before = len(self.acknowledged_at_s)
        node = self.cluster.node(leader_id)
        if end is End.KILL:
            node.kill()
        else:
            node.terminate()
        killed_at_s = time.monotonic()
        while not self.acknowledged_at_s or self.acknowledged_at_s[-1] < killed_at_s + _POLL_S:
            # Acknowledgements in flight at the kill may arrive right after it; they are not the new leader's.
            self.load.check()
            assert time.monotonic() < killed_at_s + _DEADLINE_S, "nothing is acknowledged any more"
            time.sleep(_POLL_S)
        around = self.acknowledged_at_s[max(0, before - 1) :]
        gap_s = max(later - earlier for earlier, later in pairwise(around))
        node.start()
        self.cluster.wait_ready(_DEADLINE_S)
        return LeaderKill(node_id=leader_id, end=end, was_controller=was_controller, gap_s=gap_s)

    def wait_in_sync(self, deadline_s: float = _DEADLINE_S) -> None:
        until_in_sync(self.admin, _TOPIC, deadline_s)


@contextmanager
def led_partition(deadline_s: float = _DEADLINE_S) -> Iterator[LedPartition]:
    """Run nodes that are brokers and controllers, with a partition under load.

    Raises AssertionError at the end if an acknowledged record is lost or duplicated, or the load had an error.
    """
    acknowledged_at_s: list[float] = []
    with Cluster(nodes=NODES) as cluster, Admin(cluster.bootstrap_servers) as admin:
        create_topic(cluster.bootstrap_servers, _TOPIC, partitions=1, replication_factor=NODES)
        with NumberedLoad(
            cluster.bootstrap_servers,
            _TOPIC,
            burst=1,
            burst_pause_s=0.005,
            on_acknowledged=lambda _: acknowledged_at_s.append(time.monotonic()),
        ) as load:
            yield LedPartition(cluster=cluster, admin=admin, load=load, acknowledged_at_s=acknowledged_at_s)
            load.pause(deadline_s=deadline_s)
            assert not load.errors, f"the load failed: {dict(load.errors)}"
            contents = compare(cluster.bootstrap_servers, _TOPIC, load)
            assert contents.is_exact, str(contents)


def run(
    *,
    times: int,
    seed: int,
    ends: Sequence[End] = (End.KILL,),
    tell: Callable[[LeaderKill], None] = lambda _: None,
) -> list[LeaderKill]:
    """End the leader of a partition under load, start it again and wait until all replicas are in sync; `times` in all.

    The `ends` take turns. Raises what `led_partition` raises.
    """
    chance, kills = Random(seed), list[LeaderKill]()
    with led_partition() as partition:
        for end in islice(cycle(ends), times):
            partition.load.wait_for_acknowledgements(_ACKNOWLEDGED_AFTERWARDS)
            # Kills come at random moments.
            time.sleep(chance.uniform(0.5, 1.5))
            kills.append(partition.kill_leader(end))
            tell(kills[-1])
            partition.wait_in_sync()
    return kills


def figures(gaps_s: Sequence[float]) -> str:
    """Return the quantiles; p99 is the nearest rank, so with fewer than 100 values the longest."""
    if not gaps_s:
        return "none"
    ordered = sorted(gaps_s)
    p99 = ordered[ceil(0.99 * len(ordered)) - 1]
    return f"p50 {median(ordered):.2f} s, p99 {p99:.2f} s, most {ordered[-1]:.2f} s (n={len(ordered)})"


@app.command()
def main(
    times: Annotated[int, typer.Option(min=1)] = 100,
    seed: int = 1,
    end: Annotated[list[End] | None, typer.Option(help="Several take turns. By default kill.")] = None,
) -> None:
    """End the leader of a partition repeatedly; the three nodes are brokers and controllers."""
    ends = end or [End.KILL]

    def tell(kill: LeaderKill) -> None:
        say(f"{kill}: {kill.gap_s:.2f} s")

    kills = run(times=times, seed=seed, ends=ends, tell=tell)
    print(f"ends of a partition's leader, {NODES} nodes, RF {NODES}, seed {seed}; no record lost or duplicated")
    for each in dict.fromkeys(ends):
        found = [kill for kill in kills if kill.end is each]
        print(f"{each}: a producer waited: {figures([kill.gap_s for kill in found])}")
        print(f"  of the leader alone:       {figures([kill.gap_s for kill in found if not kill.was_controller])}")
        print(f"  of the controller as well: {figures([kill.gap_s for kill in found if kill.was_controller])}")


if __name__ == "__main__":
    app(prog_name="python -m tests.soak.leader_kill_runs")
