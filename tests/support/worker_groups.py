"""Distribution of the tests among the workers of pytest-xdist."""

from __future__ import annotations

import os
from typing import Final

from xdist.scheduler import LoadFileScheduling

_KAFKA: Final = "tests/end_to_end/kafka/"

SHARED: Final = {
    "a Spark session": ("tests/end_to_end/spark/",),
    "three nodes": (
        f"{_KAFKA}test_compression_type.py",
        f"{_KAFKA}test_kafka_clients.py",
        f"{_KAFKA}test_kafka_positions.py",
        f"{_KAFKA}test_kafka_samples.py",
    ),
}
"""Files, or whole folders, whose tests run in one worker one after the other because of what they share."""


class WorkerGroups(LoadFileScheduling):  # type: ignore[misc]  # It ships no types.
    """Runs the tests of a file in one worker, and those of files that share something."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def group_of(nodeid: str) -> str:
    return next((what for what, paths in SHARED.items() if nodeid.startswith(paths)), nodeid.partition("::")[0])


def worker_count() -> int:
    """Three for two cores: a test with real nodes waits for them nearly half of its time."""
    return max(1, len(os.sched_getaffinity(0)) * 3 // 2)
