"""The benchmark of transactions runs a real node, and the loads' own processes; here few transactions are written."""

from __future__ import annotations

import pytest

from benchmarks.kafka_load import Latencies
from benchmarks.servers import nodes
from benchmarks.transactions import Plan, measure
from kraft.server.config.values import Durability


def test_every_client_has_a_row_with_transactions_and_one_without() -> None:
    plan = Plan(transactions=4, rounds=1, warm_up_rounds=0, producers=(2,), reads=1)
    with nodes(1, Durability.PAGE_CACHE) as server:
        report = measure([server], plan)
    assert [(row["server"], row["lots"]) for row in report.rows] == [
        ("kraft, page cache, own client", "transactions"),
        ("kraft, page cache, own client", "plain"),
        ("kraft, page cache", "transactions"),
        ("kraft, page cache", "plain"),
    ]
    only_transactions = {"of plain", "committed", "uncommitted", "read x", "commit p50 ms", "commit p99 ms"}
    for row in report.rows:
        without = {name for name, figure in row.items() if figure is None}
        assert without == (set() if row["lots"] == "transactions" else only_transactions)
        assert row["records/s"] == pytest.approx(100 * float(row["lots/s"] or 0), abs=1)


def test_percentiles_are_of_sorted_latencies_in_milliseconds() -> None:
    found = Latencies.of([0.003, 0.001, *[0.002] * 98])
    assert (found.p50_ms, found.p99_ms, found.max_ms) == (2.0, 3.0, 3.0)
