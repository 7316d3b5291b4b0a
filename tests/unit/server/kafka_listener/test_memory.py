from __future__ import annotations

from itertools import count

import pytest

from kraft.server.kafka_listener.memory import ListenerMemory
from kraft.server.kafka_listener.receive_memory import SMALL_BYTES_MAX
from kraft.server.loop.unread_responses import RESPONSE_RECORD_BYTES_MAX

MIB = 1 << 20


@pytest.mark.parametrize("request_bytes_max", [16 * MIB, 100 * MIB])
def test_all_budgets_together_hold_no_more_than_their_sum(request_bytes_max: int) -> None:
    """Clients that make the largest possible claim on each budget, and then as many smaller ones as are granted."""
    memory, claimants = ListenerMemory(request_bytes_max), count()
    largest = {id(memory.receive.small): SMALL_BYTES_MAX}
    memory.unread.budget.hold("almost all", memory.unread.budget.size_max - 1)
    assert memory.unread.takes(RESPONSE_RECORD_BYTES_MAX)
    memory.unread.budget.hold("the last answer", RESPONSE_RECORD_BYTES_MAX)
    for budget in list(memory.budgets.values())[:-1]:
        while budget.claim(next(claimants), max(budget.size_max // 100, 1)):
            pass
        while budget.claim(next(claimants), largest.get(id(budget), request_bytes_max)):
            pass
        for _ in range(100):
            budget.claim(next(claimants), 1)
    assert memory.held_bytes <= memory.bytes_max
    assert memory.bytes_max == pytest.approx(2.79 * request_bytes_max, rel=0.1)


def test_one_request_goes_beyond_each_budget_of_what_arrives_and_no_second_one() -> None:
    receive = ListenerMemory(16 * MIB).receive
    for budget, size in ((receive.small, SMALL_BYTES_MAX), (receive.large, 16 * MIB)):
        budget.hold("others", budget.size_max)
        assert [budget.claim(number, size) for number in range(2)] == [True, False]
    assert receive.held_bytes == 8 * MIB + SMALL_BYTES_MAX + 16 * MIB


def test_large_and_small_requests_that_arrive_do_not_share_their_memory() -> None:
    receive = ListenerMemory(16 * MIB).receive
    assert receive.budget(SMALL_BYTES_MAX) is receive.small
    assert receive.budget(SMALL_BYTES_MAX + 1) is receive.large
