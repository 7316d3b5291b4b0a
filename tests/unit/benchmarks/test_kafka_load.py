from __future__ import annotations

from benchmarks.kafka_load import Latencies


def test_percentiles_are_of_sorted_latencies_in_milliseconds() -> None:
    found = Latencies.of([0.003, 0.001, *[0.002] * 98])
    assert (found.p50_ms, found.p99_ms, found.max_ms) == (2.0, 3.0, 3.0)
