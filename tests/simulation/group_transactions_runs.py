"""Random runs of offsets in transactions: faults of every kind, then none, when every transaction must end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.simulation.group_transactions_world import PRODUCERS, Invariant, Violation, World
from tests.simulation.noticing import is_noticed
from tests.simulation.tallies import Counts

STEPS: Final = 1_500
"""Random events in a run of a seed."""

HEAL_ROUNDS: Final = 200


@dataclass(slots=True)
class Tally(Counts):
    """Counts of one run, or of many."""

    commits: int = 0
    aborts: int = 0
    fetches: int = 0
    elections: int = 0
    refused: int = 0
    expired: int = 0
    batches: int = 0


def run(seed: int, steps: int = STEPS) -> Tally:
    """Run one seed. Raises Violation."""
    random = Random(seed)
    world = World(random)
    choices, weights = zip(*_events(world), strict=True)
    for happen in random.choices(choices, weights, k=steps):
        world.advance(random.randrange(20))
        happen()
        world.check()
    heal(world)
    return Tally(
        seeds=1,
        commits=world.commits,
        aborts=world.aborts,
        fetches=world.fetches,
        elections=world.elections,
        refused=world.refused,
        expired=world.expired,
        batches=len(world.truth),
    )


def notices(invariant: Invariant, seeds: Iterable[int]) -> bool:
    """Return whether one of the seeds breaks this invariant."""
    return is_noticed(run, lambda error: isinstance(error, Violation) and error.invariant is invariant, seeds)


def _events(world: World) -> list[tuple[Callable[[], object], int]]:
    random = world.random

    def deliver() -> None:
        if world.network:
            world.network.pop(random.randrange(len(world.network)))()

    def repeat() -> None:
        if world.network:
            world.late.append(random.choice(world.network))

    def deliver_late() -> None:
        if world.late:
            random.choice(world.late)()

    return [
        (deliver, 300),
        (repeat, 30),
        (deliver_late, 30),
        (world.write, 200),
        (lambda: world.replicate(random.randint(1, 3)), 150),
        (world.finish_load, 60),
        (world.commit_in_transaction, 80),
        (world.commit_alone, 30),
        (world.end_transaction, 40),
        (world.send_marker, 60),
        (lambda: world.send_marker(is_late=True), 5),
        (world.fetch_stable, 60),
        (world.delete_group, 3),
        (world.come_and_go, 5),
        (lambda: world.advance(random.choice([500, 5_000])), 5),
        (lambda: world.write(fails=True), 4),
        (world.elect, 5),
    ]


def heal(world: World) -> None:
    """End all faults and every transaction: soon nothing is pending."""
    for _ in range(HEAL_ROUNDS):
        if world.transactions and all(each.is_written for each in world.transactions):
            break
        for producer_id in range(PRODUCERS):
            transaction = world.current(producer_id)
            if transaction.is_commit is None:
                transaction.is_commit = False
        for _ in range(PRODUCERS):
            world.send_marker()
        while world.network:
            world.network.pop(0)()
        for _ in range(2 * PRODUCERS):
            world.write()
            world.replicate(10)
            world.finish_load()
        world.advance(600)
        world.check()
    world.check_end()
