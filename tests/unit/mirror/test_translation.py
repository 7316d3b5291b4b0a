"""Offsets of groups at the target: never after what is mirrored, and never past a record that was not read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kraft.mirror.translation import EXACT_RUNS, PartitionState, Run, runs_of, thinned

EMPTY = PartitionState(topic="orders", partition=0)


def test_runs_that_follow_at_both_ends_are_one() -> None:
    state = EMPTY.advanced(10, [Run(0, 5, 10)], 7).advanced(20, [Run(10, 15, 10)], 8)
    assert state.runs == (Run(0, 5, 20),)
    assert (state.next_offset, state.target_end, state.records, state.timestamp_ms) == (20, 25, 20, 8)


def test_an_offset_within_a_run_is_exact() -> None:
    state = EMPTY.advanced(30, [Run(0, 100, 10), Run(20, 111, 10)], 1)
    assert [state.at_target(each) for each in (0, 9, 10, 15, 20, 29)] == [100, 109, 110, 110, 111, 120]


def test_an_offset_beyond_what_is_mirrored_is_the_end() -> None:
    state = EMPTY.advanced(10, [Run(0, 3, 10)], 1)
    assert (state.at_target(10), state.at_target(10_000)) == (13, 13)
    assert EMPTY.at_target(5) == 0


def test_a_position_that_only_passed_markers_keeps_the_end() -> None:
    state = EMPTY.advanced(10, [Run(0, 3, 10)], 5).advanced(12, [], 0)
    assert (state.next_offset, state.target_end, state.timestamp_ms) == (12, 13, 5)


def test_records_with_gaps_make_runs() -> None:
    assert runs_of([3, 4, 9], [(0, 3, 50)]) == [Run(3, 50, 2), Run(9, 52, 1)]
    assert runs_of([3, 4], [(0, 1, 50), (1, 1, -1)]) == [Run(3, 50, 1)]


def test_the_way_back_has_both_ends_exchanged() -> None:
    state = EMPTY.advanced(30, [Run(0, 100, 10), Run(20, 111, 10)], 1)
    back = state.turned("orders", "id")
    assert (back.next_offset, back.target_end, back.topic_id) == (121, 30, "id")
    assert [back.at_target(each) for each in (100, 109, 111, 121)] == [0, 9, 20, 30]


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 3)), min_size=1, max_size=300))
def test_a_group_misses_nothing_and_reads_at_most_half_of_its_lag_twice(rounds: list[tuple[int, int]]) -> None:
    state, source, target = EMPTY, 0, 0
    exact: dict[int, int] = {}
    for count, gap in rounds:
        exact.update({source + row: target + row for row in range(count)})
        state = state.advanced(source + count, [Run(source, target, count)], 1)
        # A marker at the target after each round, and perhaps some at the source.
        source, target = source + count + gap, target + count + 1
    head = state.next_offset
    for offset, true_target in exact.items():
        translated = state.at_target(offset)
        assert translated <= true_target
        twice = sum(1 for other, there in exact.items() if other < offset and there >= translated)
        assert twice <= max(0, head - offset) // 2 + 3
    assert len(state.runs) <= EXACT_RUNS + 60


def test_thinning_keeps_the_first_and_the_newest() -> None:
    runs = tuple(Run(10 * each, 11 * each, 10) for each in range(1_000))
    kept = thinned(runs)
    assert kept[0] == runs[0]
    assert kept[-EXACT_RUNS:] == runs[-EXACT_RUNS:]
    assert len(kept) < 40


def test_what_the_way_back_brought_is_not_mirrored_again() -> None:
    forth = replace(EMPTY, topic_id="id").advanced(100, [Run(0, 0, 100)], 1)
    back = forth.turned("orders", "other").advanced(200, [Run(101, 100, 99)], 1)
    again = forth.continued(back.turned("orders", "id"))
    assert (again.next_offset, again.target_end, again.records) == (199, 200, 100)
    assert [again.at_target(each) for each in (0, 50, 100, 150, 199)] == [0, 50, 101, 151, 200]


def test_a_way_back_that_is_not_further_on_changes_nothing() -> None:
    forth = replace(EMPTY, topic_id="id").advanced(100, [Run(0, 0, 100)], 1)
    assert forth.continued(forth.turned("orders", "other").turned("orders", "id")) is forth
    assert forth.continued(replace(forth, next_offset=500, topic_id="created again")) is forth


def test_what_another_mirror_brought_is_continued_with_its_counts() -> None:
    first = replace(EMPTY, topic_id="id", target_id="there").advanced(100, [Run(0, 0, 100)], 1)
    second = first.advanced(150, [Run(100, 101, 50)], 2)
    assert first.continued(second) == second
    assert second.continued(first) is second


def test_a_state_is_further_only_in_the_very_topic() -> None:
    ten = replace(EMPTY, topic_id="id", next_offset=10)
    assert ten.is_further(None)
    assert not EMPTY.is_further(None)
    assert not ten.is_further(ten)
    assert ten.is_further(replace(ten, next_offset=9))
    assert ten.is_further(replace(ten, next_offset=500, topic_id="created again"))
