"""What was measured, as a table for people and as JSON."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import msgspec

from tests.measured.measurement import ROOT, Killed, Limits, Ran, read
from tests.measured.mutants import outer_functions
from tests.measured.verdicts import Shown, Verdict, judge


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One package: its mutants, and the verdict and the size of each test function."""

    package: str
    mutants: int
    killed: int
    survivors: list[str]
    verdicts: dict[str, Verdict]
    lines: dict[str, int]


def of(package: Path, directory: Path, seed: int, named: Collection[str], fixes: Collection[str]) -> Report:
    """Read what one measurement has found; several seeds may have been measured, and all count."""
    ran = read(directory / "covered.jsonl", Ran)
    killed = [found for store in sorted(directory.glob("killed-*.jsonl")) for found in read(store, Killed)]
    kills, covers, measured = dict[str, set[str]](), dict[str, set[str]](), dict[str, bool]()
    for found in ran:
        test = function_of(found.test)
        lines = {f"{file}:{line}" for file, numbers in found.lines.items() for line in numbers}
        covers.setdefault(test, set()).update(lines)
        measured[test] = (
            measured.get(test, True)
            and bool(lines)
            and found.outcome == "passed"
            and found.seconds <= Limits().seconds_max
        )
    for mutant in killed:
        for name in mutant.tests:
            kills.setdefault(function_of(name), set()).add(str(mutant.mutant))
    sizes = {name: size for file in {test.partition("::")[0] for test in covers} for name, size in _sizes(file)}
    shown = {
        test: Shown(frozenset(kills.get(test, ())), frozenset(covers[test]), sizes.get(test, 1), measured[test])
        for test in covers
    }
    kept = {test for test in shown if test in named or test.partition("::")[0] in named}
    born = {test for test in shown if (name := test.rpartition("::")[2]) in fixes or name.startswith("test_golden")}
    return Report(
        package=package.as_posix(),
        mutants=len(killed),
        killed=sum(bool(found.tests) for found in killed),
        survivors=[str(found.mutant) for found in killed if not found.tests],
        verdicts=judge(shown, kept, born),
        lines={test: found.size for test, found in shown.items()},
    )


def function_of(test: str) -> str:
    return test.partition("[")[0]


def _sizes(file: str) -> list[tuple[str, int]]:
    return [
        (f"{file}::{name.replace('.', '::')}", (function.end_lineno or function.lineno) - _first_line(function) + 1)
        for name, function in outer_functions(ast.parse((ROOT / file).read_text()))
    ]


def _first_line(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])


def as_json(reports: list[Report]) -> str:
    return msgspec.json.format(msgspec.json.encode(reports)).decode()


def as_table(reports: list[Report]) -> str:
    head = ["package", "mutants", "killed", "tests", *Verdict, "lines of these"]
    table = [head]
    for report in reports:
        counts = Counter(report.verdicts.values())
        gone = sum(report.lines[test] for test, verdict in report.verdicts.items() if verdict is Verdict.MAY_GO)
        figures = [report.mutants, report.killed, len(report.verdicts), *(counts[verdict] for verdict in Verdict), gone]
        table.append([report.package, *map(str, figures)])
    lines = ["| " + " | ".join(row) + " |" for row in table]
    lines.insert(1, "|" + "---|" * len(head))
    for report in reports:
        lines += ["", f"{report.package}: tests that may go, with their lines"]
        lines += [
            f"  {report.lines[test]:3} {test}" for test, verdict in report.verdicts.items() if verdict is Verdict.MAY_GO
        ]
    return "\n".join(lines)
