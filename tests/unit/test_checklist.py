"""The checklist is only worth something while every proof that it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHECKLIST = ROOT / "docs" / "checklist.md"

# How many lines each section of the mission has; they are numbered from 1 without a gap.
LINES_PER_SECTION = """
    A 26  B 24  C 31  D 10  E 21  F 16  G 10  H 6  I 8  J 4  K 3  L 17  M 11  M2 99
    N 4  O 4  P 7  Q 4  R 5  S 5  T 5  U 9  V 5  W 3  X 2  Y 12  Z 15
"""
ROW = re.compile(r"^\| (?P<id>[A-Z]\d{2}|M2-\d{3}) \| (?P<what>.+) \| (?P<shown_by>.+) \|$")
TEST = re.compile(r"`(?P<file>tests/[^`\s]+?\.py)(?:::(?P<name>[^`\s]+))?`")


def rows() -> list[tuple[str, str]]:
    """ID and last column of every line of every table."""
    found = [ROW.match(line) for line in CHECKLIST.read_text().splitlines()]
    return [(row["id"], row["shown_by"]) for row in found if row]


def expected_ids() -> list[str]:
    words = LINES_PER_SECTION.split()
    return [
        f"M2-{number:03}" if section == "M2" else f"{section}{number:02}"
        for section, count in zip(words[::2], words[1::2], strict=True)
        for number in range(1, int(count) + 1)
    ]


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


def missing_tests(text: str, root: Path) -> list[str]:
    """The tests named in `text` that do not exist below `root`."""
    missing = []
    for match in TEST.finditer(text):
        file, name = root / match["file"], match["name"]
        # A parametrized case is named by its function here.
        if not file.is_file() or (name is not None and name.split("[")[0] not in names_in(file)):
            missing.append(match[0])
    return missing


def test_every_line_of_the_mission_stands_in_it_once_and_in_order() -> None:
    assert [row_id for row_id, _ in rows()] == expected_ids()


def test_every_table_line_is_understood() -> None:
    lines = [line for line in CHECKLIST.read_text().splitlines() if line.startswith("|")]
    headings = [line for line in lines if line.startswith(("| ID |", "|---"))]
    assert len(lines) - len(headings) == len(rows())


def test_every_test_that_it_names_exists() -> None:
    missing = [f"{row_id}: {test}" for row_id, shown_by in rows() for test in missing_tests(shown_by, ROOT)]
    assert missing == []


def test_every_line_says_what_shows_it_or_why_nothing_does() -> None:
    unclear = [
        row_id
        for row_id, shown_by in rows()
        if "`" not in shown_by and not shown_by.startswith(("not yet", "not built: ", "documentation"))
    ]
    assert unclear == []


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
    assert missing_tests(f"{good}, {named}", tmp_path) == [named]
