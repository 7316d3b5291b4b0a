"""Random runs of simulated drivers that commit batches: faults of every kind, then none, when everything must end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tests.simulation.noticing import is_noticed
from tests.simulation.sink_history import Invariant, Violation
from tests.simulation.sink_world import World

STEPS: Final = 3_000
"""Random events in a run of a seed."""


@dataclass(slots=True)
class Tally:
    """Counts of one run, or of many."""

    seeds: int = 0
    batches: int = 0
    runs: int = 0
    committed: int = 0
    aborted: int = 0
    crashes: int = 0

    def add(self, other: Tally) -> None:
        self.seeds += other.seeds
        self.batches += other.batches
        self.runs += other.runs
        self.committed += other.committed
        self.aborted += other.aborted
        self.crashes += other.crashes


def run(seed: int) -> Tally:
    """Run one seed. Raises Violation, or whatever the coordinator raises."""
    world = World(seed)
    world.run(STEPS)
    history = world.history
    return Tally(
        seeds=1,
        batches=len(history.passed),
        runs=sum(map(len, history.asked.values())),
        committed=len(history.committed),
        aborted=len(history.outcomes) - len(history.committed),
        crashes=world.crashes,
    )


def notices(invariant: Invariant, seeds: Iterable[int]) -> bool:
    """Return whether one of the seeds breaks this invariant."""
    return is_noticed(run, lambda error: isinstance(error, Violation) and error.invariant is invariant, seeds)
