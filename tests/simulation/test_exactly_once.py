"""Transactions with groups and elections under random faults, and guards removed in turn to see that it is noticed."""

from __future__ import annotations

import pytest

from tests.simulation import exactly_once_weakened as weakened
from tests.simulation import group_transactions_weakened as offsets_weakened
from tests.simulation import transactions_weakened
from tests.simulation.exactly_once_history import Invariant
from tests.simulation.exactly_once_runs import Tally, notices, run
from tests.simulation.exactly_once_weakened import Guard

SEEDS = 12
"""`tests.soak.group_transaction_seeds` takes others, and more."""

WEAKENED_SEEDS = 200


def test_each_record_counts_once_and_every_transaction_ends() -> None:
    total = Tally()
    for seed in range(SEEDS):
        try:
            total.add(run(seed))
        except Exception as error:
            error.add_note(f"python -m tests.soak.group_transaction_seeds --first-seed {seed} --seeds 1")
            raise
    assert total.commits > 5 * SEEDS, "runs that commit nothing show nothing"
    assert total.aborts > 3 * SEEDS
    assert total.elections > 5 * SEEDS
    assert total.fenced > SEEDS
    assert total.stale_commits > 0


def test_a_seed_replays_exactly() -> None:
    assert run(11) == run(11)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("guard", "invariant", "first_seed"),
    [
        (weakened.committing_as_anybody, Invariant.EXACTLY_ONCE, 0),
        (weakened.fetching_before_the_marker, Invariant.EXACTLY_ONCE, 7),
        (weakened.forgetting_transactions_at_a_truncation, Invariant.ALL_OR_NOTHING, 0),
        (weakened.refusing_for_good_what_is_not_verified, Invariant.TOLD_RIGHT, 48),
        (weakened.marking_in_any_epoch, Invariant.MARKER_HAS_THE_EPOCH, 41),
        (transactions_weakened.ending_from_any_epoch, Invariant.ENDED_BY_ITS_OWN, 7),
        (transactions_weakened.ending_without_bump, Invariant.MARKER_HAS_THE_EPOCH, 0),
        (transactions_weakened.answering_retries_by_the_epoch_alone, Invariant.ACKNOWLEDGED_IS_COMMITTED, 42),
        (transactions_weakened.taking_over_decided_transactions, Invariant.MARKER_HAS_THE_EPOCH, 1),
        (transactions_weakened.taking_over_open_transactions, Invariant.MARKER_HAS_THE_EPOCH, 5),
        (transactions_weakened.aborting_without_fence, Invariant.MARKER_HAS_THE_EPOCH, 0),
        (transactions_weakened.completing_after_the_first_marker, Invariant.ALL_OR_NOTHING, 0),
        (transactions_weakened.loading_without_timers, Invariant.STABLE_MOVES, 43),
        (transactions_weakened.replying_at_once, Invariant.EXACTLY_ONCE, 25),
        (offsets_weakened.counting_at_once, Invariant.EXACTLY_ONCE, 0),
        (offsets_weakened.committing_aborted_offsets, Invariant.EXACTLY_ONCE, 0),
        (offsets_weakened.loading_without_aborts, Invariant.EXACTLY_ONCE, 0),
        (offsets_weakened.loading_without_open_transactions, Invariant.EXACTLY_ONCE, 3),
        (offsets_weakened.deciding_without_the_log, Invariant.REFUSED_ALONE, 6),
        (offsets_weakened.deciding_on_what_is_not_appended, Invariant.REFUSED_ALONE, 0),
    ],
)
def test_the_simulation_notices(guard: Guard, invariant: Invariant, first_seed: int) -> None:
    """The first seed is one that notices it, or near; after a change of the simulation another one does."""
    with guard():
        assert notices(invariant, range(first_seed, first_seed + WEAKENED_SEEDS))
