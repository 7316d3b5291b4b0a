"""The `kraft` command without a cluster, for tests of its error messages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import kraft


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kraft", *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(Path(kraft.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def the_one_line(finished: subprocess.CompletedProcess[str]) -> str:
    """Return the only line that is not a log line of the node."""
    lines = [line for line in finished.stderr.splitlines() if not line.startswith("{")]
    assert finished.returncode == 1, finished.stderr
    assert len(lines) == 1, finished.stderr
    assert lines[0].startswith("kraft: ")
    return lines[0]


def replace(config: Path, old: str, new: str) -> None:
    text = config.read_text()
    assert old in text
    config.write_text(text.replace(old, new))
