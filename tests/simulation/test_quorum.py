"""The quorum under random faults, and each guard removed that chance finds missing."""

from __future__ import annotations

import pytest

from tests.simulation import quorum_weakened as weakened
from tests.simulation.quorum_invariants import Invariant
from tests.simulation.quorum_runs import Tally, notices, run
from tests.simulation.quorum_weakened import Guard

SEEDS = 20
"""`tests.soak.quorum_seeds` takes others, and more."""
WEAKENED_SEEDS = 60


@pytest.mark.slow
def test_invariants_hold_after_every_event_and_the_quorum_heals() -> None:
    total = Tally()
    for seed in range(SEEDS):
        try:
            total.add(run(seed))
        except Exception as error:
            error.add_note(f"python -m tests.soak.quorum_seeds --first-seed {seed} --seeds 1")
            raise
    assert total.acknowledged > 100 * SEEDS, "runs that acknowledge nothing show nothing"
    assert total.deaths > 5 * SEEDS
    assert total.terms > 3 * SEEDS


def test_a_seed_replays_exactly() -> None:
    assert run(11) == run(11)


@pytest.mark.parametrize(
    ("guard", "invariant", "words", "first_seed"),
    [
        (weakened.truncating_behind_every_append, Invariant.COMMITTED_BY_A_MAJORITY, "", 0),
        (weakened.never_syncing, Invariant.NOTHING_GOES_BACK, "goes back from term", 0),
        (weakened.speaking_before_the_sync, Invariant.ACKNOWLEDGED_IS_DURABLE, "", 0),
        (weakened.believing_unsynced_journals, Invariant.VOTERS_GO_ON, "changed synced bytes", 61),
        (weakened.leaving_torn_tails, Invariant.VOTERS_GO_ON, "a later frame", 2),
        (weakened.forgetting_votes, Invariant.NOTHING_GOES_BACK, "goes back from term", 0),
        (weakened.leading_without_barrier, Invariant.READS_ARE_CURRENT, "leads in term", 0),
        (weakened.reading_without_quorum, Invariant.READS_ARE_CURRENT, "a barrier", 83),
    ],
)
def test_the_simulation_notices(guard: Guard, invariant: Invariant, words: str, first_seed: int) -> None:
    """The first seed is one that notices it, or near; after a change of the simulation another one does."""
    with guard():
        assert notices(invariant, range(first_seed, first_seed + WEAKENED_SEEDS), words)
