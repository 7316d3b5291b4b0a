"""Random runs of the replication world: faults of every kind, then none, when everything must heal."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from kraft.model.ids import BrokerId
from tests.simulation.replication_model import BROKERS
from tests.simulation.replication_world import CORRECT, Message, Variant, Violation, World

STEPS: Final = 600
"""Random events in a run of a seed."""


def run_seed(seed: int, variant: Variant = CORRECT) -> World:
    """Raises Violation. Every other seed needs two replicas in sync."""
    return run_randomly(seed, STEPS, variant, min_insync_replicas=1 + seed % 2)


def run_randomly(seed: int, steps: int, variant: Variant = CORRECT, min_insync_replicas: int = 2) -> World:
    """Run `steps` random events, then heal everything and check that the replicas become equal."""
    random = Random(seed)
    world = World(variant, min_insync_replicas)
    choices, weights = zip(*_Chance(world, random).weighted_events(), strict=True)
    for happen in random.choices(choices, weights, k=steps):
        world.now_ms += random.randrange(8)
        happen(random.choice(BROKERS))
    heal(world)
    return world


class _Chance:
    """The random events that need more than a broker id."""

    def __init__(self, world: World, random: Random) -> None:
        self._world = world
        self._random = random

    def weighted_events(self) -> list[tuple[Callable[[BrokerId], object], int]]:
        world = self._world
        return [
            (self._produce, 10),
            (world.sync, 18),
            (world.fetch, 24),
            (self._deliver, 55),
            (self._repeat, 3),
            (self._lose, 2),
            (self._read_metadata, 14),
            (self._reach_controller, 12),
            (self._reach_controller_late, 4),
            (world.tick, 6),
            (world.checkpoint, 3),
            (self._crash, 1),
            (world.restart, 5),
            (self._fence, 1),
            (self._unfence, 6),
            (world.controller.elect, 1),
        ]

    def _produce(self, _: BrokerId) -> None:
        leaders = [broker for broker, replica in self._world.replicas.items() if replica.leader is not None]
        if leaders:
            self._world.produce(self._random.choice(leaders))

    def _deliver(self, _: BrokerId) -> None:
        if self._world.network:
            self._world.deliver(self._take_message())

    def _repeat(self, _: BrokerId) -> None:
        if self._world.network:
            self._world.deliver(self._random.choice(self._world.network))

    def _lose(self, _: BrokerId) -> None:
        if self._world.network:
            self._take_message()

    def _take_message(self) -> Message:
        return self._world.network.pop(self._random.randrange(len(self._world.network)))

    def _crash(self, broker: BrokerId) -> None:
        end = self._world.replicas[broker].log.log_end_offset
        self._world.crash(broker, kept_end=self._random.randrange(end + 1))

    def _reach_controller(self, broker: BrokerId) -> None:
        self._world.reach_controller(broker, answer_arrives=self._random.random() < 0.7)

    def _reach_controller_late(self, _: BrokerId) -> None:
        if self._world.late_attempts:
            self._world.reach_controller_late(self._random.choice(self._world.late_attempts))

    def _read_metadata(self, broker: BrokerId) -> None:
        self._world.read_metadata(broker, records=1)

    def _fence(self, broker: BrokerId) -> None:
        self._world.controller.fence(broker)
        self._world.check()

    def _unfence(self, broker: BrokerId) -> None:
        if self._world.replicas[broker].alive:
            self._world.controller.unfence(broker)
            self._world.check()


def heal(world: World, rounds: int = 60) -> None:
    """Run all brokers and deliver every message: within `rounds` the logs are equal and all is committed (I10)."""
    world.network.clear()
    for broker in BROKERS:
        world.restart(broker)
        world.controller.unfence(broker)
    for _ in range(rounds):
        _round_without_faults(world)
        if not _unrest(world):
            return
    raise Violation(f"I10: {rounds} rounds without faults, and still: {_unrest(world)}")


def _round_without_faults(world: World) -> None:
    world.now_ms += 30
    for broker in BROKERS:
        world.read_metadata(broker)
        world.sync(broker)
        world.fetch(broker)
        world.reach_controller(broker)
        world.tick(broker)
    while world.network:
        world.deliver(world.network.pop(0))


def _unrest(world: World) -> str:
    """Return what has not converged yet; empty if everything has."""
    isr = world.controller.state.isr
    if set(isr) != set(BROKERS):
        return f"the ISR is {isr}"
    first, *others = [replica.log.records for replica in world.replicas.values()]
    if any(other != first for other in others):
        return "the replicas differ"
    return "" if world.exposed == first else f"{len(world.exposed)} of {len(first)} records are committed"
