from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from chaos import report
from chaos.checkers import check, cycles
from chaos.run import RunPlan, RunResult
from tests.unit.chaos.history_building import HistoryBuilder


def result(history: HistoryBuilder, problems: tuple[str, ...] = ()) -> RunResult:
    return RunResult(
        plan=RunPlan(seed=7, cycles=1),
        verdict=check(history.operations),
        cycles=cycles(history.operations),
        not_run={"cut": "there is no toxiproxy-server"},
        problems=problems,
        client_errors={"DeliveryTimeout": 3},
        elapsed_s=12.3,
        directory=Path("/kept/here"),
    )


def table(of: RunResult) -> str:
    console = Console(file=io.StringIO(), width=200)
    report.print_table(of, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture
def clean() -> HistoryBuilder:
    history = HistoryBuilder()
    history.sent((1, 0))
    history.broke("kill-leader")
    history.now_ns += 2_500_000_000
    history.sent((2, 1))
    history.polled((0, 1), (1, 2))
    history.drained()
    return history


def test_a_clean_run_says_so_with_its_figures(clean: HistoryBuilder) -> None:
    shown = table(result(clean))
    assert "kill-leader │      1 │      2503 │       2503" in shown
    assert "2 acknowledged, 2 read, 0 lost, 0 duplicates, 0 of unknown outcome; 1 faults in 12 s, seed 7" in shown
    assert "not run: cut: there is no toxiproxy-server" in shown
    assert "clients raised: DeliveryTimeout 3" in shown
    assert "clean: every acknowledged record is there" in shown
    assert "/kept/here" not in shown


def test_what_was_found_is_named_with_the_place_of_the_history(clean: HistoryBuilder) -> None:
    clean.sent((3, 2))
    shown = table(result(clean))
    assert "1 unseen" in shown
    assert "value 3, acknowledged at offset 2, was never read" in shown
    assert "history and nodes are kept in /kept/here" in shown
    assert "clean:" not in shown


def test_a_run_without_progress_is_not_clean(clean: HistoryBuilder) -> None:
    stuck = result(clean, problems=("1/1 cut: nothing was acknowledged for 30 s",))
    assert not stuck.is_clean
    assert "nothing was acknowledged for 30 s" in table(stuck)


def test_programs_read_the_same(clean: HistoryBuilder) -> None:
    said = json.loads(report.as_json(result(clean)))
    assert said["clean"] is True
    assert said["seed"] == 7
    assert said["faults"] == [{"fault": "kill-leader", "cycles": 1, "gap_median_ms": 2503, "gap_longest_ms": 2503}]
    assert (said["acknowledged"], said["lost"], said["duplicates"]) == (2, 0, 0)
    assert said["not_run"] == {"cut": "there is no toxiproxy-server"}
    assert said["kept_in"] is None
