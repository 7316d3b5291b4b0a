"""What tests of error messages need: the one line that a user sees, and a configuration with an error."""

from __future__ import annotations

import subprocess
from pathlib import Path


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
