"""Ends a node when its launcher ends, even by SIGKILL.

The launcher holds the writing end of a pipe, the node the reading end. Nothing is ever written: when the launcher
ends, the kernel closes its end, and the node reads the end of the file. (Linux could send a signal instead,
PR_SET_PDEATHSIG, but it watches the thread that started the node, not the process: a launcher that starts nodes from a
short-lived thread would lose them.)
"""

from __future__ import annotations

import os
import signal
import stat
import threading
import time
from typing import Final

ENVIRONMENT_VARIABLE: Final = "KRAFT_LIFELINE"
"""Number of the file descriptor to read from; set by the launcher, absent without one."""

_GRACE_S: Final = 10.0


def follow_launcher() -> None:
    """Stop this process when its launcher is gone: SIGTERM, ten seconds later SIGKILL. Without one, do nothing."""
    descriptor = _descriptor(os.environ.pop(ENVIRONMENT_VARIABLE, ""))
    if descriptor is None:
        return
    # Processes that the node starts must not hold the pipe.
    os.set_inheritable(descriptor, False)
    threading.Thread(target=_wait_for_end, args=(descriptor,), name="lifeline", daemon=True).start()


def _descriptor(text: str) -> int | None:
    """Return the descriptor if it is a pipe: the variable may be inherited from another process."""
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
