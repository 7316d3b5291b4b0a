"""Random runs of the replication world: faults of every kind, then none, when everything must heal."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, Generic

from kraft.model.ids import BrokerId
from tests.simulation.replication_machines import CORRECT, Log, Machines, Message, Variant, Violation
from tests.simulation.replication_model import BROKERS
from tests.simulation.replication_world import World

Event = Callable[[BrokerId], object]

STEPS: Final = 600
"""Random events in a run of a seed."""


def run_seed(seed: int, variant: Variant = CORRECT) -> World:
    """Raises Violation. Every other seed needs two replicas in sync."""
    return run_randomly(seed, STEPS, variant, min_insync_replicas=1 + seed % 2)


def run_randomly(seed: int, steps: int, variant: Variant = CORRECT, min_insync_replicas: int = 2) -> World:
    """Run `steps` random events, then heal everything and check that the replicas become equal."""
    world = World(variant, min_insync_replicas)
    Chance(world, Random(seed)).run(steps)
    heal(world)
    return world


class Chance(Generic[Log]):
    """The random events of a world, and those of them that need more than a broker id."""

    def __init__(self, world: Machines[Log], random: Random) -> None:
        self._world = world
        self._random = random

    def run(self, steps: int) -> None:
        choices, weights = zip(*self.weighted_events(), strict=True)
        for happen in self._random.choices(choices, weights, k=steps):
            self._world.now_ms += self._random.randrange(8)
            happen(self._random.choice(BROKERS))

    def weighted_events(self) -> list[tuple[Event, int]]:
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
        if leaders := self._leaders():
            self._world.produce(self._random.choice(leaders))

    def _leaders(self) -> list[BrokerId]:
        """Return every broker that believes to lead."""
        return [broker for broker, replica in self._world.replicas.items() if replica.leader is not None]

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
        self._world.crash_randomly(broker, self._random)

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


def heal(world: Machines[Log], rounds: int = 60) -> None:
    """Run all brokers and deliver every message: within `rounds` the logs are equal and all is committed (I10)."""
    world.network.clear()
    for broker in BROKERS:
        world.restart(broker)
        world.controller.unfence(broker)
    for _ in range(rounds):
        _round_without_faults(world)
        if not world.unrest():
            return
    raise Violation(f"I10: {rounds} rounds without faults, and still: {world.unrest()}")


def _round_without_faults(world: Machines[Log]) -> None:
    world.now_ms += 30
    for broker in BROKERS:
        world.read_metadata(broker)
        world.sync(broker)
        world.fetch(broker)
        world.reach_controller(broker)
        world.tick(broker)
    while world.network:
        world.deliver(world.network.pop(0))
