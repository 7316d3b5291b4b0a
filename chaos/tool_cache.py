"""Cache of other people's programs, built or downloaded once for each user of a machine."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parents[1]


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """The file or directory `name` of the cache; `make` is called with the path to make it at if it is not there.

    `make` may leave other files beside that path; they are removed. Other processes that ask meanwhile wait for it, so
    it needs a deadline. What it raises they do not get: the next one tries again. `name` has to change with what is
    made. Raises OSError when there is nowhere to write to.
    """
    directory = _directory()
    made = directory / name
    if made.exists():
        return made
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            # It appears whole or not at all, also when this process is killed.
            with tempfile.TemporaryDirectory(dir=directory) as temporary:
                unfinished = Path(temporary) / "made"
                make(unfinished)
                unfinished.rename(made)
    return made


def _directory() -> Path:
    """Return the user's cache directory, or one in this source tree if that cannot be written to."""
    try:
        directory = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kraft"
        directory.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        # RuntimeError: there is no home directory.
        return _ROOT / ".tools"
    return directory if os.access(directory, os.W_OK) else _ROOT / ".tools"
