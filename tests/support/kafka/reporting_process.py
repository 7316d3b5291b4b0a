"""A client in a process of its own that reports what it does, a line for each event; it can be killed and paused."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Final, Generic, Protocol, TypeAlias, TypeVar

from kraft.local.forked_processes import ForkedProcess, ForkServer

STOP_DEADLINE_S: Final = 60.0
_TAIL_LINES: Final = 20

Running: TypeAlias = ForkedProcess | subprocess.Popen[bytes]


class Reported(Protocol):
    """An event of any kind; `error` is empty unless it is a failure."""

    @property
    def event(self) -> str: ...

    @property
    def error(self) -> str: ...


Reports = TypeVar("Reports", bound=Reported)


class ReportingProcess(Generic[Reports]):
    """A running process. `events` grows while it runs."""

    def __init__(
        self,
        name: str,
        directory: Path,
        start: Callable[[IO[bytes]], tuple[Running, IO[bytes]]],
        event: Callable[[bytes], Reports | None],
        stopped_code: int = 0,
    ) -> None:
        """`start` gets the file for errors, and returns the process with its output, whose lines `event` decodes."""
        self.name = name
        self.events: list[Reports] = []
        self.is_paused = False
        self._event = event
        self._stopped_code = stopped_code
        self._errors_path = directory / f"{name}.errors"
        with self._errors_path.open("wb") as errors:
            self._process, output = start(errors)
        self._reader = threading.Thread(target=self._collect, args=(output,), daemon=True)
        self._reader.start()

    @property
    def is_running(self) -> bool:
        return self.exit_code is None

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def check(self) -> None:
        """Raise AssertionError with the end of its errors if it has ended."""
        code = self.exit_code
        assert code is None, f"{self.name} ended with code {code}:\n{self.errors_tail()}"

    def errors_tail(self) -> str:
        return "\n".join(self._errors_path.read_text(errors="replace").splitlines()[-_TAIL_LINES:])

    def wait_failed(self, error: str) -> None:
        """Wait until the client has reported an error with this text."""
        until_s = time.monotonic() + STOP_DEADLINE_S
        while not any(error in each.error for each in tuple(self.events) if each.event == "failed"):
            assert time.monotonic() < until_s, f"{self.name} did not fail within {STOP_DEADLINE_S:g} s"
            # Polled: another thread collects what the process reports.
            time.sleep(0.05)

    def stop(self) -> None:
        """It ends in order. Raises AssertionError if it does not, or not with the code that it has then."""
        self.resume()
        self._process.terminate()
        try:
            code = self._process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} did not end within {STOP_DEADLINE_S:g} s of SIGTERM") from None
        self.collect_rest()
        assert code == self._stopped_code, f"{self.name} ended with code {code}:\n{self.errors_tail()}"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(STOP_DEADLINE_S)
        self.collect_rest()
        self.is_paused = False

    def collect_rest(self) -> None:
        """Wait until all events of a process that has ended are there."""
        self._reader.join(STOP_DEADLINE_S)

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        if self.is_paused:
            self._process.send_signal(signal.SIGCONT)
            self.is_paused = False

    def _collect(self, lines: IO[bytes]) -> None:
        with lines:
            for line in lines:
                if (found := self._event(line)) is not None:
                    self.events.append(found)


def forked(server: ForkServer, command: Sequence[str], errors: IO[bytes]) -> tuple[ForkedProcess, IO[bytes]]:
    """Start a command of Python; return its process and its output."""
    reading_end, writing_end = os.pipe()
    output = os.fdopen(reading_end, "rb")
    with os.fdopen(writing_end, "wb") as its_output, open(os.devnull, "rb") as nothing:
        return server.start(command, nothing, its_output, errors), output
