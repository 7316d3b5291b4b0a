"""Batches of many transactions under random faults, and each guard removed in turn to see that it is noticed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from tests.simulation import sink_weakened as weakened
from tests.simulation import transactions_weakened
from tests.simulation.sink_history import Invariant
from tests.simulation.sink_runs import Tally, notices, run

SEEDS = 20
"""`tests.soak.sink_seeds` takes others, and more."""

WEAKENED_SEEDS = 300


def test_every_batch_is_committed_once_or_not_at_all() -> None:
    total = Tally()
    for seed in range(SEEDS):
        try:
            total.add(run(seed))
        except Exception as error:
            error.add_note(f"python -m tests.soak.sink_seeds --first-seed {seed} --seeds 1")
            raise
    assert total.batches > 2 * SEEDS, "runs that commit nothing show nothing"
    assert total.runs > total.batches + SEEDS // 4, "some batches are written more than once"
    assert total.aborted > SEEDS
    assert total.crashes > 4 * SEEDS


def test_a_seed_replays_exactly() -> None:
    assert run(11) == run(11)


@pytest.mark.parametrize(
    ("guard", "invariant", "first_seed"),
    [
        (weakened.committing_any_sequence, Invariant.ONCE, 3),
        (weakened.committing_what_is_open, Invariant.ALL_OR_NOTHING, 1),
        (weakened.committing_for_any_producer, Invariant.COMMITTED_AS_ASKED, 1),
        (weakened.recording_no_sequence, Invariant.ONCE, 3),
        (weakened.deleting_what_is_decided, Invariant.NOTHING_HANGS, 0),
        (weakened.leaving_the_epoch, Invariant.NOTHING_HANGS, 0),
        (transactions_weakened.replying_at_once, Invariant.ACKNOWLEDGED_IS_COMMITTED, 35),
    ],
)
def test_the_simulation_notices(
    guard: Callable[[], AbstractContextManager[object]], invariant: Invariant, first_seed: int
) -> None:
    """The first seed is one that notices it; after a change of the simulation another one does."""
    with guard():
        assert notices(invariant, range(first_seed, first_seed + WEAKENED_SEEDS))
