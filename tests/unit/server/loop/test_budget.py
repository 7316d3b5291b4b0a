from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.server.loop.budget import BeyondBudget, Budget


class Crowd:
    """Claimants have numbers; `granted` are those that waited, in the order in which they were granted."""

    def __init__(self, size_max: int, beyond: BeyondBudget) -> None:
        self.budget = Budget(size_max, beyond)
        self.granted: list[int] = []

    def claim(self, number: int, size: int) -> bool:
        return self.budget.claim(number, size, lambda: self.granted.append(number))


@pytest.mark.parametrize("beyond", BeyondBudget)
def test_what_fits_is_granted_and_counts_until_it_is_released(beyond: BeyondBudget) -> None:
    budget = Budget(10, beyond)
    assert budget.claim("one", 4)
    assert budget.claim("other", 6)
    assert (budget.held, budget.left) == (10, 0)
    budget.release("one")
    budget.release("one")
    assert (budget.held, budget.left, budget.held_most) == (6, 4, 10)


@pytest.mark.parametrize("beyond", BeyondBudget)
def test_a_claim_sets_the_claimants_total(beyond: BeyondBudget) -> None:
    budget = Budget(10, beyond)
    assert budget.claim("one", 4)
    assert budget.claim("one", 10)
    assert budget.claim("one", 3)
    assert budget.held == 3


@pytest.mark.parametrize(
    ("beyond", "is_granted"), [(BeyondBudget.NOBODY, False), (BeyondBudget.ALONE, True), (BeyondBudget.FIRST, True)]
)
def test_a_claim_above_the_whole_budget(beyond: BeyondBudget, is_granted: bool) -> None:
    budget = Budget(10, beyond)
    assert budget.has_room(11) is is_granted
    assert budget.claim("one", 11) is is_granted
    assert budget.held == (11 if is_granted else 0)


def test_a_claim_beyond_the_budget_waits_until_the_others_have_released_theirs() -> None:
    crowd = Crowd(10, BeyondBudget.ALONE)
    assert crowd.claim(1, 1)
    assert not crowd.claim(2, 11)
    assert not crowd.claim(3, 1), "nobody overtakes one that waits"
    crowd.budget.release(1)
    assert (crowd.granted, crowd.budget.held) == ([2], 11)
    crowd.budget.release(2)
    assert (crowd.granted, crowd.budget.held) == ([2, 3], 1)


def test_the_first_claim_beyond_the_budget_is_granted_and_the_next_one_waits() -> None:
    crowd = Crowd(10, BeyondBudget.FIRST)
    assert crowd.claim(1, 6)
    assert crowd.claim(2, 50)
    assert crowd.claim(2, 60), "it goes on"
    assert not crowd.claim(3, 5)
    crowd.budget.release(1)
    assert (crowd.granted, crowd.budget.waiting_count) == ([], 1), "what is left is less than nothing"
    crowd.budget.release(2)
    assert (crowd.granted, crowd.budget.held) == ([3], 5)


def test_a_claim_that_fits_overtakes_one_beyond_the_budget() -> None:
    crowd = Crowd(10, BeyondBudget.FIRST)
    assert crowd.claim(1, 4)
    assert crowd.claim(2, 7)
    assert not crowd.claim(3, 20)
    crowd.budget.release(1)
    assert crowd.claim(4, 2)
    assert not crowd.claim(5, 2)
    crowd.budget.release(4)
    assert crowd.granted == [5]
    crowd.budget.release(2)
    assert crowd.granted == [5, 3]


def test_a_granted_claim_is_held_before_its_waiter_runs() -> None:
    crowd = Crowd(10, BeyondBudget.ALONE)
    for number in range(3):
        crowd.claim(number, 10)
    crowd.budget.release(0)
    assert crowd.granted == [1]
    assert crowd.claim(1, 10)
    crowd.budget.release(1)
    assert crowd.granted == [1, 2]


