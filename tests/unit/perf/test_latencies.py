"""Percentiles and histograms of latencies, compared with sorted lists."""

from __future__ import annotations

import random

import pytest

from kraft.perf.latencies import Bar, Latencies


def test_percentiles_are_at_most_1_6_percent_above_those_of_the_sorted_list() -> None:
    chosen = random.Random(1)
    given = sorted(int(chosen.lognormvariate(8, 2)) for _ in range(10_000))
    latencies = Latencies()
    for each in given:
        latencies.add(each)
    for percent in (1, 50, 95, 99, 99.9, 100):
        exact_ms = given[max(0, round(len(given) * percent / 100) - 1)] / 1_000
        assert exact_ms <= latencies.percentile_ms(percent) <= exact_ms * 1.016
    assert (latencies.count, latencies.max_ms) == (10_000, given[-1] / 1_000)
    assert latencies.mean_ms == pytest.approx(sum(given) / 10_000_000)


def test_latencies_below_128_microseconds_are_exact() -> None:
    latencies = Latencies()
    for each in range(1, 101):
        latencies.add(each)
    assert [latencies.percentile_ms(each) for each in (1, 50, 100)] == [0.001, 0.05, 0.1]


def test_the_bars_of_a_histogram_have_all_latencies_and_no_gap() -> None:
    latencies = Latencies()
    latencies.add(3, count=2)
    latencies.add(40)
    assert list(latencies.histogram()) == [
        Bar(below_ms=0.004, count=2),
        Bar(below_ms=0.008, count=0),
        Bar(below_ms=0.016, count=0),
        Bar(below_ms=0.032, count=0),
        Bar(below_ms=0.064, count=1),
    ]


def test_nothing_measured_is_zero_and_has_no_bars() -> None:
    latencies = Latencies()
    assert (latencies.mean_ms, latencies.percentile_ms(99), list(latencies.histogram())) == (0, 0, [])
