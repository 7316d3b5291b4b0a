"""Rates of several loads together; that a benchmark runs, shows when it is run."""

from __future__ import annotations

from benchmarks.kafka_load import Flow
from benchmarks.node_processes import together_per_s


def flow(began_s: float, seconds: float) -> Flow:
    return Flow(records=100, seconds=seconds, cpu_s=1.0, began_s=began_s, all_records=100)


def test_flows_that_overlap_are_counted_from_the_first_begin_to_the_last_end() -> None:
    assert together_per_s([flow(10.0, 1.0)]) == 100
    assert together_per_s([flow(10.0, 1.0), flow(10.5, 1.5)]) == 100
    assert together_per_s([flow(10.0, 2.0), flow(10.5, 0.5)]) == 100
