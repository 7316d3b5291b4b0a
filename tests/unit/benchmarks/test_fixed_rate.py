"""Rates of a moment, on one node; the figures of a cluster take longer."""

from __future__ import annotations

from benchmarks.fixed_rate import Pace, Plan, measure
from benchmarks.servers import node
from tests.support.kafka.single_requests import end_offsets


def test_as_many_batches_are_sent_as_the_rate_asks_for_after_one_to_begin() -> None:
    paces = (Pace(100, 1), Pace(50, 4_000))
    with node() as server:
        report = measure([server], Plan(rounds=1, seconds=0.4, paces=paces))
        ends = [end_offsets(server.address, f"pace-{place}-0", 1) for place in range(2)]
    assert [row["records"] for row in report.rows] == [1, 3]
    assert ends == [{0: 41}, {0: 3 * 21}]
    for pace, row in zip(paces, report.rows, strict=True):
        sent_per_s, load_us = row["batches/s"], row["load us"]
        assert isinstance(sent_per_s, float)
        assert isinstance(load_us, float)
        # The first is sent at once, so the last goes out one interval before the time is over.
        assert 0 < sent_per_s < pace.batches_per_s * 1.1
        assert load_us > 0
