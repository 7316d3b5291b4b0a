"""Random runs of the upkeep world: faults, deletions and elections of every kind, then none, when all must heal."""

from __future__ import annotations

from random import Random
from typing import Final

from kraft.log.format.control_record import MarkerType
from kraft.model.ids import BrokerId
from tests.simulation.kept_log import KeptLog
from tests.simulation.replication_machines import CORRECT, Variant
from tests.simulation.replication_runs import Chance, Event, heal
from tests.simulation.upkeep_world import PRODUCERS, UpkeepWorld

STEPS: Final = 1_500
"""Random events in a run of a seed."""


def run_upkeep_seed(seed: int, variant: Variant = CORRECT) -> UpkeepWorld:
    """Raises Violation. Every other seed needs two replicas in sync; every third has clean elections only."""
    world = UpkeepWorld(variant, min_insync_replicas=1 + seed % 2)
    _UpkeepChance(world, Random(seed), is_unclean=seed % 3 > 0).run(STEPS)
    heal(world, rounds=120)
    world.check_healed()
    return world


class _UpkeepChance(Chance[KeptLog]):
    def __init__(self, world: UpkeepWorld, random: Random, *, is_unclean: bool) -> None:
        super().__init__(world, random)
        self._upkeep = world
        self._is_unclean = is_unclean

    def weighted_events(self) -> list[tuple[Event, int]]:
        upkeep = self._upkeep
        return [
            *super().weighted_events(),
            (self._write_in_transaction, 8),
            (self._end_transaction, 4),
            (self._apply_retention, 2),
            (self._delete_records, 2),
            (upkeep.roll, 2),
            (upkeep.continue_cleaning, 6),
            (upkeep.remove_deleted, 2),
            (upkeep.stop, 1),
            *([(upkeep.elect_uncleanly, 2)] if self._is_unclean else []),
        ]

    def _write_in_transaction(self, _: BrokerId) -> None:
        if leaders := self._leaders():
            self._upkeep.write_in_transaction(self._random.choice(leaders), self._random.choice(PRODUCERS))

    def _end_transaction(self, _: BrokerId) -> None:
        if leaders := self._leaders():
            kind = self._random.choice((MarkerType.COMMIT, MarkerType.ABORT))
            fences = kind is MarkerType.ABORT and self._random.random() < 0.2
            producer = self._random.choice(PRODUCERS)
            self._upkeep.end_transaction(self._random.choice(leaders), producer, kind, fences=fences)

    def _apply_retention(self, broker: BrokerId) -> None:
        self._upkeep.apply_retention(broker, retention_bytes=self._random.choice((0, 1_000, 3_000)))

    def _delete_records(self, _: BrokerId) -> None:
        for broker in self._leaders():
            log = self._upkeep.replicas[broker].log
            self._upkeep.delete_records(broker, self._random.randint(log.log_start_offset, log.log_end_offset))
