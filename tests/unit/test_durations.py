"""The marker `slow` and durations agree."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.durations import SECONDS_VARIABLE

ROOT = Path(__file__).resolve().parents[2]

CONFTEST = """
import os
import pytest
from tests.support.durations import Durations

SECONDS = {"test_long": 31.0, "test_marked[long]": 31.0, "test_marked_for_nothing": 1.5}

def pytest_configure(config):
    config.pluginmanager.register(Durations(os.environ))

@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_makereport(item, call):
    report = yield
    report.duration = SECONDS.get(item.name, 0.1)
    return report
"""
TESTS = """
import pytest

def test_long(): pass

def test_short(): pass

@pytest.mark.slow
@pytest.mark.parametrize("case", ["short", "long"])
def test_marked(case): pass

@pytest.mark.slow
def test_marked_for_nothing(): pass
"""


def run_tests(directory: Path, *arguments: str, limit: str | None) -> tuple[int, str]:
    """Exit code and output of pytest for TESTS."""
    (directory / "conftest.py").write_text(CONFTEST)
    (directory / "test_it.py").write_text(TESTS)
    (directory / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("KRAFT_", "PYTEST"))}
    environment |= {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment |= {SECONDS_VARIABLE: limit} if limit else {}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("workers", [[], ["-p", "xdist", "-n", "1"]], ids=["in one process", "in a worker"])
def test_a_long_test_without_the_marker_fails_and_a_quick_one_with_it_is_listed(
    workers: list[str], tmp_path: Path
) -> None:
    code, output = run_tests(tmp_path, *workers, limit="30")
    assert code == 1
    assert "1 failed, 4 passed" in output
    assert "passed, but took 31.0 s without the marker slow (limit 30 s)" in output
    assert [line for line in output.splitlines() if line.startswith("marked slow")] == [
        "marked slow, but took 1.5 s: test_it.py::test_marked_for_nothing"
    ]


def test_without_a_limit_it_passes(tmp_path: Path) -> None:
    code, output = run_tests(tmp_path, limit=None)
    assert code == 0, output
