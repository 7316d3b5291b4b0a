"""Repeated kill -9 of real nodes under load: each time every acknowledged record is there exactly once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from kraft.client import Admin
from kraft.testing import Cluster
from tests.soak.loads.numbered_load import Contents, NumberedLoad, compare
from tests.support.records import create_topic
from tests.support.waiting import until_in_sync

PARTITIONS: Final = 2
_TOPIC: Final = "killed"
_ONLINE_DEADLINE_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """Times after one kill, counted from the restart of the node."""

    node_id: int
    online_s: float
    """Time until it listens and has the metadata."""

    acknowledged_s: float
    """Time until a partition acknowledged a record; with several nodes, another node may have done it."""

    contents: Contents


def run(
    *, times: int, nodes: int, seed: int, load_s: tuple[float, float] = (0.3, 1.5), tell: Callable[[Kill], None]
) -> list[Kill]:
    """Kill one node after the other, at random times under load, and start it again.

    With several nodes, every replica is back in sync before the next kill. Raises AssertionError if the load had an
    error.
    """
    chance = Random(seed)
    kills = []
    with Cluster(nodes=nodes) as cluster:
        create_topic(cluster.bootstrap_servers, _TOPIC, partitions=PARTITIONS, replication_factor=nodes)
        with NumberedLoad(cluster.bootstrap_servers, _TOPIC, partitions=PARTITIONS) as load:
            load.wait_for_acknowledgements(1)
            for _ in range(times):
                # Kills come at random moments.
                time.sleep(chance.uniform(*load_s))
                kills.append(_kill(cluster, load, chance.randint(1, nodes)))
                tell(kills[-1])
                with Admin(cluster.bootstrap_servers) as admin:
                    until_in_sync(admin, _TOPIC, _ONLINE_DEADLINE_S)
            load.pause(deadline_s=_ONLINE_DEADLINE_S)
            assert not load.errors, f"the load failed: {dict(load.errors)}"
            assert load.acknowledged_count == load.sent, "a number without an outcome"
            final = compare(cluster.bootstrap_servers, _TOPIC, load)
            assert final.is_exact, str(final)
    return kills


def _kill(cluster: Cluster, load: NumberedLoad, node_id: int) -> Kill:
    node = cluster.node(node_id)
    node.kill()
    began_s = time.monotonic()
    node.start()
    cluster.wait_ready(_ONLINE_DEADLINE_S)
    online_s = time.monotonic() - began_s
    load.wait_for_acknowledgements(1, _ONLINE_DEADLINE_S)
    acknowledged_s = time.monotonic() - began_s
    contents = compare(cluster.bootstrap_servers, _TOPIC, load)
    return Kill(node_id=node_id, online_s=online_s, acknowledged_s=acknowledged_s, contents=contents)
