"""A node that was started by a launcher ends with it, however the launcher ends.

The launcher holds the writing end of a pipe, the node the reading end. Nothing is ever written: when the launcher
is gone, even by SIGKILL, the kernel closes its end and the node reads the end of the file. (Linux could send a
signal instead, PR_SET_PDEATHSIG, but it watches the thread that started the node, not the process: a launcher
that starts nodes from a short-lived thread would lose them.)
"""

from __future__ import annotations

import os
import signal
import stat
import threading
import time
from typing import Final

ENVIRONMENT_VARIABLE: Final = "KRAFT_LIFELINE"
"""Number of the file descriptor to read from; set by the launcher, absent for a node on its own."""

_GRACE_S: Final = 10.0


def follow_launcher() -> None:
    """Stop this process when its launcher is gone: SIGTERM, ten seconds later SIGKILL. Without one: nothing."""
    descriptor = _descriptor(os.environ.pop(ENVIRONMENT_VARIABLE, ""))
    if descriptor is None:
        return
    # What the node itself may start must not hold the pipe.
    os.set_inheritable(descriptor, False)
    threading.Thread(target=_wait_for_end, args=(descriptor,), name="lifeline", daemon=True).start()


def _descriptor(text: str) -> int | None:
    """The descriptor, when it is a pipe indeed: the variable may have been inherited from further up."""
    try:
        descriptor = int(text)
        return descriptor if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else None
    except (ValueError, OSError):
        return None


def _wait_for_end(descriptor: int) -> None:
    while os.read(descriptor, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE_S)
    os.kill(os.getpid(), signal.SIGKILL)
