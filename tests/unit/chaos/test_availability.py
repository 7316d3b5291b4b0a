from __future__ import annotations

from itertools import pairwise
from random import Random

from chaos.checkers import cycles
from chaos.history import Operation
from tests.unit.chaos.history_building import HistoryBuilder

MS = 1_000_000


def gaps_ms(operations: list[Operation]) -> dict[str, int]:
    return {cycle.fault: cycle.longest_gap_ns // MS for cycle in cycles(operations)}


def at(history: HistoryBuilder, time_ms: int) -> HistoryBuilder:
    """The next operation is noted then; the one after it a millisecond later."""
    history.now_ns = (time_ms - 1) * MS
    return history


def acknowledged(history: HistoryBuilder, time_ms: int, value: int, key: str = "orders-0") -> None:
    at(history, time_ms - 1).sent((value, value), key=key)


def test_a_gap_is_counted_from_the_fault_to_the_next_acknowledgement() -> None:
    history = HistoryBuilder()
    acknowledged(history, 90, 0)
    at(history, 100).broke("kill-leader")
    acknowledged(history, 3_100, 1)
    acknowledged(history, 3_200, 2)

    assert gaps_ms(history.operations) == {"kill-leader": 3_000}


def test_a_key_that_goes_on_does_not_hide_one_that_waits() -> None:
    history = HistoryBuilder()
    acknowledged(history, 90, 0)
    acknowledged(history, 92, 0, key="orders-1")
    at(history, 100).broke("cut")
    for value in range(1, 20):
        acknowledged(history, 100 + 10 * value, value)
    acknowledged(history, 600, 1, key="orders-1")

    assert gaps_ms(history.operations) == {"cut": 500}


def test_each_fault_answers_for_its_own_time() -> None:
    history = HistoryBuilder()
    acknowledged(history, 10, 0)
    at(history, 100).broke("latency")
    acknowledged(history, 150, 1)
    acknowledged(history, 990, 2)
    at(history, 1_000).broke("pause")
    acknowledged(history, 4_000, 3)

    assert gaps_ms(history.operations) == {"latency": 840, "pause": 3_000}


def test_a_fault_without_a_target_is_no_cycle() -> None:
    history = HistoryBuilder()
    history.broke("kill-leader")
    operations = history.operations[:1]

    assert cycles(operations) == []


def test_gaps_are_the_same_as_counted_window_by_window() -> None:
    chance = Random(1)
    for _ in range(300):
        history = HistoryBuilder()
        begins: list[int] = []
        acknowledgements: list[int] = []
        for time_ms in range(10, 2_000, 10):
            match chance.choice(["nothing", "nothing", "acknowledged", "broke"]):
                case "acknowledged":
                    acknowledged(history, time_ms, len(acknowledgements))
                    acknowledgements.append(time_ms)
                case "broke" if len(begins) < 5:
                    at(history, time_ms).broke(f"fault-{len(begins)}")
                    begins.append(time_ms)
        ends = [*begins[1:], 10_000]
        expected = {
            f"fault-{number}": max(
                (max(0, min(after, end) - max(before, begin)) for before, after in pairwise(acknowledgements)),
                default=0,
            )
            for number, (begin, end) in enumerate(zip(begins, ends, strict=True))
        }
        assert gaps_ms(history.operations) == expected
