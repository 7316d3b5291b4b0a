"""Report of a run, for people and for programs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from chaos.checkers import Cycle
from chaos.run import RunResult

_ROOT: Final = Path(__file__).resolve().parents[1]
_ANOMALIES_SHOWN_MAX: Final = 10


def as_json(result: RunResult) -> str:
    """Everything that the table says, and every anomaly."""
    verdict = result.verdict
    return json.dumps(
        {
            "clean": result.is_clean,
            "seed": result.plan.seed,
            "commit": commit(),
            "elapsed_s": round(result.elapsed_s, 1),
            "faults": [_fault_figures(name, cycles) for name, cycles in _by_fault(result.cycles).items()],
            "not_run": dict(result.not_run),
            "acknowledged": verdict.acknowledged,
            "unknown": verdict.unknown,
            "read": verdict.read,
            "lost": verdict.lost,
            "duplicates": verdict.duplicates,
            "drained": verdict.is_drained,
            "anomalies": [str(anomaly) for anomaly in verdict.anomalies],
            "problems": list(result.problems),
            "client_errors": dict(result.client_errors),
            "kept_in": None if result.is_clean else str(result.directory),
        },
        indent=2,
    )


def print_table(result: RunResult, console: Console) -> None:
    """Faults and gaps first, then what was found."""
    console.print(_faults_table(result))
    for name, reason in sorted(result.not_run.items()):
        console.print(f"not run: {name}: {reason}", style="yellow", markup=False)
    verdict = result.verdict
    console.print(
        f"{verdict.acknowledged:,} acknowledged, {verdict.read:,} read, {verdict.lost} lost, "
        f"{verdict.duplicates} duplicates, {verdict.unknown} of unknown outcome; "
        f"{len(result.cycles)} faults in {result.elapsed_s:.0f} s, seed {result.plan.seed}, commit {commit()}",
        markup=False,
    )
    if result.client_errors:
        said = ", ".join(f"{name} {count}" for name, count in sorted(result.client_errors.items()))
        console.print(f"clients raised: {said}", markup=False)
    for line in _findings(result):
        console.print(line, style="red", markup=False, soft_wrap=True)
    if result.is_clean:
        console.print("clean: every acknowledged record is there, once and in order", style="green")
    else:
        console.print(f"history and nodes are kept in {result.directory}", style="red", soft_wrap=True)


def commit() -> str:
    """Return the commit of the source tree; "unknown" outside of one."""
    command = ["git", "-C", str(_ROOT), "describe", "--always", "--dirty"]
    try:
        finished = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return finished.stdout.strip() or "unknown"


def _faults_table(result: RunResult) -> Table:
    table = Table(title="longest time between two acknowledgements of a partition")
    table.add_column("fault")
    for name in ("cycles", "median ms", "longest ms"):
        table.add_column(name, justify="right")
    for name, cycles in _by_fault(result.cycles).items():
        figures = _fault_figures(name, cycles)
        table.add_row(name, str(len(cycles)), str(figures["gap_median_ms"]), str(figures["gap_longest_ms"]))
    return table


def _findings(result: RunResult) -> list[str]:
    verdict = result.verdict
    lines = [f"{count} {kind}" for kind, count in sorted(verdict.counts.items())]
    lines += [f"  {anomaly}" for anomaly in verdict.anomalies[:_ANOMALIES_SHOWN_MAX]]
    if not verdict.is_drained:
        lines.append("the last reading did not reach the end of every partition")
    # With a node that failed comes the end of its log, which the directory has as well.
    return [*lines, *(problem.splitlines()[0] for problem in result.problems)]


def _by_fault(cycles: Sequence[Cycle]) -> dict[str, list[Cycle]]:
    grouped: dict[str, list[Cycle]] = {}
    for cycle in sorted(cycles, key=lambda each: each.fault):
        grouped.setdefault(cycle.fault, []).append(cycle)
    return grouped


def _fault_figures(name: str, cycles: Sequence[Cycle]) -> dict[str, Any]:
    gaps_ms = [cycle.longest_gap_ns // 1_000_000 for cycle in cycles]
    return {
        "fault": name,
        "cycles": len(cycles),
        "gap_median_ms": round(median(gaps_ms)),
        "gap_longest_ms": max(gaps_ms),
    }
