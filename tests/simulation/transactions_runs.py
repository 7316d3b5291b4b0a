"""Random runs of a simulated transaction coordinator: faults of every kind, then none, when everything must end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import structlog

from tests.simulation.noticing import is_noticed
from tests.simulation.transactions_history import Invariant, Violation
from tests.simulation.transactions_world import World

log = structlog.get_logger()

STEPS: Final = 3_000
"""Random events in a run of a seed."""


@dataclass(slots=True)
class Tally:
    """Counts of one run, or of many."""

    seeds: int = 0
    transactions: int = 0
    acknowledged: int = 0
    aborted: int = 0
    crashes: int = 0

    def add(self, other: Tally) -> None:
        self.seeds += other.seeds
        self.transactions += other.transactions
        self.acknowledged += other.acknowledged
        self.aborted += other.aborted
        self.crashes += other.crashes


def run(seed: int) -> Tally:
    """Run one seed. Raises Violation, or whatever the coordinator raises."""
    world = World(seed)
    world.run(STEPS)
    fates = world.history.fates.values()
    return Tally(
        seeds=1,
        transactions=len(fates),
        acknowledged=sum(fate.acknowledged_commit for fate in fates),
        aborted=sum(False in fate.outcomes.values() for fate in fates),
        crashes=world.crashes,
    )


def notices(invariant: Invariant, seeds: Iterable[int]) -> bool:
    """Return whether one of the seeds breaks this invariant."""
    return is_noticed(run, lambda error: isinstance(error, Violation) and error.invariant is invariant, seeds)
