"""A closing line of a run in which tests were skipped for want of a program: which packages would run them."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Final

import pytest

PACKAGES: Final = {
    "there is no kcat": ("kcat",),
    "libfuse3 is not installed": ("libfuse3-3",),
    "there is no openssl": ("openssl",),
    "there is no mount command": ("mount",),
    "there is no java": ("openjdk-17-jre-headless",),
    "there is no mvn": ("maven",),
    "there is no node with npm": ("nodejs", "npm"),
}
"""Debian packages by the words of a skipped test's reason; scripts/install-test-tools.sh installs them."""


class Skipped:
    """A pytest plugin. Its hooks run where the results are collected."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            self._reasons[report.nodeid] = report.longrepr[2]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Print the line below everything else, which pytest prints inside this hook."""
        yield
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and (line := closing_line(self._reasons.values())) is not None:
            reporter.write_line(line)


def closing_line(reasons: Iterable[str]) -> str | None:
    """Return what to install, or None if no test was skipped for want of a program."""
    missing = [packages for reason in reasons for words, packages in PACKAGES.items() if words in reason]
    if not missing:
        return None
    names = sorted({name for packages in missing for name in packages})
    tests = "1 test was" if len(missing) == 1 else f"{len(missing)} tests were"
    return f"{tests} skipped for want of packages; as root: apt-get install {' '.join(names)}"
