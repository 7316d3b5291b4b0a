"""The checklist is only worth something while every proof that it names exists."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.checklist import CHECKLIST, ROOT, Row, rows

# How many lines each section has; they are numbered from 1 without a gap.
LINES_PER_SECTION = """
    A 26  B 24  C 31  D 10  E 21  F 16  G 10  H 6  I 8  J 4  K 3  L 17  M 11  M2 99
    N 4  O 4  P 7  Q 4  R 5  S 5  T 5  U 9  V 5  W 3  X 2  Y 12  Z 15  DC 44
"""


def checklist() -> list[Row]:
    return list(rows(CHECKLIST.read_text()))


def expected_ids() -> list[str]:
    words = LINES_PER_SECTION.split()
    return [
        f"M2-{number:03}" if section == "M2" else f"{section}{number:02}"
        for section, count in zip(words[::2], words[1::2], strict=True)
        for number in range(1, int(count) + 1)
    ]


@cache
def names_in(file: Path) -> set[str]:
    """Names as pytest spells them: `test_name`, or `TestClass::test_name`."""
    tree = ast.parse(file.read_text())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    # A stateful hypothesis test is an assignment: TestLog = LogModel.TestCase.
    assigned = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    methods = {
        f"{node.name}::{method.name}"
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        for method in node.body
        if isinstance(method, ast.FunctionDef)
    }
    return functions | assigned | methods


def missing_tests(row: Row, root: Path) -> list[str]:
    """The tests of a row that do not exist below `root`."""
    return [
        str(test)
        for test in row.tests
        # A parametrized case is named by its function here.
        if not (root / test.file).is_file()
        or (test.name is not None and test.name.split("[")[0] not in names_in(root / test.file))
    ]


def test_every_line_stands_in_it_once_and_in_order() -> None:
    assert [row.row_id for row in checklist()] == expected_ids()


def test_every_table_line_is_understood() -> None:
    lines = [line for line in CHECKLIST.read_text().splitlines() if line.startswith("|")]
    headings = [line for line in lines if line.startswith(("| ID |", "|---"))]
    assert len(lines) - len(headings) == len(checklist())


def test_every_test_that_it_names_exists() -> None:
    assert [f"{row.row_id}: {test}" for row in checklist() for test in missing_tests(row, ROOT)] == []


def is_clear(row: Row) -> bool:
    """A proof, or what is missing in words, with the tests of the rest behind them."""
    if row.shown_by in ("not yet", "not yet (documentation)"):
        return True
    is_named_once = len(row.tests) == len(set(row.tests))
    if row.shown_by.startswith(("not yet: ", "not built: ")):
        return is_named_once
    return row.shown_by.startswith("`") and bool(row.tests or row.commands) and is_named_once


def test_every_line_says_what_shows_it_or_why_nothing_does() -> None:
    assert [row.row_id for row in checklist() if not is_clear(row)] == []


@pytest.mark.parametrize(
    "shown_by",
    [
        "",
        "everybody knows",
        "`kraft/server/process/node.py`",
        "nothing yet: `tests/test_one.py::test_here`",
        "not yet `tests/test_one.py::test_here`",
        "mostly: `tests/test_one.py::test_here`",
        "`tests/test_one.py::test_here`, `tests/test_one.py::test_here`",
    ],
)
def test_a_line_without_a_proof_or_a_reason_is_noticed(shown_by: str) -> None:
    assert not is_clear(Row("A01", shown_by))


@pytest.mark.parametrize(
    "named",
    ["`tests/test_gone.py::test_here`", "`tests/test_one.py::test_gone`", "`tests/test_one.py::TestOne::test_gone`"],
)
def test_a_test_that_does_not_exist_is_noticed(tmp_path: Path, named: str) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_one.py").write_text(
        "def test_here(): ...\nclass TestOne:\n    def test_inside(self): ...\n"
    )
    good = "`tests/test_one.py::test_here`, `tests/test_one.py::TestOne::test_inside`, `tests/test_one.py`"
    assert missing_tests(Row("A01", f"{good}, {named}"), tmp_path) == [named.strip("`")]
