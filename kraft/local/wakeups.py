"""Waiting for a request to stop, or for the end of a child, without polling."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

_STOPPING: Final = (signal.SIGTERM, signal.SIGINT)


class Wakeups:
    """Context manager that takes over SIGTERM, SIGINT and SIGCHLD. For the main thread."""

    def __init__(self) -> None:
        self.stop_requested = False
        self._reading_end, self._writing_end = os.pipe()
        os.set_blocking(self._writing_end, False)
        os.set_blocking(self._reading_end, False)

    def wait(self, timeout_s: float | None, files: Sequence[int] = ()) -> None:
        """Return at the next signal, when one of these descriptors can be read, or after this time (None: no limit).

        A signal that came before the call counts.
        """
        if self.stop_requested:
            return
        ready, _, _ = select.select([self._reading_end, *files], [], [], timeout_s)
        if self._reading_end in ready:
            os.read(self._reading_end, 4_096)

    def __enter__(self) -> Self:
        signal.set_wakeup_fd(self._writing_end, warn_on_full_buffer=False)
        for number in (*_STOPPING, signal.SIGCHLD):
            signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(-1)
        # A further request to stop has nothing left to stop.
        for number in (*_STOPPING, signal.SIGCHLD):
            signal.signal(number, signal.SIG_IGN if number in _STOPPING else signal.SIG_DFL)
        os.close(self._reading_end)
        os.close(self._writing_end)

    def _note(self, number: int, _frame: object) -> None:
        self.stop_requested = self.stop_requested or number in _STOPPING
