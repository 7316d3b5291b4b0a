"""Columns of the report; its figures are few records' of one node."""

from __future__ import annotations

from benchmarks.kafka_listener import BATCH_BYTES, Plan, measure
from benchmarks.loads import Load
from benchmarks.servers import node

RECORDS = 10_000


def test_a_report_has_the_cpu_of_the_load_and_of_the_server() -> None:
    with node() as server:
        report = measure([server], Plan(records=RECORDS, rounds=1, pings=100, warm_up_records=2, pause_s=0), server)
    assert [row["batch bytes"] for row in report.rows] == [*BATCH_BYTES]
    of_server = ("p50 ms", "alone us", "MiB loaded")
    assert all(report.rows[0][name] for name in of_server)
    assert not any(report.rows[1][name] for name in of_server)
    for row in report.rows:
        for figure in ("in: us", "in: load us", "out: us", "out: load us"):
            cell = row[figure]
            assert isinstance(cell, float)
            assert cell > 0


def test_a_report_of_a_prepared_load_has_what_goes_in_alone() -> None:
    with node() as server:
        report = measure([server], Plan(records=RECORDS, rounds=1, load=Load.PREPARED, pause_s=0), server)
    assert "prepared load" in report.title
    for row in report.rows:
        flow = ["in: records/s", "in: MB/s", "in: x", "in: us", "in: load us"]
        assert list(row) == ["server", "batch bytes", *flow, "MiB start", "MiB loaded"]
