"""Transactions under random faults, and each guard removed in turn to see that the simulation notices."""

from __future__ import annotations

import pytest

from tests.simulation import transactions_weakened as weakened
from tests.simulation.transactions_history import Invariant
from tests.simulation.transactions_runs import Tally, notices, run
from tests.simulation.transactions_weakened import Guard

SEEDS = 40
"""`tests.soak.transaction_seeds` takes others, and more."""

WEAKENED_SEEDS = 300


def test_invariants_hold_and_every_transaction_ends() -> None:
    total = Tally()
    for seed in range(SEEDS):
        try:
            total.add(run(seed))
        except Exception as error:
            error.add_note(f"python -m tests.soak.transaction_seeds --first-seed {seed} --seeds 1")
            raise
    assert total.acknowledged > 3 * SEEDS, "runs that commit nothing show nothing"
    assert total.aborted > 2 * SEEDS
    assert total.crashes > 4 * SEEDS


def test_a_seed_replays_exactly() -> None:
    assert run(11) == run(11)


@pytest.mark.parametrize(
    ("guard", "invariant", "first_seed"),
    [
        (weakened.ending_from_any_epoch, Invariant.ENDED_BY_ITS_OWN, 9),
        (weakened.ending_without_bump, Invariant.ENDED_BY_ITS_OWN, 0),
        (weakened.answering_retries_by_the_epoch_alone, Invariant.ACKNOWLEDGED_IS_COMMITTED, 26),
        (weakened.evicting_open_transactions, Invariant.NOTHING_HANGS, 0),
        (weakened.taking_over_decided_transactions, Invariant.ALL_OR_NOTHING, 3),
        (weakened.taking_over_open_transactions, Invariant.COMMITTED_AS_ASKED, 1),
        (weakened.aborting_without_fence, Invariant.ACKNOWLEDGED_IS_COMMITTED, 27),
        (weakened.giving_out_the_last_epoch, Invariant.NOTHING_HANGS, 9),
        (weakened.marking_before_the_commit, Invariant.DECIDED_ONCE, 116),
        (weakened.marking_what_is_complete, Invariant.COMMITTED_AS_ASKED, 2),
        (weakened.completing_after_the_first_marker, Invariant.ALL_OR_NOTHING, 0),
        (weakened.taking_reports_of_any_decision, Invariant.ALL_OR_NOTHING, 139),
        (weakened.loading_without_timers, Invariant.NOTHING_HANGS, 1),
        (weakened.replying_at_once, Invariant.ACKNOWLEDGED_IS_COMMITTED, 2),
    ],
)
def test_the_simulation_notices(guard: Guard, invariant: Invariant, first_seed: int) -> None:
    """The first seed is one that notices it; after a change of the simulation another one does."""
    with guard():
        assert notices(invariant, range(first_seed, first_seed + WEAKENED_SEEDS))
