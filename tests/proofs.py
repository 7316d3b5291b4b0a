"""Checks that every test that docs/checklist.md names has passed: `python -m tests.proofs REPORT`.

REPORT is what pytest wrote with `--junitxml`. Prints one line for each test that failed, was skipped or did not run,
and exits with 1 if there is one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from tests.checklist import CHECKLIST, NamedTest, Row, rows

EXCEPTIONS: Final[Mapping[str, str]] = {}
"""Tests that the checklist names and that need not pass in this run, each with the reason."""


@dataclass(frozen=True, slots=True)
class Case:
    """One test case of a report; `outcome` is "passed" or says why it is not."""

    module: str
    name: str
    outcome: str

    @property
    def passed(self) -> bool:
        return self.outcome == "passed"

    @property
    def was_skipped(self) -> bool:
        return self.outcome.startswith("skipped")

    def belongs_to(self, test: NamedTest) -> bool:
        module = test.file.removesuffix(".py").replace("/", ".")
        own = f"{self.module}.{self.name}"
        if test.name is None:
            return own.startswith(f"{module}.")
        named = f"{module}.{test.name.replace('::', '.')}"
        # A function stands for its parametrized cases, a class for its methods.
        return own == named or own.startswith((f"{named}[", f"{named}."))


def cases(report: Path) -> list[Case]:
    """Raises OSError and ElementTree.ParseError."""
    return [_case(element) for element in ElementTree.parse(report).iter("testcase")]


def _case(element: ElementTree.Element) -> Case:
    outcome = "passed"
    for found in element:
        if found.tag in ("failure", "error", "skipped"):
            kind = {"failure": "failed", "error": "failed"}.get(found.tag, found.tag)
            reason = (found.get("message") or "").splitlines()
            outcome = f"{kind}: {reason[0]}" if reason else kind
    return Case(element.get("classname", ""), element.get("name", ""), outcome)


def missing_proofs(named: Iterable[Row], ran: list[Case], exceptions: Mapping[str, str] = EXCEPTIONS) -> Iterator[str]:
    """One line for each named test that has not passed, and for each exception that is none."""
    unused = set(exceptions)
    for row in named:
        for test in row.tests:
            unused.discard(str(test))
            if str(test) in exceptions:
                continue
            found = [case for case in ran if case.belongs_to(test)]
            if not found:
                yield f"{row.row_id}: {test} did not run"
            for case in found:
                if not case.passed:
                    yield f"{row.row_id}: {test} {case.outcome}"
    for test_name in sorted(unused):
        yield f"{test_name} is an exception, and the checklist does not name it"


def main(arguments: list[str]) -> int:
    (report,) = arguments
    checklist = list(rows(CHECKLIST.read_text()))
    try:
        ran = cases(Path(report))
    except (OSError, ElementTree.ParseError) as error:
        print(f"proofs: {report} is not the report of a test run: {error}", file=sys.stderr)
        return 1
    for row in checklist:
        for command in row.commands:
            print(f"proofs: {row.row_id} is shown by a command, which is not run here: {command}")
    for case in ran:
        if case.was_skipped:
            print(f"proofs: {case.module}.{case.name} {case.outcome}")
    for test_name, reason in EXCEPTIONS.items():
        print(f"proofs: {test_name} need not pass: {reason}")
    missing = sorted(set(missing_proofs(checklist, ran)))
    for line in missing:
        print(f"proofs: {line}", file=sys.stderr)
    named = {str(test) for row in checklist for test in row.tests}
    print(f"proofs: the checklist names {len(named)} tests; {len(missing)} proofs are missing")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
