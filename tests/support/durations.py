"""Checks that exactly the tests that take long have the marker `slow`.

With SECONDS_VARIABLE set, as `.ci/run` sets it, a test without the marker fails if it takes longer than so many
seconds: several times what tests/README.md allows, so that a busy machine fails nothing. Every run ends with a list of
the marked tests that took less than QUICK_S.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Final

import pytest

SECONDS_VARIABLE: Final = "KRAFT_TEST_SECONDS_UNMARKED"
QUICK_S: Final = 2.0


class Durations:
    """A pytest plugin. Its first hook runs where the test runs, the others where the results are collected."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._unmarked_s_max = float(environment.get(SECONDS_VARIABLE, "inf"))
        self._longest_s: dict[str, float] = {}
        """The longest case of each function with the marker."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        is_marked = item.get_closest_marker("slow") is not None
        if call.when == "call" and report.passed and not is_marked and report.duration > self._unmarked_s_max:
            report.outcome = "failed"
            report.longrepr = (
                f"passed, but took {report.duration:.1f} s without the marker slow (limit {self._unmarked_s_max:g} s): "
                "make it quicker, or mark it"
            )
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed and "slow" in report.keywords:
            function = report.nodeid.partition("[")[0]
            self._longest_s[function] = max(report.duration, self._longest_s.get(function, 0))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for function, seconds in sorted(self._longest_s.items()):
            if seconds < QUICK_S:
                terminalreporter.write_line(f"marked slow, but took {seconds:.1f} s: {function}")
