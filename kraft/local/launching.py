"""How nodes are started: a command with its output in a file, and one descriptor that it inherits."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Final, Protocol

import kraft

KRAFT: Final = (sys.executable, "-m", "kraft")

PROCESS_OPTION: Final = "--process"
"""Followed by the number of the process, from 0 on, that is started from a file with several processes."""


class Process(Protocol):
    """The part of `subprocess.Popen` that nodes need."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, number: int, /) -> None: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


Launch = Callable[[Sequence[str], IO[bytes], int, str], Process]
"""Starts a command in a session of its own. It inherits a descriptor, whose number is in the given variable."""


def launch(command: Sequence[str], output: IO[bytes], passed: int, passed_in: str) -> Process:
    """Start a command in a new process. `output` takes what it prints and its errors."""
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=environment() | {passed_in: str(passed)},
        pass_fds=(passed,),
        start_new_session=True,
    )


def environment() -> dict[str, str]:
    """Return this process' environment, with a PYTHONPATH on which a node finds this package."""
    root = str(Path(kraft.__file__).parents[1])
    if root == sysconfig.get_path("purelib"):
        return dict(os.environ)
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))}
