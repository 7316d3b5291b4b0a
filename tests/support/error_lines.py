"""What tests of error messages need: the one line that a user sees, and a configuration with an error."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

_WAITS: Final = re.compile(
    r"; trying again for up to \d+ s$|^(no|one) broker has( not)? answered for |^Waiting for node "
)
"""Lines of a command that waits for longer than usual, as on a machine that is busy with other tests."""


def the_one_line(finished: subprocess.CompletedProcess[str]) -> str:
    """Return the only line that is neither a log line of the node nor says that the command waits."""
    lines = [line for line in finished.stderr.splitlines() if not (line.startswith("{") or _WAITS.search(line))]
    assert finished.returncode == 1, finished.stderr
    assert len(lines) == 1, finished.stderr
    assert lines[0].startswith("kraft: ")
    return lines[0]


def replace(config: Path, old: str, new: str) -> None:
    text = config.read_text()
    assert old in text
    config.write_text(text.replace(old, new))
