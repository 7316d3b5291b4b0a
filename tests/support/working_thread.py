"""A thread that works beside a run until the run is over."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class WorkingThread(ABC):
    """A context manager whose thread works inside of the block and is stopped at its end."""

    def __init__(self, name: str, stop_deadline_s: float) -> None:
        self._stopping = threading.Event()
        self._stop_deadline_s = stop_deadline_s
        self._crash: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abstractmethod
    def _work(self) -> None:
        """Do the work; return soon after `_stopping` is set."""

    def check(self) -> None:
        """Raise the error that ended the thread, if there is one."""
        if self._crash is not None:
            raise self._crash

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001  `check` raises it in the caller's thread.
            self._crash = error

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join(self._stop_deadline_s)
