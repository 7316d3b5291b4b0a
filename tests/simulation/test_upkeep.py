"""Replicas with retention, compaction, transactions and unclean elections, and guards removed in turn."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kraft.log.cleaning.cleaned_segments import CleaningResult
from kraft.log.integrity.directory import _DirectoryCheck
from kraft.log.recovery.producer_state import ProducerStates
from kraft.replication.follower import PartitionFollower
from tests.simulation.replication_machines import Violation
from tests.simulation.upkeep_runs import run_upkeep_seed

SEEDS = 40
MUTANT_SEEDS = 100


@pytest.mark.slow
def test_what_is_committed_is_kept_or_deleted_by_retention_on_all_replicas_alike() -> None:
    committed = deleted = cleaned = unclean_elections = 0
    for seed in range(SEEDS):
        try:
            world = run_upkeep_seed(seed)
        except Exception as error:
            error.add_note(f"python -m tests.soak.upkeep_seeds --first-seed {seed} --seeds 1")
            raise
        committed += world.exposed_end
        deleted += world.deleted_to
        cleaned += world.cleaned_to
        unclean_elections += world.unclean_elections
    assert committed > 20 * SEEDS, "runs that commit nothing show nothing"
    assert deleted > 10 * SEEDS
    assert cleaned > 2 * SEEDS
    assert unclean_elections > SEEDS


def test_a_seed_replays_exactly() -> None:
    first, second = run_upkeep_seed(11), run_upkeep_seed(11)

    assert first.exposed == second.exposed
    assert first.controller.history == second.controller.history


# --- every guard is needed -------------------------------------------------------------------------------------


def never(*_: object) -> bool:
    return False


def always(*_: object) -> bool:
    return True


MUTANTS: dict[str, tuple[object, str, Callable[..., object], str]] = {
    "producers not rebuilt after a truncation": (ProducerStates, "reaches", never, "open"),
    "a cleaning installed over a truncation": (CleaningResult, "fits", always, "I4"),
    "records of a snapshot that retention deleted": (_DirectoryCheck, "_is_kept", always, "rot"),
    "log start not advanced": (PartitionFollower, "_raise_log_start", lambda _: [], "I10"),
}
"""Where a guard is removed, and the beginning of the violation that then comes."""


@pytest.mark.parametrize("name", MUTANTS)
def test_the_simulation_notices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, guard, mutation, violated = MUTANTS[name]
    monkeypatch.setattr(where, guard, mutation)
    for seed in range(MUTANT_SEEDS):
        try:
            run_upkeep_seed(seed)
        except Violation as violation:
            if str(violation).startswith(violated):
                return
    pytest.fail(f"{MUTANT_SEEDS} seeds did not notice: {name}")
