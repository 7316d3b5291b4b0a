"""`python -m tests.soak.kafka_kill_runs`: kill -9 of a partition's leader under a producer of librdkafka.

An unmodified client of Kafka sends 0, 1, 2, ... to one partition of three replicas. Its leader is killed and started
again, repeatedly. At the end the same library reads the partition: each number is there, and with an idempotent
producer exactly once and in order.

By default librdkafka waits up to ten seconds before it connects again to a broker that refused it, and longer after
each refusal. For figures of a single kill, leave some time between the kills (`--apart-s`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Annotated, Final

import typer

from kraft.client import Admin
from kraft.testing import Cluster
from tests.soak.leader_kill_runs import figures
from tests.support.kafka.kafka_numbered_loads import (
    Comparison,
    DefaultLibrdkafkaLoad,
    LibrdkafkaLoad,
    compare,
    read_numbers,
)
from tests.support.records import create_topic
from tests.support.waiting import until_in_sync

NODES: Final = 3
_TOPIC: Final = "led"
_DEADLINE_S: Final = 60.0
_ACKNOWLEDGED_AFTERWARDS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderKill:
    """One kill; `gap_s` is the longest time without an acknowledgement after it."""

    node_id: int
    was_controller: bool
    gap_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    kills: list[LeaderKill]
    comparison: Comparison
    is_idempotent: bool

    @property
    def is_as_promised(self) -> bool:
        return self.comparison.is_exact if self.is_idempotent else self.comparison.is_complete

    def __str__(self) -> str:
        return f"{len(self.kills)} kills: {self.comparison}"


def run(
    *,
    times: int,
    seed: int,
    idempotent: bool = True,
    apart_s: float = 0.5,
    tell: Callable[[LeaderKill], None] = lambda _: None,
) -> Verdict:
    """Kill the leader repeatedly. Raises AssertionError if the producer had an error."""
    kind = LibrdkafkaLoad if idempotent else DefaultLibrdkafkaLoad
    chance, kills = Random(seed), list[LeaderKill]()
    with Cluster(nodes=NODES) as cluster, Admin(cluster.bootstrap_servers) as admin:
        create_topic(cluster.bootstrap_servers, _TOPIC, partitions=1, replication_factor=NODES)
        with kind(cluster.kafka_bootstrap_servers, _TOPIC, [0]) as load:
            load.wait_for_acknowledgements(_ACKNOWLEDGED_AFTERWARDS, 0)
            for _ in range(times):
                # Kills come at random moments.
                time.sleep(chance.uniform(apart_s, apart_s + 1))
                kills.append(_kill_leader(cluster, admin, load))
                tell(kills[-1])
                until_in_sync(admin, _TOPIC, _DEADLINE_S)
            load.stop()
            numbers = read_numbers(cluster.kafka_bootstrap_servers, _TOPIC, 0)
            comparison = compare(load.client, 0, load.sent[0], numbers)
            return Verdict(kills=kills, comparison=comparison, is_idempotent=idempotent)


def _kill_leader(cluster: Cluster, admin: Admin, load: LibrdkafkaLoad) -> LeaderKill:
    (topic,) = admin.describe_topics([_TOPIC])
    leader_id = topic.metadata.partitions[0].leader_id
    was_controller = admin.describe_quorum().leader_id == leader_id
    begin_s = time.monotonic()
    cluster.node(leader_id).kill()
    # Acknowledgements in flight at the kill may arrive right after it; they are not the new leader's.
    load.wait_for_acknowledgements(_ACKNOWLEDGED_AFTERWARDS, time.monotonic() + 0.1)
    gap_s = load.gap_s(begin_s)
    cluster.node(leader_id).start()
    cluster.wait_ready(_DEADLINE_S)
    return LeaderKill(node_id=leader_id, was_controller=was_controller, gap_s=gap_s)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    times: Annotated[int, typer.Option(min=1)] = 30,
    seed: int = 1,
    idempotent: bool = True,
    apart_s: Annotated[float, typer.Option(min=0)] = 0.5,
) -> None:
    """Kill the leader of a partition repeatedly; the three nodes are brokers and controllers."""

    def tell(kill: LeaderKill) -> None:
        role = "leader and controller" if kill.was_controller else "leader"
        when = time.strftime("%H:%M:%S")
        print(f"{when} node {kill.node_id}, {role}: {kill.gap_s:.2f} s", file=sys.stderr, flush=True)

    verdict = run(times=times, seed=seed, idempotent=idempotent, apart_s=apart_s, tell=tell)
    mode = "idempotent" if idempotent else "its defaults"
    print(f"kill -9 of a partition's leader under librdkafka, {mode}, {NODES} nodes, RF {NODES}, seed {seed}")
    print(verdict)
    kills = verdict.kills
    print(f"the producer waited: {figures([kill.gap_s for kill in kills])}")
    print(f"  for the leader alone:       {figures([kill.gap_s for kill in kills if not kill.was_controller])}")
    print(f"  for the controller as well: {figures([kill.gap_s for kill in kills if kill.was_controller])}")
    sys.exit(0 if verdict.is_as_promised else 1)


if __name__ == "__main__":
    app(prog_name="python -m tests.soak.kafka_kill_runs")
