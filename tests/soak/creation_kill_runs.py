"""`python -m tests.soak.creation_kill_runs`: kill -9 of a leader while new logs are opened, and otherwise."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Final

import typer
from msgspec import Struct

from kraft.model.errors import ErrorCode, Refusal
from kraft.testing import Cluster
from tests.soak.fault_runs import say
from tests.soak.leader_kill_runs import NODES, LeaderKill, LedPartition, figures, led_partition
from tests.support.records import create_topic
from tests.support.waiting import until

_LARGE: Final = ("large-a", "large-b", "large-c")
"""Several topics, because a request may create 10,000 partitions at most."""
_DEADLINE_S: Final = 600.0
_ACKNOWLEDGED_BEFORE: Final = 20
_BEGUN: Final = 20
"""Logs that each node has opened of the new topic when the leader is killed."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class CreationKill(Struct, frozen=True, kw_only=True):
    """One kill. Each node had about `created` new logs to open, and at least `opened` of them were open by then."""

    kill: LeaderKill
    created: int
    opened: int = 0

    def __str__(self) -> str:
        what = f"while {self.created} logs are opened, {self.opened} of them before" if self.created else "otherwise"
        return f"{self.kill}, {what}: {self.kill.gap_s:.2f} s"


def run(*, times: int, logs: int, tell: Callable[[CreationKill], None] = lambda _: None) -> list[CreationKill]:
    """Kill the leader of a partition under load, without a creation and with one, `times` times each.

    Raises what `led_partition` raises.
    """
    kills = list[CreationKill]()
    with led_partition(_DEADLINE_S) as led:
        for number in range(2 * times):
            led.load.wait_for_acknowledgements(_ACKNOWLEDGED_BEFORE)
            if number % 2:
                kills.append(_kill_while_logs_open(led, logs))
            else:
                kills.append(CreationKill(kill=led.kill_leader(), created=0))
            tell(kills[-1])
            led.wait_in_sync(_DEADLINE_S)
    return kills


def _kill_while_logs_open(led: LedPartition, logs: int) -> CreationKill:
    def have_begun() -> bool:
        if created.done():
            # Raises what is wrong.
            created.result()
        return min(_opened(led.cluster)) >= _BEGUN

    with ThreadPoolExecutor(1) as thread:
        created = thread.submit(_create_large, led.cluster.bootstrap_servers, logs)
        until(have_begun, "the nodes open no new logs", _DEADLINE_S)
        opened = min(_opened(led.cluster))
        kill = led.kill_leader()
        created.result(_DEADLINE_S)
    until(lambda: sum(_opened(led.cluster)) == NODES * logs, "logs of the new topics are missing", _DEADLINE_S)
    led.admin.delete_topics(_LARGE)
    until(lambda: not any(_opened(led.cluster)), "logs of the deleted topics are left", _DEADLINE_S)
    return CreationKill(kill=kill, created=logs, opened=opened)


def _create_large(servers: str, partitions: int) -> None:
    """Create the topics. Without replication their logs are the only work."""
    for topic in _LARGE:
        try:
            create_topic(servers, topic, partitions=partitions, replication_factor=1)
        except Refusal as refusal:
            # The broker that was asked first died before it answered.
            if refusal.error_code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise


def _opened(cluster: Cluster) -> list[int]:
    """Return how many new logs each node has."""
    counts = [replicas_on_disk(cluster, topic) for topic in _LARGE]
    return [sum(of_node) for of_node in zip(*counts, strict=True)]


def replicas_on_disk(cluster: Cluster, topic: str) -> list[int]:
    """Return how many replicas of the topic each node has."""
    directories = (cluster.directory / f"node-{node.node_id}" for node in cluster.nodes)
    return [sum(1 for _ in directory.glob(f"{topic}-*[0-9]")) for directory in directories]


@app.command()
def main(times: Annotated[int, typer.Option(min=1)] = 3, logs: Annotated[int, typer.Option(min=100)] = 5_000) -> None:
    """Kill the leader of a partition of three nodes repeatedly, every other time while each opens `logs` new logs."""
    kills = run(times=times, logs=logs, tell=lambda kill: say(str(kill)))
    print(f"kill -9 of a partition's leader, {NODES} nodes, RF {NODES}; no record lost or duplicated")
    print(f"a producer waited, without a creation: {figures([one.kill.gap_s for one in kills if not one.created])}")
    print(f"while {logs} logs are opened:     {figures([one.kill.gap_s for one in kills if one.created])}")


if __name__ == "__main__":
    app(prog_name="python -m tests.soak.creation_kill_runs")
