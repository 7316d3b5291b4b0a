"""Consumer groups under random faults, and each guard removed in turn to see that the simulation notices."""

from __future__ import annotations

import pytest

from kraft.coordinator import shard_machine
from tests.simulation import groups_weakened as weakened
from tests.simulation.groups_history import Invariant
from tests.simulation.groups_runs import Tally, notices, run
from tests.simulation.groups_weakened import Guard

SEEDS = 20
"""`tests.soak.group_seeds` takes others, and more."""

SEEDS_IN_TURNS = 20
WEAKENED_SEEDS = 300


def test_invariants_hold_after_every_event_and_the_groups_heal() -> None:
    total = Tally()
    for seed in range(SEEDS):
        try:
            total.add(run(seed))
        except Exception as error:
            error.add_note(f"python -m tests.soak.group_seeds --first-seed {seed} --seeds 1")
            raise
    assert total.acknowledged > 20 * SEEDS, "runs that commit nothing show nothing"
    assert total.generations > 3 * SEEDS
    assert total.elections > 3 * SEEDS
    assert total.fenced > SEEDS / 2
    assert total.deletions > 0
    assert total.assignments > 3 * SEEDS
    assert total.late_assignments > SEEDS / 2


def test_invariants_hold_between_the_turns_in_which_timers_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_machine, "TIMERS_AT_ONCE", 1)
    total = Tally()
    for seed in range(SEEDS_IN_TURNS):
        try:
            total.add(run(seed, in_turns=True))
        except Exception as error:
            error.add_note(f"python -m tests.soak.group_seeds --in-turns --first-seed {seed} --seeds 1")
            raise
    assert total.acknowledged > 20 * SEEDS_IN_TURNS
    assert total.fenced > SEEDS_IN_TURNS / 2


def test_a_seed_replays_exactly() -> None:
    assert run(11) == run(11)


@pytest.mark.parametrize(
    ("guard", "invariant", "first_seed"),
    [
        (weakened.committing_in_any_generation, Invariant.OWNERS_COMMIT, 29),
        (weakened.committing_without_membership, Invariant.OWNERS_COMMIT, 3),
        (weakened.syncing_in_any_generation, Invariant.ACKNOWLEDGED_IS_COMMITTED, 11),
        (weakened.keeping_ids_of_static_members, Invariant.ONE_OWNER, 7),
        (weakened.repeating_generations, Invariant.ONE_ASSIGNMENT, 0),
        (weakened.committing_in_any_epoch, Invariant.OWNERS_COMMIT, 1),
        (weakened.committing_what_was_owned_once, Invariant.OWNERS_COMMIT, 1),
        (weakened.committing_what_another_owns, Invariant.OWNERS_COMMIT, 487),
        (weakened.believing_heartbeats_of_any_epoch, Invariant.OWNERS_LET_GO, 144),
        (weakened.telling_nothing_in_the_previous_epoch, Invariant.MEMBERS_HEAR, 192),
        (weakened.telling_nothing_of_steps_within_an_epoch, Invariant.MEMBERS_HEAR, 198),
        (weakened.telling_nothing_to_those_that_are_back, Invariant.MEMBERS_HEAR, 19),
        (weakened.taking_over_static_members, Invariant.OWNERS_LET_GO, 0),
        (weakened.assigning_owned_partitions, Invariant.ONE_OWNER, 1),
        (weakened.revoking_without_wait, Invariant.OWNERS_LET_GO, 1),
        (weakened.assigning_in_the_current_epoch, Invariant.PEACE_HEALS, 1),
        (weakened.taking_late_assignments, Invariant.EPOCHS_GROW, 3),
        (weakened.assigning_members_that_have_left, Invariant.MEMBERS_HAVE_TARGETS, 1),
        (weakened.assigning_without_intervals, Invariant.ASSIGNMENTS_HAVE_INTERVALS, 10),
        (weakened.replying_at_once, Invariant.ACKNOWLEDGED_IS_COMMITTED, 0),
        (weakened.replying_when_appended, Invariant.ACKNOWLEDGED_IS_COMMITTED, 0),
        (weakened.answering_reads_at_once, Invariant.ACKNOWLEDGED_IS_COMMITTED, 1),
        (weakened.going_on_after_failed_appends, Invariant.ACKNOWLEDGED_IS_COMMITTED, 1),
        (weakened.loading_without_the_tail, Invariant.STATE_IS_THE_LOG, 2),
        (weakened.loading_without_a_part, Invariant.STATE_IS_THE_LOG, 0),
    ],
)
def test_the_simulation_notices(guard: Guard, invariant: Invariant, first_seed: int) -> None:
    """The first seed is one that notices it; after a change of the simulation another one does."""
    with guard():
        assert notices(invariant, range(first_seed, first_seed + WEAKENED_SEEDS))
