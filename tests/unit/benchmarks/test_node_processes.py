"""One file with two processes under a load of few records."""

from __future__ import annotations

import psutil
import pytest

from benchmarks.kafka_load import Flow
from benchmarks.loads import Load
from benchmarks.node_processes import Plan, measure, processes_of_one_file, together_per_s


def flow(began_s: float, seconds: float) -> Flow:
    return Flow(records=100, seconds=seconds, cpu_s=1.0, began_s=began_s, all_records=100)


def test_flows_that_overlap_are_counted_from_the_first_begin_to_the_last_end() -> None:
    assert together_per_s([flow(10.0, 1.0)]) == 100
    assert together_per_s([flow(10.0, 1.0), flow(10.5, 1.5)]) == 100
    assert together_per_s([flow(10.0, 2.0), flow(10.5, 0.5)]) == 100


@pytest.mark.parametrize("load", Load)
def test_a_report_has_the_cpu_of_all_processes_and_of_the_busiest(load: Load) -> None:
    with processes_of_one_file(1) as alone, processes_of_one_file(2) as two:
        report = measure([alone, two], Plan(partitions=2, records=10_000, rounds=1, load=load))
        pids = [*alone.pids, *two.pids]
    assert [row["processes"] for row in report.rows] == [1, 2]
    one, both = ((row["us"], row["busiest us"]) for row in report.rows)
    assert one[0] == one[1]
    assert isinstance(both[0], float)
    assert isinstance(both[1], float)
    assert 0 < both[1] < both[0]
    assert not any(map(psutil.pid_exists, pids)), "the processes end with the block"
