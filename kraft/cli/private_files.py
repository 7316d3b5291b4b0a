"""Files of a user with secrets in them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import IO, Any, Final

from kraft.cli.printing import say

_OF_OTHERS: Final = 0o077
"""The permissions of others in a file's mode."""


def say_if_others_can_read(opened: IO[Any], file: Path) -> None:
    """Print a line if others can read the file, or could change it. A pipe is nobody else's."""
    status = os.fstat(opened.fileno())
    mode = stat.S_IMODE(status.st_mode)
    if mode & _OF_OTHERS and stat.S_ISREG(status.st_mode):
        say(f"kraft: {file} can be read by others (mode {mode:04o}): chmod 600 {file}")