def test_a_size_in_use_is_counted_without_room() -> None:
    crowd = Crowd(10, BeyondBudget.NOBODY)
    crowd.budget.hold("arrived", 15)
    assert crowd.budget.left == -5
    assert not crowd.claim(1, 1)
    crowd.budget.hold("arrived", 10)
    assert crowd.granted == []
    crowd.budget.hold("arrived", 9)
    assert crowd.granted == [1]


def test_a_smaller_claim_makes_room() -> None:
    crowd = Crowd(10, BeyondBudget.ALONE)
    assert crowd.claim(1, 10)
    assert not crowd.claim(2, 3)
    assert crowd.claim(1, 7)
    assert crowd.granted == [2]


def test_a_claimant_that_releases_while_it_waits_is_granted_nothing() -> None:
    crowd = Crowd(10, BeyondBudget.ALONE)
    for number in range(3):
        crowd.claim(number, 10)
    assert crowd.budget.is_waiting(1)
    crowd.budget.release(1)
    crowd.budget.release(0)
    assert crowd.granted == [2]


async def test_a_wait_ends_when_there_is_room_or_the_time_is_over() -> None:
    budget, loop = Budget(10), asyncio.get_running_loop()
    began = loop.time()
    assert await budget.wait("first", 10, began + 1)
    second = asyncio.ensure_future(budget.wait("second", 3, began + 60))
    assert not await budget.wait("third", 3, began + 5)
    assert loop.time() - began == pytest.approx(5)
    budget.release("first")
    assert await second
    assert (budget.held, budget.waiting_count) == (3, 0)


async def test_a_cancelled_wait_leaves_no_claim() -> None:
    budget = Budget(10)
    budget.hold("first", 10)
    waits = [
        asyncio.ensure_future(budget.wait(number, 10, asyncio.get_running_loop().time() + 60)) for number in (1, 2)
    ]
    await asyncio.sleep(0)
    waits[0].cancel()
    await asyncio.sleep(0)
    assert budget.waiting_count == 1
    budget.release("first")
    # Granted, and gone before it noticed.
    waits[1].cancel()
    await asyncio.wait(waits)
    assert (budget.held, budget.waiting_count) == (0, 0)


_BOUNDS: dict[BeyondBudget, Callable[[list[int]], bool]] = {
    BeyondBudget.NOBODY: lambda held: sum(held) <= 10,
    BeyondBudget.ALONE: lambda held: sum(held) <= 10 or len(held) == 1,
    BeyondBudget.FIRST: lambda held: sum(held) - max(held, default=0) <= 10,
}


@pytest.mark.parametrize("beyond", BeyondBudget)
@given(steps=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 15)), max_size=60))
def test_the_limit_is_kept_and_every_claimant_makes_progress(
    beyond: BeyondBudget, steps: list[tuple[int, int]]
) -> None:
    """A size of 0 stands for a release; a claim above the budget that nobody may have is made smaller."""
    crowd, held, waiting = Crowd(10, beyond), dict[int, int](), dict[int, int]()

    def look() -> None:
        while crowd.granted:
            number = crowd.granted.pop(0)
            held[number] = waiting.pop(number)
        assert _BOUNDS[beyond](list(held.values())), held
        assert crowd.budget.held == sum(held.values())
        assert crowd.budget.waiting_count == len(waiting)
        assert held or not waiting, "nobody holds anything, and somebody waits"

    for number, size in steps:
        size = min(size, 10) if beyond is BeyondBudget.NOBODY else size
        if not size:
            crowd.budget.release(number)
            held.pop(number, None)
            waiting.pop(number, None)
        elif number not in held and number not in waiting:
            if crowd.claim(number, size):
                held[number] = size
            else:
                waiting[number] = size
        look()
    for number in range(5):
        crowd.budget.release(number)
        held.pop(number, None)
        waiting.pop(number, None)
        look()
