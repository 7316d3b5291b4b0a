"""Short runs of everything: real nodes, real faults, the real Toxiproxy, and a clean verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.nemesis import links
from chaos.run import RunPlan, run
from chaos.toxiproxy import ToxiproxyMissing, find_or_build
from chaos.workloads import AppendPlan

FAULTS = ("kill-leader", "pause", "latency", "cut")


# The first run on a machine builds Toxiproxy.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]


@pytest.fixture(autouse=True)
def _toxiproxy() -> None:
    try:
        find_or_build(print)
    except ToxiproxyMissing as missing:
        pytest.skip(str(missing))


def test_nothing_acknowledged_is_lost_when_things_break(tmp_path: Path) -> None:
    """With a login inside TLS: what breaks has to be opened, shaken hands on and logged in again."""
    check_clean(tmp_path, FAULTS, seed=20, secure=True)


def test_nothing_acknowledged_is_lost_whatever_is_done_to_the_links(tmp_path: Path) -> None:
    check_clean(tmp_path, links.NAMES, seed=21)


def check_clean(directory: Path, faults: tuple[str, ...], seed: int, *, secure: bool = False) -> None:
    """Each fault happens once, and no acknowledged record is lost or duplicated."""
    plan = RunPlan(
        seed=seed,
        cycles=len(faults),
        faults=faults,
        secure=secure,
        workload=AppendPlan(partitions=3, producers=1),
        warm_up_s=0.2,
        hold_s=(1.0, 2.5),
        rest_s=(0.0, 0.2),
    )
    result = run(plan, directory, print)

    assert [str(anomaly) for anomaly in result.verdict.anomalies] == []
    assert result.problems == []
    assert result.not_run == {}
    assert result.verdict.is_drained
    assert sorted(cycle.fault for cycle in result.cycles) == sorted(faults)
    assert result.verdict.acknowledged > 200
    assert result.is_clean
