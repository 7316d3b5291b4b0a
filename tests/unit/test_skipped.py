"""A run that skipped tests for want of programs ends with the packages that would run them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.skipped import PACKAGES, closing_line

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "install-test-tools.sh"


def test_a_run_ends_with_the_packages(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "from tests.support.skipped import Skipped\n"
        "def pytest_configure(config):\n    config.pluginmanager.register(Skipped())\n"
    )
    (tmp_path / "test_tools.py").write_text(
        "import pytest\n"
        "def test_of_kcat():\n    pytest.skip('there is no kcat (package)')\n"
        "@pytest.fixture\ndef disk():\n    pytest.skip('not run: libfuse3 is not installed (on Debian)')\n"
        "def test_of_a_disk(disk):\n    pass\n"
        "def test_of_something_else():\n    pytest.skip('the codec is not compiled')\n"
    )
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    last = finished.stdout.splitlines()[-1]
    assert last == "2 tests were skipped for want of packages; as root: apt-get install kcat libfuse3-3"


def test_a_run_that_needs_nothing_says_nothing() -> None:
    assert closing_line(["the codec is not compiled"]) is None


def test_the_script_that_installs_test_tools_knows_each_package() -> None:
    packages = {name for names in PACKAGES.values() for name in names}
    assert packages <= set(re.findall(r"[\w-]+", SCRIPT.read_text()))
