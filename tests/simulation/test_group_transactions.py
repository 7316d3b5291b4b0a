"""Offsets in transactions under random faults, and each guard removed in turn to see that the simulation notices."""

from __future__ import annotations

import pytest

from tests.simulation import group_transactions_weakened as weakened
from tests.simulation.group_transactions_runs import Tally, notices, run
from tests.simulation.group_transactions_weakened import Guard
from tests.simulation.group_transactions_world import Invariant

SEEDS = 20
WEAKENED_SEEDS = 200


def test_invariants_hold_after_every_event_and_nothing_stays_pending() -> None:
    total = Tally()
    for seed in range(SEEDS):
        try:
            total.add(run(seed))
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    assert total.commits > 5 * SEEDS, "runs that commit nothing show nothing"
    assert total.aborts > 2 * SEEDS
    assert total.elections > 3 * SEEDS
    assert total.fetches > 10 * SEEDS
    assert total.expired > SEEDS
    assert total.refused > 0


def test_a_seed_replays_exactly() -> None:
    assert run(11) == run(11)


@pytest.mark.parametrize(
    ("guard", "invariant", "first_seed"),
    [
        (weakened.counting_at_once, Invariant.COMMITTED_ALONE_COUNTS, 0),
        (weakened.committing_aborted_offsets, Invariant.COMMITTED_ALONE_COUNTS, 0),
        (weakened.counting_from_the_marker, Invariant.LATEST_COUNTS, 0),
        (weakened.overtaking_by_markers_alone, Invariant.LATEST_COUNTS, 0),
        (weakened.keeping_deleted_offsets, Invariant.STATE_IS_THE_LOG, 0),
        (weakened.expiring_what_is_pending, Invariant.PENDING_IS_KEPT, 0),
        (weakened.fetching_before_the_marker, Invariant.STABLE_STAYS, 0),
        (weakened.loading_without_aborts, Invariant.COMMITTED_ALONE_COUNTS, 0),
        (weakened.loading_in_the_order_of_markers, Invariant.LATEST_COUNTS, 0),
        (weakened.loading_without_open_transactions, Invariant.STATE_IS_THE_LOG, 0),
        (weakened.appending_without_verification, Invariant.NOTHING_HANGS, 0),
        (weakened.deciding_without_the_log, Invariant.REFUSED_ALONE, 0),
        (weakened.deciding_on_what_is_not_appended, Invariant.REFUSED_ALONE, 0),
        (weakened.replying_when_appended, Invariant.ACKNOWLEDGED_IS_COMMITTED, 0),
    ],
)
def test_the_simulation_notices(guard: Guard, invariant: Invariant, first_seed: int) -> None:
    """The first seed is one that notices it; after a change of the simulation another one does."""
    with guard():
        assert notices(invariant, range(first_seed, first_seed + WEAKENED_SEEDS))
