from __future__ import annotations

from msgspec.structs import replace

from kraft.cli.demo import delays
from kraft.cli.demo.delays import NOTHING, DelayCell, Delays, Difference

JANUARY, MAY = DelayCell("UA", 1), DelayCell("UA", 5)
TEN = Delays(flights=10, distinct_flights=10, departed=9, delay_total_min=45, delay_average_min=5.0)
FOUR = Delays(flights=4, distinct_flights=4, departed=4, delay_total_min=2, delay_average_min=0.5)
EXPECTED = {JANUARY: TEN, MAY: FOUR}


def test_equal_tables_have_no_difference_in_any_order() -> None:
    assert delays.compare(EXPECTED, {MAY: FOUR, JANUARY: TEN}) == []
    assert delays.duplicates(EXPECTED) == 0
    assert delays.lost(EXPECTED, EXPECTED) == 0


def test_a_duplicate_is_seen_though_the_averages_agree() -> None:
    twice = replace(FOUR, flights=6, departed=6, delay_total_min=3)
    counted = {JANUARY: TEN, MAY: twice}
    assert delays.compare(EXPECTED, counted) == [Difference(group=MAY, expected=FOUR, counted=twice)]
    assert delays.duplicates(counted) == 2
    assert delays.lost(EXPECTED, counted) == 0


def test_a_loss_is_seen_though_a_duplicate_makes_up_for_it() -> None:
    counted = {JANUARY: replace(TEN, distinct_flights=9), MAY: FOUR}
    assert len(delays.compare(EXPECTED, counted)) == 1
    assert delays.duplicates(counted) == 1
    assert delays.lost(EXPECTED, counted) == 1


def test_a_group_that_only_one_side_has_is_a_difference() -> None:
    assert delays.compare(EXPECTED, {JANUARY: TEN}) == [Difference(group=MAY, expected=FOUR, counted=NOTHING)]
    assert delays.compare({JANUARY: TEN}, EXPECTED) == [Difference(group=MAY, expected=NOTHING, counted=FOUR)]
    assert delays.lost(EXPECTED, {JANUARY: TEN}) == 4


def test_the_smallest_difference_of_an_average_counts() -> None:
    counted = {JANUARY: replace(TEN, delay_average_min=5.000000000000001), MAY: FOUR}
    assert [difference.group for difference in delays.compare(EXPECTED, counted)] == [JANUARY]


def test_several_groups_average_over_their_flights_not_over_their_averages() -> None:
    whole = delays.total(delays.of_carrier(EXPECTED, "UA").values())
    assert whole == Delays(flights=14, distinct_flights=14, departed=13, delay_total_min=47, delay_average_min=47 / 13)
    assert delays.total(delays.of_carrier(EXPECTED, "AA").values()) == NOTHING
