"""Repeated kill -9 of all controllers at once, or of the active one, under load."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from kraft.testing import Cluster, NodeProcess
from tests.soak.loads.numbered_load import Contents
from tests.soak.loads.quorum_load import (
    DEADLINE_S,
    SETTINGS,
    VOTERS,
    Surroundings,
    kill_at_once,
    log_events,
    surroundings,
)

LOAD_S: Final = (0.3, 1.5)
_CHECK_EVERY: Final = 10
_SEPARATE: Final = ["controller"] * VOTERS + ["broker"] * 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EntireKill:
    """All nodes killed, from their new start on."""

    changed_s: float
    """Time until the first change of the metadata was committed."""

    ready_s: float
    """Until every node serves and knows the others."""

    acknowledged_changes: int
    """Acknowledged changes since the run began; each was found on every controller."""

    contents: Contents


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerKill:
    """One active controller killed, from the kill on."""

    node_id: int
    elected_s: float
    """Time until another controller was active."""

    changed_s: float
    """Time until a change was committed that a client requested afterwards, from any broker."""

    admin_changed_s: float
    """The same through the public admin client."""

    gaps_s: list[float]
    """The longest time between two acknowledgements of each partition, shortest first."""

    back_s: float
    """Time from the killed node's restart until it was in sync."""


def kill_all(
    *, times: int, seed: int, load_s: tuple[float, float] = LOAD_S, tell: Callable[[EntireKill], None]
) -> list[EntireKill]:
    """Kills three nodes at once. Raises AssertionError when anything acknowledged is not there afterwards."""
    chance = Random(seed)
    kills = []
    with Cluster(nodes=VOTERS, overrides=SETTINGS) as cluster, surroundings(cluster) as running:
        for _ in range(times):
            # Kills come at random moments.
            time.sleep(chance.uniform(*load_s))
            kill_at_once(cluster.nodes)
            began_s = time.monotonic()
            cluster.start()
            changed_s = running.changes.wait_for_change(began_s)
            cluster.wait_ready(DEADLINE_S)
            ready_s = time.monotonic() - began_s
            running.check_metadata()
            running.wait_every_partition_since(began_s)
            kills.append(
                EntireKill(
                    changed_s=changed_s,
                    ready_s=ready_s,
                    acknowledged_changes=running.changes.acknowledged,
                    contents=running.check_records(),
                )
            )
            tell(kills[-1])
        running.finish()
    return kills


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerKills:
    kills: list[ControllerKill]
    contents: Contents
    acknowledged_changes: int
    change_failures: dict[str, int]


def kill_controller(
    *,
    times: int,
    seed: int,
    separate: bool,
    load_s: tuple[float, float] = LOAD_S,
    tell: Callable[[ControllerKill], None],
) -> ControllerKills:
    """Kill the active controller, and start it again once the cluster has recovered.

    With `separate`, controllers are nodes of their own. Raises AssertionError if a produce failed, or an
    acknowledged record is lost or duplicated.
    """
    chance = Random(seed)
    roles = _SEPARATE if separate else None
    kills = []
    with (
        Cluster(nodes=len(roles or range(VOTERS)), roles=roles, overrides=SETTINGS) as cluster,
        surroundings(cluster, with_admin=True) as running,
    ):
        for number in range(1, times + 1):
            # Kills come at random moments.
            time.sleep(chance.uniform(*load_s))
            kills.append(_kill_controller(running))
            tell(kills[-1])
            if number % _CHECK_EVERY == 0:
                running.check_metadata()
        return ControllerKills(
            kills=kills,
            contents=running.finish(),
            acknowledged_changes=running.changes.acknowledged,
            change_failures=dict(running.changes.failures),
        )


def _kill_controller(running: Surroundings) -> ControllerKill:
    node = running.controller()
    running.gaps.take()
    killed_at = time.time()
    killed_s = kill_at_once([node])
    changed_s = running.changes.wait_for_change(killed_s)
    admin_changed_s = running.changes.wait_for_admin_change(killed_s)
    running.wait_every_partition_since(time.monotonic())
    elected_s = _elected_at(running.cluster, node, killed_at) - killed_at
    started_s = time.monotonic()
    node.start()
    running.wait_in_sync()
    return ControllerKill(
        node_id=node.node_id,
        elected_s=elected_s,
        changed_s=changed_s,
        admin_changed_s=admin_changed_s,
        gaps_s=running.gaps.take(),
        back_s=time.monotonic() - started_s,
    )


def _elected_at(cluster: Cluster, killed: NodeProcess, since: float) -> float:
    """Return the time at which the next leader of the quorum began, from its log."""
    began: list[float] = [
        event["timestamp"]
        for node in cluster.nodes
        if node is not killed
        for event in log_events(node, since)
        if event["event"] == "raft leadership gained"
    ]
    return min(began)
