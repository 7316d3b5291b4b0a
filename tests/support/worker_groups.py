"""Distribution of the tests among the workers of pytest-xdist."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final, TypeVar

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

_END_TO_END: Final = "tests/end_to_end/"
_KAFKA: Final = f"{_END_TO_END}kafka/"

SHARED: Final = {
    "a Spark session": (f"{_END_TO_END}spark/",),
    "three nodes": (
        f"{_KAFKA}test_compression_type.py",
        f"{_KAFKA}test_kafka_clients.py",
        f"{_KAFKA}test_kafka_positions.py",
        f"{_KAFKA}test_kafka_samples.py",
    ),
}
"""Files, or whole folders, whose tests run in one worker one after the other because of what they share."""

HUNGRY: Final = (
    "a Spark session",
    f"{_END_TO_END}programs/test_readme.py",
    f"{_END_TO_END}programs/test_demo.py",
    f"{_END_TO_END}programs/test_chaos.py",
    f"{_END_TO_END}quorum/test_quorum_faults.py",
    f"{_END_TO_END}cluster/test_node_processes.py",
    f"{_END_TO_END}programs/test_transactions.py",
    f"{_END_TO_END}programs/test_consumer_groups.py",
    f"{_END_TO_END}programs/test_secured_nodes.py",
    f"{_KAFKA}test_kafka_streams.py",
    f"{_KAFKA}test_kafka_restarts.py",
    f"{_KAFKA}test_exactly_once.py",
    f"{_END_TO_END}storage/test_storage_failures.py",
    f"{_END_TO_END}storage/test_replica_moves.py",
    f"{_END_TO_END}storage/test_power_loss.py",
)
"""Groups that keep a core busy, with two thirds of a second of processor time a second, or that kill nodes under load.

One worker takes them one after the other, in about the time in which the others take the rest: two of them at the same
time take each other's processor time. In test_kafka_restarts, for one, threads of librdkafka spin while responses are
late, and the later these are, the longer: it takes 13 s of processor time alone, and 50 to 180 s on a busy machine.
"""

LONGEST: Final = (
    f"{_KAFKA}groups/test_group_members.py",
    "three nodes",
    f"{_END_TO_END}programs/test_background_nodes.py",
    f"{_KAFKA}groups/test_group_migration.py",
    f"{_KAFKA}test_login_limits.py",
)
"""Groups that take half a minute and more, though they have few slow tests: the longest first.

All of them wait most of that time, for sessions, rebalances and deadlines.
"""

T = TypeVar("T")


class Share(Enum):
    """What a worker takes first; it helps the others when there is no more of it."""

    HUNGRY = auto()
    LONGEST_WITH_NODES = auto()
    QUICKEST_WITH_NODES = auto()
    COMPUTING = auto()


SHARES: Final = (
    Share.HUNGRY,
    Share.COMPUTING,
    Share.LONGEST_WITH_NODES,
    Share.QUICKEST_WITH_NODES,
)
"""Shares of the workers of two cores, in the order of their numbers."""


class WorkerGroups(LoadFileScheduling):  # type: ignore[misc]  # It ships no types.
    """Runs the tests of a file in one worker, and those of files that share something; each worker has its share."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        share = SHARES[int(node.gateway.id.removeprefix("gw")) % len(SHARES)]
        self.workqueue.move_to_end(next_group([*self.workqueue], share), last=False)
        super()._assign_work_unit(node)


def group_of(nodeid: str) -> str:
    return next((what for what, paths in SHARED.items() if nodeid.startswith(paths)), nodeid.partition("::")[0])


def rotated(children: Sequence[T], worker: int, workers: int) -> list[T]:
    """Return the children of a folder in the order in which this worker collects them.

    Each begins at another place. So in a fresh clone each compiles a share of the tests, and finds the rest compiled;
    in one order for all, every worker would compile every test.
    """
    first = len(children) * worker // workers
    return [*children[first:], *children[:first]]


def longest_first(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the tests in the order of their groups, those with the longest tests first."""
    groups: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    # Every worker needs the same order, and each has collected in one of its own; tests of a file stay as they are.
    for item in sorted(items, key=lambda item: str(item.path)):
        groups[group_of(item.nodeid)].append(item)
    return [
        item
        for name in sorted(groups, key=lambda name: _weight(name, groups[name]), reverse=True)
        for item in groups[name]
    ]


def next_group(groups: Sequence[str], share: Share) -> str:
    """Return the group that a worker with this share takes, of those that are left, the longest first.

    Files with nodes wait for more than half of their time, and files that compute use the cores meanwhile. Those that
    need a core for themselves are left to one worker, so that no two of them meet.
    """
    hungry = [group for group in groups if group in HUNGRY]
    waiting = [group for group in groups if _has_nodes(group) and group not in HUNGRY]
    computing = [group for group in groups if not _has_nodes(group)]
    quickest = waiting[::-1]
    kinds = {
        Share.HUNGRY: (hungry, waiting, computing),
        Share.COMPUTING: (computing, quickest, hungry),
        Share.LONGEST_WITH_NODES: (waiting, computing, hungry),
        Share.QUICKEST_WITH_NODES: (quickest, computing, hungry),
    }[share]
    return next(of_one_kind[0] for of_one_kind in kinds if of_one_kind)


def _has_nodes(group: str) -> bool:
    return group in SHARED or group.startswith(_END_TO_END)


def _weight(name: str, group: Sequence[pytest.Item]) -> tuple[int, int, int]:
    """Return the place among the longest, and the number of slow tests, then that of all.

    A long file that starts last keeps one worker busy alone.
    """
    named = (*HUNGRY, *LONGEST)
    place = len(named) - named.index(name) if name in named else 0
    return place, sum(item.get_closest_marker("slow") is not None for item in group), len(group)


def worker_count() -> int:
    """Return four for two cores: one that computes, one whose tests keep a core busy, and two whose tests wait."""
    return max(1, len(os.sched_getaffinity(0)) * len(SHARES) // 2)
