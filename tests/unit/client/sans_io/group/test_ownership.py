from __future__ import annotations

from kraft.client.sans_io.group.ownership import NO_TOPIC_ID, Assign, Lose, Ownership, Place, Places, Revoke


def places(*partitions: int) -> Places:
    return frozenset(Place(NO_TOPIC_ID, "orders", partition) for partition in partitions)


def owning(*partitions: int) -> Ownership:
    ownership = Ownership()
    ownership.aim(places(*partitions))
    if ownership.next_step() is not None:
        ownership.step_done()
    assert ownership.is_settled
    return ownership


def test_partitions_are_revoked_before_others_are_assigned() -> None:
    ownership = owning(0, 1)
    ownership.aim(places(1, 2))
    assert ownership.next_step() == Revoke(places(0))
    assert ownership.owned == places(0, 1)
    ownership.step_done()
    assert ownership.next_step() == Assign(places(2))
    ownership.step_done()
    assert (ownership.next_step(), ownership.is_settled, ownership.owned) == (None, True, places(1, 2))


def test_one_step_runs_at_a_time() -> None:
    ownership = owning()
    ownership.aim(places(0))
    assert ownership.next_step() == Assign(places(0))
    assert (ownership.next_step(), ownership.is_settled) == (None, False)


def test_an_assignment_that_arrives_during_a_step_counts_after_it() -> None:
    ownership = owning(0)
    ownership.aim(places(1))
    assert ownership.next_step() == Revoke(places(0))
    ownership.aim(places(0, 2))
    ownership.step_done()
    assert ownership.next_step() == Assign(places(0, 2))


def test_an_interrupted_step_is_run_again() -> None:
    ownership = owning(0)
    ownership.aim(places())
    first = ownership.next_step()
    ownership.step_failed()
    assert ownership.owned == places(0)
    assert ownership.next_step() == first


def test_what_an_excluded_consumer_owned_is_lost_and_not_revoked() -> None:
    ownership = owning(0, 1)
    ownership.aim(places(1))
    ownership.lose()
    assert ownership.is_losing
    assert ownership.next_step() == Lose(places(0, 1))
    ownership.step_done()
    assert (ownership.is_losing, ownership.is_settled, ownership.owned) == (False, True, places())


def test_what_a_running_step_assigns_is_lost_afterwards() -> None:
    ownership = owning(0)
    ownership.aim(places(0, 1))
    assert ownership.next_step() == Assign(places(1))
    ownership.lose()
    ownership.step_done()
    assert ownership.next_step() == Lose(places(0, 1))


def test_a_running_revocation_may_leave_nothing_to_lose() -> None:
    ownership = owning(0)
    ownership.aim(places())
    ownership.next_step()
    ownership.lose()
    ownership.step_done()
    assert (ownership.is_losing, ownership.next_step()) == (False, None)


def test_a_consumer_without_partitions_has_nothing_to_lose() -> None:
    ownership = owning()
    ownership.lose()
    assert (ownership.is_losing, ownership.next_step()) == (False, None)


def test_keeping_begins_no_further_step() -> None:
    ownership = owning(0, 1)
    ownership.aim(places(1, 2))
    ownership.next_step()
    ownership.keep()
    assert not ownership.is_settled
    ownership.step_done()
    assert (ownership.next_step(), ownership.owned, ownership.is_settled) == (None, places(1), True)


def test_a_topic_that_was_created_again_is_another_one() -> None:
    ownership = owning(0)
    again = Place(NO_TOPIC_ID.__class__(int=7), "orders", 0)
    ownership.aim([again])
    assert isinstance(ownership.next_step(), Revoke)
    ownership.step_done()
    assert ownership.next_step() == Assign(frozenset({again}))
