"""The audit log of a broker: JSON lines in a file, which a thread writes.

Requests only put events in a queue. What the disk does not take, and what does not fit in the queue, is lost: lost
lines are counted, and the next line that can be written says how many there are.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

import structlog

from kraft.runtime.clock import Clock
from kraft.runtime.disk import make_directories, open_privately
from kraft.server.access.audit import AuditEvent, FailureCounts, line_of, line_of_count, line_of_lost
from kraft.server.config.access_settings import AuditSettings

log = structlog.get_logger()

EVENTS_WAITING_MAX: Final = 20_000
"""Events in the queue: of about a kilobyte each at most."""

EVENTS_AT_ONCE: Final = 500
"""Events whose lines are made and written together."""

TICK_S: Final = 0.5
"""Longest time until a finished second is looked at."""

CLOSE_S_MAX: Final = 5.0
"""Longest time that the end of a node waits for a disk that does not answer."""


class AuditFile:
    """The file, which is renamed when it is full; so many renamed ones are kept."""

    def __init__(self, path: Path, *, bytes_max: int, backups_max: int) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._backups_max = backups_max
        self._file: BinaryIO | None = None
        self._size = 0

    def write(self, lines: bytes) -> None:
        """Write whole lines. Raises OSError, and then none of them is in the file, or the file begins anew."""
        if self._file is None:
            self._open()
        if self._size and self._size + len(lines) > self._bytes_max:
            self.close()
            self._rename()
            self._open()
        assert self._file is not None
        try:
            # Not buffered: it may write less than all.
            rest = memoryview(lines)
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            self._take_back()
            raise
        self._size += len(lines)

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _open(self) -> None:
        make_directories(self._path.parent)
        self._file = open(self._path, "a+b", buffering=0, opener=open_privately)  # noqa: SIM115  `close` closes it.
        self._size = os.fstat(self._file.fileno()).st_size
        if self._size and os.pread(self._file.fileno(), 1, self._size - 1) != b"\n":
            # The process was killed in the middle of a line.
            self._size += self._file.write(b"\n")

    def _take_back(self) -> None:
        """Remove what was written of lines that are lost, so that every line of the file is a whole one."""
        assert self._file is not None
        try:
            os.ftruncate(self._file.fileno(), self._size)
        except OSError as error:
            log.warning("audit log has half a line", path=str(self._path), reason=str(error))
            self.close()

    def _rename(self) -> None:
        for number in range(self._backups_max - 1, 0, -1):
            if (older := self._backup(number)).exists():
                older.replace(self._backup(number + 1))
        self._path.replace(self._backup(1))

    def _backup(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


class AuditLog:
    def __init__(self, settings: AuditSettings, clock: Clock) -> None:
        assert settings.path is not None, "the audit is off"
        self._clock = clock
        self._path = settings.path
        self._file = AuditFile(settings.path, bytes_max=settings.bytes_max, backups_max=settings.backups_max)
        self._lock = threading.Lock()
        """Held for as long as it takes to look something up, never while the disk works."""

        self._failures = FailureCounts()
        self._waiting: deque[tuple[int, AuditEvent]] = deque()
        self._lost = 0
        self._has_work = threading.Event()
        self._is_closing = False
        self._is_failing = False
        self._thread = threading.Thread(target=self._run, name="audit-log", daemon=True)
        self._thread.start()

    def note(self, event: AuditEvent, times: int = 1) -> None:
        """Have an event that happened so many times written, or counted."""
        with self._lock:
            if not self._failures.has_line(event, self._clock.monotonic_ms(), times):
                return
            if len(self._waiting) >= EVENTS_WAITING_MAX:
                self._lost += 1
                return
            self._waiting.append((self._clock.wall_ms(), event))
        self._has_work.set()

    def close(self) -> None:
        """Write what waits; call it in a thread. A disk that does not answer is not waited for longer than a while."""
        self._is_closing = True
        self._has_work.set()
        self._thread.join(CLOSE_S_MAX)
        if self._thread.is_alive():
            log.warning("audit log not closed, its disk does not answer", path=str(self._path))

    def _run(self) -> None:
        while not self._is_closing:
            self._has_work.wait(TICK_S)
            self._has_work.clear()
            self._write_all()
        self._write_all(ends=True)
        self._file.close()

    def _write_all(self, *, ends: bool = False) -> None:
        while True:
            lines = self._next_lines(ends=ends)
            if not (lines or self._lost) or not self._write(lines):
                return

    def _next_lines(self, *, ends: bool) -> list[bytes]:
        with self._lock:
            events = [self._waiting.popleft() for _ in range(min(len(self._waiting), EVENTS_AT_ONCE))]
            counts = self._failures.ended(self._clock.monotonic_ms(), all_of_them=ends)
        now = _text_of(self._clock.wall_ms())
        lines = [line_of(event, _text_of(wall_ms)) for wall_ms, event in events]
        return lines + [line_of_count(client, count, now) for client, count in counts]

    def _write(self, lines: list[bytes]) -> bool:
        """Write lines, after the number of those that are lost. Return False if these are lost, too."""
        with self._lock:
            lost, self._lost = self._lost, 0
        first = [line_of_lost(lost, _text_of(self._clock.wall_ms()))] if lost else []
        try:
            self._file.write(b"".join(first + lines))
        except OSError as error:
            with self._lock:
                self._lost += lost + len(lines)
            if not self._is_failing:
                log.error("audit log cannot be written to, lines are lost", path=str(self._path), reason=str(error))
            self._is_failing = True
            return False
        if self._is_failing:
            log.info("audit log written to again", path=str(self._path), lost=lost)
        self._is_failing = False
        return True


def audit_log(settings: AuditSettings, clock: Clock) -> AuditLog | None:
    """Return the audit log of a broker with these settings; None if it is off."""
    return None if settings.path is None else AuditLog(settings, clock)


def _text_of(wall_ms: int) -> str:
    return datetime.fromtimestamp(wall_ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
