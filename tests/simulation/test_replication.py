"""Replication under random faults, and each guard removed in turn to see that the simulation would notice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.replication_machines import CORRECT, Violation
from tests.simulation.replication_runs import run_seed
from tests.simulation.weakened_machines import (
    BelievesOldStates,
    CommitsBelowMinimumIsr,
    ForgetsRefusedReplicas,
    JoinsWithoutEpochStart,
    JoinsWithoutHighWatermark,
    TakesLateAnswers,
    TrustsThePageCache,
    WaitsForTheCommittedIsrOnly,
)

SEEDS = 500
MUTANT_SEEDS = 400


def test_invariants_hold_after_every_event_and_all_replicas_are_equal_in_the_end() -> None:
    committed = elections = 0
    for seed in range(SEEDS):
        try:
            world = run_seed(seed)
        except Exception as error:
            error.add_note(f"python -m tests.soak.replication_seeds --first-seed {seed} --seeds 1")
            raise
        committed += len(world.exposed)
        elections += world.controller.state.leader_epoch
    assert committed > 5 * SEEDS, "runs that commit nothing show nothing"
    assert elections > 3 * SEEDS


def test_a_seed_replays_exactly() -> None:
    first, second = run_seed(11), run_seed(11)

    assert first.exposed == second.exposed
    assert first.controller.history == second.controller.history


# --- every guard is needed -------------------------------------------------------------------------------------


MUTANTS = {
    "truncation to the high watermark": (replace(CORRECT, truncates_to_high_watermark=True), "I4"),
    "no check of the last fetched epoch": (replace(CORRECT, ignores_divergence=True), "I3"),
    "high watermark from the log end": (replace(CORRECT, leader=TrustsThePageCache), "I14"),
    "join without the epoch start": (replace(CORRECT, leader=JoinsWithoutEpochStart), "I4"),
    "join without the high watermark": (replace(CORRECT, leader=JoinsWithoutHighWatermark), "I4"),
    "commit below the minimum ISR": (replace(CORRECT, leader=CommitsBelowMinimumIsr), "I14"),
    "committed ISR instead of the maximal one": (replace(CORRECT, leader=WaitsForTheCommittedIsrOnly), "I4"),
    "refused replicas forgotten within the partition epoch": (
        replace(CORRECT, leader=ForgetsRefusedReplicas, refusals_begin_epochs=False),
        "I4",
    ),
    "old partition states believed": (replace(CORRECT, leader=BelievesOldStates), "I10"),
    "late fetch answers taken": (replace(CORRECT, follower=TakesLateAnswers), "I9"),
}
"""A guard to remove, and the invariant that then breaks; a run that fails in another way proves nothing."""


@pytest.mark.parametrize("name", MUTANTS)
def test_the_simulation_notices(name: str) -> None:
    variant, invariant = MUTANTS[name]
    for seed in range(MUTANT_SEEDS):
        try:
            run_seed(seed, variant)
        except Violation as violation:
            if str(violation).startswith(f"{invariant}: "):
                return
    pytest.fail(f"{MUTANT_SEEDS} seeds did not break {invariant}: {name}")
