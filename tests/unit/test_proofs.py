"""A test that the checklist names is a proof only in a run in which it passed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checklist import Row
from tests.proofs import cases, main, missing_proofs

LOG = "tests.unit.log.test_log"


def report(directory: Path, *testcases: str) -> Path:
    """Write a report as pytest does."""
    path = directory / "report.xml"
    path.write_text(f'<testsuites><testsuite name="pytest">{"".join(testcases)}</testsuite></testsuites>')
    return path


def case(name: str, outcome: str = "", module: str = LOG) -> str:
    return f'<testcase classname="{module}" name="{name}" time="0.1">{outcome}</testcase>'


def missing(directory: Path, named: str, *testcases: str, exceptions: dict[str, str] | None = None) -> list[str]:
    rows = [Row("B01", f"not yet: the rest; otherwise: `{named}`")]
    return list(missing_proofs(rows, cases(report(directory, *testcases)), exceptions or {}))


@pytest.mark.parametrize(
    ("named", "testcases"),
    [
        ("tests/unit/log/test_log.py::test_a", [case("test_a")]),
        ("tests/unit/log/test_log.py::test_a", [case("test_a[1]"), case("test_a[2]"), case("test_b", "<failure/>")]),
        ("tests/unit/log/test_log.py::test_a[2]", [case("test_a[1]", "<skipped/>"), case("test_a[2]")]),
        ("tests/unit/log/test_log.py::TestLog::test_a", [case("test_a", module=f"{LOG}.TestLog")]),
        ("tests/unit/log/test_log.py::test_model", [case("runTest", module=f"{LOG}.test_model")]),
        ("tests/unit/log/test_log.py", [case("test_a"), case("test_b", module=f"{LOG}.TestLog")]),
    ],
)
def test_what_has_passed_is_a_proof(named: str, testcases: list[str], tmp_path: Path) -> None:
    assert missing(tmp_path, named, *testcases) == []


@pytest.mark.parametrize(
    ("testcases", "output"),
    [
        ([], "did not run"),
        ([case("test_another"), case("test_a_longer_name"), case("test_a", module=f"{LOG}2")], "did not run"),
        ([case("test_a", '<skipped message="there is no kcat&#10;at all"/>')], "skipped: there is no kcat"),
        ([case("test_a[1]"), case("test_a[2]", '<skipped type="pytest.xfail"/>')], "skipped"),
        ([case("test_a", '<failure message="assert 1 == 2">long</failure>')], "failed: assert 1 == 2"),
        ([case("test_a", '<error message="fixture"/>')], "failed: fixture"),
    ],
)
def test_what_did_not_pass_is_reported_in_a_line(testcases: list[str], output: str, tmp_path: Path) -> None:
    named = "tests/unit/log/test_log.py::test_a"
    assert missing(tmp_path, named, *testcases) == [f"B01: {named} {output}"]


def test_an_exception_need_not_pass_and_has_to_be_named() -> None:
    row = Row("B01", "`tests/test_one.py::test_here`")
    exceptions = {"tests/test_one.py::test_here": "why", "tests/test_one.py::test_gone": "why"}
    assert list(missing_proofs([row], [], exceptions)) == [
        "tests/test_one.py::test_gone is an exception, and the checklist does not name it"
    ]


def test_a_run_without_a_report_has_shown_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "report.xml")]) == 1
    assert "is not the report of a test run" in capsys.readouterr().err


def test_a_run_of_nothing_misses_every_proof(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(report(tmp_path))]) == 1
    output = capsys.readouterr()
    assert "proofs: B09 is shown by a command, which is not run here: python -m benchmarks" in output.out
    assert "proofs: A01: tests/end_to_end/storage/test_durability.py::" in output.err


TESTS = """
import pytest

@pytest.mark.parametrize("number", [1, 2])
def test_passes(number):
    pass

class TestClass:
    def test_fails(self):
        assert 1 == 2

def test_is_skipped():
    pytest.skip("there is no kcat")
"""


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "2", "--dist", "loadfile")])
def test_a_run_on_several_cores_reports_as_one_in_one_process_does(workers: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_log.py").write_text(TESTS)
    path = tmp_path / "report.xml"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *workers, f"--junitxml={path}", f"--rootdir={tmp_path}", "tests"],
        env=environment | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert sorted((case.module, case.name, case.outcome) for case in cases(path)) == [
        ("tests.test_log", "test_is_skipped", "skipped: there is no kcat"),
        ("tests.test_log", "test_passes[1]", "passed"),
        ("tests.test_log", "test_passes[2]", "passed"),
        ("tests.test_log.TestClass", "test_fails", "failed: assert 1 == 2"),
    ]
