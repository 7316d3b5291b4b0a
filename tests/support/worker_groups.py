"""Distribution of the tests among the workers of pytest-xdist."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, TypeVar

import pytest
from xdist.scheduler import LoadFileScheduling

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

T = TypeVar("T")


class WorkerGroups(LoadFileScheduling):  # type: ignore[misc]  # It ships no types.
    """Runs the tests of a file in one worker, and those of files that share something."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def group_of(nodeid: str) -> str:
    return next((what for what, paths in SHARED.items() if nodeid.startswith(paths)), nodeid.partition("::")[0])


def rotated(children: Sequence[T], worker: int, workers: int) -> list[T]:
    """Return the children of a folder in the order in which this worker collects them.

    Each begins at another place. So in a fresh clone each compiles a share of the tests, and finds the rest compiled;
    in one order for all, every worker would compile every test.
    """
    first = len(children) * worker // workers
    return [*children[first:], *children[:first]]


def interleaved(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the tests so that files that wait for nodes run beside files that compute, the longest first.

    Workers take the files in this order. All of `end_to_end` first would leave cores idle at the beginning, and have
    every worker compute at the end.
    """
    groups: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    # Every worker needs the same order, and each has collected in one of its own; tests of a file stay as they are.
    for item in sorted(items, key=lambda item: str(item.path)):
        groups[group_of(item.nodeid)].append(item)
    waiting = [group for group in groups.values() if group[0].nodeid.startswith(_END_TO_END)]
    computing = [group for group in groups.values() if not group[0].nodeid.startswith(_END_TO_END)]
    waiting.sort(key=_weight, reverse=True)
    mixed = [*_places(waiting), *_places(computing)]
    mixed.sort(key=lambda placed: placed[0])
    return [item for _, group in mixed for item in group]


def _weight(group: Sequence[pytest.Item]) -> tuple[int, int]:
    """Return the number of slow tests, then that of all: a long file that starts last keeps one worker busy alone."""
    return sum(item.get_closest_marker("slow") is not None for item in group), len(group)


def _places(groups: Sequence[list[pytest.Item]]) -> list[tuple[float, list[pytest.Item]]]:
    """Return each group with its place from 0 to 1, all at the same distance."""
    return [(number / len(groups), group) for number, group in enumerate(groups)]


def worker_count() -> int:
    """Three for two cores: a test with real nodes waits for them half of its time.

    With two for each core, four tests that kill nodes may meet, whose elections then take each other's processor time.
    """
    return max(1, len(os.sched_getaffinity(0)) * 3 // 2)
