"""Random runs of transactions with groups and elections: faults of every kind, then none, when everything must end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.simulation.exactly_once_history import Invariant, Violation
from tests.simulation.exactly_once_producers import TIMEOUT_MS
from tests.simulation.exactly_once_workers import WORKERS, Worker
from tests.simulation.exactly_once_world import INPUTS, TRANSACTIONAL_IDS, WORKERS_MAX, World
from tests.simulation.noticing import is_noticed
from tests.simulation.tallies import Counts

STEPS: Final = 2_500
"""Random events in a run of a seed."""

HEAL_ROUNDS: Final = 200
HEAL_MS: Final = 100
"""Time of one round without faults."""

STABLE_MS: Final = TIMEOUT_MS + 500
"""Time in which transactions without producers end: their timeout, and that of an attempt to write."""


@dataclass(slots=True)
class Tally(Counts):
    """Counts of one run, or of many."""

    commits: int = 0
    aborts: int = 0
    outputs: int = 0
    elections: int = 0
    fenced: int = 0
    stale_commits: int = 0


def run(seed: int, steps: int = STEPS) -> Tally:
    """Run one seed. Raises Violation."""
    random = Random(seed)
    world = World(random)
    for group_id in sorted(WORKERS):
        for _ in range(2):
            _start(world, group_id)
    choices, weights = zip(*_Chance(world).weighted_events(), strict=True)
    for happen in random.choices(choices, weights, k=steps):
        world.advance(random.randrange(4))
        happen()
    heal(world)
    fates = world.history.fates.values()
    return Tally(
        seeds=1,
        commits=sum(True in fate.outcomes.values() for fate in fates),
        aborts=sum(False in fate.outcomes.values() for fate in fates),
        outputs=len(world.history.seen),
        elections=world.elections,
        fenced=world.fenced,
        stale_commits=world.stale_commits,
    )


def notices(invariant: Invariant, seeds: Iterable[int]) -> bool:
    """Return whether one of the seeds breaks this invariant."""
    return is_noticed(run, lambda error: isinstance(error, Violation) and error.invariant is invariant, seeds)


class _Chance:
    """What may happen next. An event that is not possible now does nothing."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.random

    def weighted_events(self) -> list[tuple[Callable[[], object], int]]:
        world = self._world
        return [
            (self._step, 400),
            (self._deliver, 500),
            (world.network.deliver_again, 20),
            (world.work, 150),
            (world.write, 100),
            (world.replicate, 100),
            (world.send_markers, 60),
            (world.consume, 20),
            (self._start, 8),
            (self._kill, 2),
            (self._leave, 2),
            (self._freeze, 3),
            (self._stop_waiting, 10),
            (world.elect, 6),
            (world.resign, 15),
            (lambda: world.write(fails=True), 2),
            (world.expire_producers, 5),
            (world.delete_consumed, 5),
            (lambda: world.advance(self._random.choice([100, 300, 1_300])), 2),
        ]

    def _step(self) -> None:
        for _ in range(3):
            self._world.step()

    def _deliver(self) -> None:
        for _ in range(self._random.randint(1, 4)):
            self._world.network.deliver()

    def _start(self) -> None:
        if len(self._world.workers) < WORKERS_MAX:
            _start(self._world, self._random.choice(sorted(WORKERS)))

    def _worker(self) -> Worker | None:
        return self._random.choice(self._world.workers) if self._world.workers else None

    def _kill(self) -> None:
        if (worker := self._worker()) is not None:
            self._world.end(worker)

    def _leave(self) -> None:
        if (worker := self._worker()) is not None:
            worker.leave()
            self._world.end(worker)

    def _freeze(self) -> None:
        if (worker := self._worker()) is not None:
            worker.frozen_until_ms = self._world.network.now_ms + self._random.choice([300, 700, 1_500])

    def _stop_waiting(self) -> None:
        if (worker := self._worker()) is not None:
            worker.stop_waiting()


def _start(world: World, group_id: str) -> None:
    """Start a worker, which may fence another one."""
    used = {each.producer.transactional_id for each in world.workers}
    free = sorted(set(TRANSACTIONAL_IDS) - used)
    is_fencing = not free or world.random.random() < 0.15
    world.start(group_id, world.random.choice(TRANSACTIONAL_IDS if is_fencing else free))


def heal(world: World) -> None:
    """End all faults: workers commit again, and without workers everything is stable within the timeout."""
    world.network.end_faults()
    world.resign_all()
    for worker in world.workers:
        worker.frozen_until_ms = 0
        worker.stop_waiting()
    _leave_few_workers(world)
    for group_id in WORKERS:
        world.start(group_id, f"new in {group_id}")
    _go_on(world)
    for worker in list(world.workers):
        world.end(worker)
    become_stable(world)
    world.check_end()


def _leave_few_workers(world: World) -> None:
    """End the workers that share a transactional id, and those for which there will be no partition."""
    kept: list[Worker] = []
    for worker in list(world.workers):
        ids = {each.producer.transactional_id for each in kept}
        in_group = sum(each.group_id == worker.group_id for each in kept)
        if worker.producer.transactional_id in ids or in_group == INPUTS - 1:
            world.end(worker)
        else:
            kept.append(worker)


def _go_on(world: World) -> None:
    before = {worker: worker.producer.commits for worker in world.workers}
    for _ in range(HEAL_ROUNDS):
        step_all(world)
        if all(worker.producer.commits > before[worker] for worker in world.workers):
            return
    late = [worker for worker in world.workers if worker.producer.commits == before[worker]]
    raise Violation(Invariant.GOES_ON, f"{[(each.group_id, each.producer.machine.state) for each in late]}")


def step_all(world: World, *, markers: bool = True) -> None:
    """Let everybody do what is due, without faults."""
    world.advance(HEAL_MS)
    for _ in range(4):
        for worker in list(world.workers):
            if worker.is_alive:
                world.step_of(worker)
        if markers:
            world.brokers.send_markers(lambda: False)
        world.network.deliver_all()
        world.work()
        world.work()


def become_stable(world: World) -> None:
    """Let the time of a transaction pass: nothing is open then."""
    for _ in range(STABLE_MS // HEAL_MS):
        step_all(world)
    if unstable := world.unstable():
        raise Violation(Invariant.STABLE_MOVES, unstable)
