"""`make check` runs the unit tests that a change concerns."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.changed import NotAClone, Selection, changed_files, message, read_sources, selection_for


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with a commit on its main branch."""
    for name, text in {
        "kraft/log/log.py": "",
        "kraft/log/__init__.py": "",
        "kraft/client/__init__.py": "from kraft.client.admin import Admin",
        "chaos/report.py": "",
        "README.md": "",
        "tests/conftest.py": "",
        "tests/support/logs.py": "from kraft.log.log import Log",
        "tests/support/more_logs.py": "import tests.support.logs",
        "tests/unit/log/test_log.py": "",
        "tests/unit/log/test_log_costs.py": "",
        "tests/unit/log/test_other.py": "",
        "tests/unit/chaos/test_report.py": "",
        "tests/unit/server/conftest.py": "",
        "tests/unit/client/test_exported.py": "from kraft.client import Admin",
        "tests/unit/server/test_direct.py": "def test_it() -> None:\n    from kraft.log import log",
        "tests/unit/server/test_indirect.py": "from tests.support.more_logs import logs",
        "tests/unit/test_house.py": "'README.md'",
        "tests/end_to_end/test_log.py": "from kraft.log.log import Log",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path)
    return tmp_path


def git(clone: Path, *arguments: str) -> None:
    person = ["-c", "user.name=someone", "-c", "user.email=someone@example.org"]
    subprocess.run(["git", *person, *arguments], cwd=clone, check=True, capture_output=True, timeout=30)


def commit(clone: Path) -> None:
    git(clone, "add", "--all")
    git(clone, "commit", "-q", "-m", "all")


def selected(clone: Path, *changed: str) -> Selection:
    return selection_for(changed, read_sources(clone))


def test_changed_is_what_differs_from_the_main_branch_committed_or_not(clone: Path) -> None:
    git(clone, "checkout", "-q", "-b", "work")
    (clone / "kraft/log/log.py").write_text("changed = 1")
    commit(clone)
    (clone / "chaos/report.py").unlink()
    (clone / "kraft/new.py").write_text("")
    assert changed_files(clone) == ["chaos/report.py", "kraft/log/log.py", "kraft/new.py"]


def test_changes_of_the_main_branch_since_then_are_not_ours(clone: Path) -> None:
    git(clone, "branch", "work")
    (clone / "kraft/log/log.py").write_text("changed = 1")
    commit(clone)
    git(clone, "checkout", "-q", "work")
    assert changed_files(clone) == []


def test_on_the_main_branch_changed_is_what_is_not_committed(clone: Path) -> None:
    (clone / "README.md").write_text("more")
    assert changed_files(clone) == ["README.md"]


def test_without_a_clone_the_error_has_gits_message(tmp_path: Path) -> None:
    with pytest.raises(NotAClone, match="not a git repository"):
        changed_files(tmp_path)


def test_a_module_has_its_own_tests_and_those_that_import_it_the_direct_ones_first(clone: Path) -> None:
    selection = selected(clone, "kraft/log/log.py")
    assert selection.own == ["tests/unit/log/test_log.py", "tests/unit/log/test_log_costs.py"]
    assert selection.dependent == ["tests/unit/server/test_direct.py", "tests/unit/server/test_indirect.py"]


@pytest.mark.parametrize(
    ("changed", "own", "dependent"),
    [
        ("chaos/report.py", ["tests/unit/chaos/test_report.py"], []),
        ("README.md", [], ["tests/unit/test_house.py"]),
        ("kraft/client/admin.py", [], ["tests/unit/client/test_exported.py"]),
        ("tests/unit/log/test_other.py", ["tests/unit/log/test_other.py"], []),
        ("tests/support/more_logs.py", [], ["tests/unit/server/test_indirect.py"]),
        (
            "tests/unit/server/conftest.py",
            [],
            ["tests/unit/server/test_direct.py", "tests/unit/server/test_indirect.py"],
        ),
        ("tests/end_to_end/test_log.py", [], []),
        ("kraft/log/__init__.py", [], ["tests/unit/server/test_direct.py"]),
    ],
)
def test_a_change_concerns(changed: str, own: list[str], dependent: list[str], clone: Path) -> None:
    assert selected(clone, changed) == Selection(own, dependent)


def test_a_large_change_leaves_the_remotest_tests_to_the_whole_run(clone: Path) -> None:
    selection = selected(clone, "kraft/log/log.py")
    assert selection.limited(3) == [*selection.own, "tests/unit/server/test_direct.py"]
    assert len(selection) == 4


@pytest.mark.parametrize(
    ("counts", "line"),
    [
        ((3, 0, 0), "3 files of unit tests for 0 changed files"),
        ((4, 1, 1), "4 files of unit tests for 1 changed file; 1 more is left to make test"),
        ((1, 2, 2), "1 file of unit tests for 2 changed files; 2 more are left to make test"),
    ],
)
def test_the_line_before_the_tests_counts_files(counts: tuple[int, int, int], line: str) -> None:
    assert message(*counts) == line
