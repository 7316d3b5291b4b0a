"""One short run of everything: real nodes, real faults, the real Toxiproxy, and a clean verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.run import RunPlan, run
from chaos.toxiproxy import ToxiproxyMissing, find_or_build
from chaos.workloads import AppendPlan

FAULTS = ("kill-leader", "pause", "latency", "cut")


# Where Toxiproxy was never built, building it comes first.
@pytest.mark.slow
@pytest.mark.timeout(420)
def test_nothing_acknowledged_is_lost_when_things_break(tmp_path: Path) -> None:
    try:
        find_or_build(print)
    except ToxiproxyMissing as missing:
        pytest.skip(str(missing))

    plan = RunPlan(
        seed=20,
        cycles=len(FAULTS),
        faults=FAULTS,
        workload=AppendPlan(partitions=3, producers=1),
        warm_up_s=0.2,
        hold_s=(1.0, 2.5),
        rest_s=(0.0, 0.2),
    )
    result = run(plan, tmp_path, print)

    assert [str(anomaly) for anomaly in result.verdict.anomalies] == []
    assert result.problems == []
    assert result.not_run == {}
    assert result.verdict.is_drained
    assert sorted(cycle.fault for cycle in result.cycles) == sorted(FAULTS)
    assert result.verdict.acknowledged > 200
    assert result.is_clean
