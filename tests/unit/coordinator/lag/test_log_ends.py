from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraft.coordinator.lag.log_ends import LOOKS_KEPT, Behind, LogEnds
from kraft.model.ids import Offset

STEP_MS = 10_000


def ends_of(*looks: tuple[int, int]) -> LogEnds:
    ends = LogEnds()
    for time_ms, end in looks:
        ends.add(time_ms, Offset(end))
    return ends


def test_a_record_came_evenly_between_the_two_looks_around_it() -> None:
    ends = ends_of((0, 100), (10_000, 200))
    assert ends.behind(Offset(150), 12_000) == Behind(7_000, is_at_least=False)
    assert ends.behind(Offset(100), 12_000) == Behind(12_000, is_at_least=False)


def test_nothing_waits_at_the_end_and_above_it() -> None:
    ends = ends_of((0, 100), (10_000, 200))
    assert ends.behind(Offset(200), 50_000) == ends.behind(Offset(900), 50_000) == Behind(0, is_at_least=False)


def test_what_is_older_than_the_first_look_is_at_least_as_old_as_it() -> None:
    assert ends_of((5_000, 100), (10_000, 200)).behind(Offset(99), 12_000) == Behind(7_000, is_at_least=True)


def test_a_log_that_rested_says_when_its_next_record_came() -> None:
    ends = ends_of(*((at * STEP_MS, 100) for at in range(1_000)), (1_000 * STEP_MS, 101))
    behind = ends.behind(Offset(100), 1_000 * STEP_MS)
    assert behind.ms <= STEP_MS


def test_a_log_that_lost_records_forgets_when_these_came() -> None:
    ends = ends_of((0, 100), (10_000, 200), (20_000, 150), (30_000, 160))
    assert ends.behind(Offset(155), 30_000) == Behind(5_000, is_at_least=False)
    assert ends.behind(Offset(120), 30_000) == Behind(22_000, is_at_least=False)
    assert ends.end == 160


def test_a_log_was_at_an_offset_lately_if_a_look_found_it_there() -> None:
    ends = ends_of((0, 100), (10_000, 100), (20_000, 100), (30_000, 200))
    assert ends.was_within(Offset(100), 19_999)
    assert not ends.was_within(Offset(100), 20_000)
    assert not ends.was_within(Offset(99), 0)


@given(st.lists(st.integers(0, 50), min_size=2, max_size=600))
def test_however_many_looks_there_were_an_age_is_nearly_right(growths: list[int]) -> None:
    ends, came_ms, end = LogEnds(), list[int](), 0
    for at, growth in enumerate(growths):
        came_ms += [at * STEP_MS] * growth
        end += growth
        ends.add(at * STEP_MS, Offset(end))
    now_ms = (len(growths) - 1) * STEP_MS
    assert len(ends._ends) <= LOOKS_KEPT
    for offset, record_ms in enumerate(came_ms):
        behind, age_ms = ends.behind(Offset(offset), now_ms), now_ms - record_ms
        if behind.is_at_least:
            assert behind.ms <= age_ms
        else:
            # The looks around it are apart by no more than their age, once some have been thinned out.
            assert abs(behind.ms - age_ms) <= max(STEP_MS, age_ms)
