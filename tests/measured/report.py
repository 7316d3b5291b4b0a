"""What was measured, as a table for people and as JSON."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path
from typing import Final

import msgspec

from tests.measured.measurement import ROOT, Killed, Limits, Ran, read
from tests.measured.mutants import outer_functions
from tests.measured.verdicts import Rule, Shown, Verdict, estimated_loss, judge

_NAMED_FOR_A_FIX: Final = re.compile(r"test_(golden|r\d+|i\d+)_")
"""Tests of recorded bytes, of the numbered holes of replication and of the numbered invariants."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One package: its mutants, and the verdict and the size of each test function."""

    package: str
    mutants: int
    killed: int
    survivors: list[str]
    estimated_loss: float
    """Share of killed mutants that the tests that stay do not kill, when others have decided which stay."""

    verdicts: dict[str, Verdict]
    lines: dict[str, int]


def of(package: Path, directory: Path, seed: int, rule: Rule) -> Report:
    """Judge what one measurement has found; several seeds may have been measured, and all count.

    The rule names files and tests as the checklist does, and fixes by the name of the function.
    """
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
    rule = msgspec.structs.replace(
        rule,
        named={test for test in shown if test in rule.named or test.partition("::")[0] in rule.named},
        born_in_fix={
            test
            for test in shown
            if (name := test.rpartition("::")[2]) in rule.born_in_fix or _NAMED_FOR_A_FIX.match(name)
        },
    )
    return Report(
        package=package.as_posix(),
        mutants=len(killed),
        killed=sum(bool(found.tests) for found in killed),
        survivors=[str(found.mutant) for found in killed if not found.tests],
        estimated_loss=estimated_loss(shown, rule, seed),
        verdicts=judge(shown, rule),
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
    head = ["package", "mutants", "killed", "tests", *Verdict, "lines of these", "estimated loss"]
    table = [head]
    for report in reports:
        counts = Counter(report.verdicts.values())
        gone = sum(report.lines[test] for test, verdict in report.verdicts.items() if verdict is Verdict.MAY_GO)
        figures = [
            report.mutants,
            report.killed,
            len(report.verdicts),
            *(counts[verdict] for verdict in Verdict),
            gone,
            f"{report.estimated_loss:.1%}",
        ]
        table.append([report.package, *map(str, figures)])
    lines = ["| " + " | ".join(row) + " |" for row in table]
    lines.insert(1, "|" + "---|" * len(head))
    for report in reports:
        lines += ["", f"{report.package}: tests that may go, with their lines"]
        lines += [
            f"  {report.lines[test]:3} {test}" for test, verdict in report.verdicts.items() if verdict is Verdict.MAY_GO
        ]
    return "\n".join(lines)
