"""Open files in reserve, for the disk of a node whose process has no more of them.

A limit of open files says nothing about a disk: nothing was written, and nothing is lost. So an open that fails for it
is tried again, at first with a file of the reserve, then, in a thread of the disk, until others have been closed.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

import structlog

from kraft.log.disk import lacks_files
from kraft.model.callbacks import NowS

log = structlog.get_logger()

Opened = TypeVar("Opened")

SPARE_FILES: Final = 16

RETRY_S: Final = 0.05

WARN_S: Final = 60.0
"""How often an open that waits for a file says so. A thread of the disk waits as it waits for a disk that hangs:
nothing has failed, and to give up would take a healthy log directory offline."""


Opens = Callable[[], Opened]
"""Opens files. May be called again after an OSError."""


class SpareFiles:
    """Files that are open for nothing, until one is needed. Any thread may use it."""

    def __init__(
        self, count: int = SPARE_FILES, sleep: Callable[[float], None] = time.sleep, monotonic_s: NowS = time.monotonic
    ) -> None:
        self._count = count
        self._sleep = sleep
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._spare: list[int] = []
        self._fill()

    def opening(self, opens: Opens[Opened]) -> Opened:
        """Return what `opens` returns. It is called again if the process cannot open files: it must be repeatable.

        Raises its OSError if the reserve is used up, but only on the event loop, which closes connections and so must
        not wait: the caller tries again later.
        """
        is_loop = threading.current_thread() is threading.main_thread()
        warned_s = None
        while True:
            try:
                opened = opens()
            except OSError as error:
                if not lacks_files(error):
                    raise
                # The other half is for the event loop.
                if self._give_one_up(leaving=0 if is_loop else self._count // 2):
                    continue
                if is_loop:
                    raise
                now_s = self._monotonic_s()
                if warned_s is None or now_s - warned_s >= WARN_S:
                    warned_s = now_s
                    log.warning("open file limit reached", reason=str(error), remedy="raise the limit of open files")
                self._sleep(RETRY_S)
            else:
                if len(self._spare) < self._count:
                    self._fill()
                return opened

    def _give_one_up(self, leaving: int) -> bool:
        with self._lock:
            if len(self._spare) <= leaving:
                return False
            os.close(self._spare.pop())
            return True

    def _fill(self) -> None:
        """Open what is missing, as far as that is possible now."""
        with self._lock:
            try:
                while len(self._spare) < self._count:
                    self._spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            except OSError as error:
                if not lacks_files(error):
                    raise

    def close(self) -> None:
        with self._lock:
            while self._spare:
                os.close(self._spare.pop())
