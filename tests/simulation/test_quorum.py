"""The quorum under random faults, and each guard removed that chance finds missing."""

from __future__ import annotations

import pytest

from tests.simulation import quorum_weakened as weakened
from tests.simulation.quorum_runs import Tally, run
from tests.simulation.quorum_weakened import Guard

SEEDS = 40
WEAKENED_SEEDS = 60


def test_invariants_hold_after_every_event_and_the_quorum_heals() -> None:
    total = Tally()
    for seed in range(SEEDS):
        try:
            total.add(run(seed))
        except Exception as error:
            error.add_note(f"python -m tests.simulation.quorum --first-seed {seed} --seeds 1")
            raise
    assert total.acknowledged > 100 * SEEDS, "runs that acknowledge nothing show nothing"
    assert total.deaths > 5 * SEEDS
    assert total.terms > 3 * SEEDS


def test_a_seed_replays_exactly() -> None:
    assert run(11) == run(11)


@pytest.mark.parametrize(
    "guard",
    [
        weakened.truncating_behind_every_append,
        weakened.never_syncing,
        weakened.speaking_before_the_sync,
        weakened.believing_unsynced_journals,
        weakened.leaving_torn_tails,
        weakened.forgetting_votes,
        weakened.leading_without_barrier,
        weakened.reading_without_quorum,
    ],
)
def test_the_simulation_notices(guard: Guard) -> None:
    for seed in range(WEAKENED_SEEDS):
        try:
            with guard():
                run(seed)
        except AssertionError:
            return
    pytest.fail(f"{WEAKENED_SEEDS} seeds did not notice: {guard.__name__}")
