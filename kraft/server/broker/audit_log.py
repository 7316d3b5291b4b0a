"""The audit log of a broker: JSON lines that a thread makes, and writes into a file, or hands to the sender of a topic.

Requests only put events in a queue. What the disk does not take, and what does not fit in the queue, is lost: lost
lines are counted, and the next line that can be written says how many there are.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final, Protocol

import structlog

from kraft.runtime.clock import Clock
from kraft.runtime.disk import make_directories, open_privately
from kraft.server.access.audit import AuditEvent, FailureCounts, line_of, line_of_count, line_of_lost
from kraft.server.config.access_settings import AuditSettings
from kraft.server.config.loading import ConfigError

log = structlog.get_logger()

EVENTS_WAITING_MAX: Final = 20_000
"""Events in the queue: of about a kilobyte each at most."""

EVENTS_AT_ONCE: Final = 500
"""Events whose lines are made and written together."""

TICK_S: Final = 0.5
"""Longest time until a finished second is looked at."""

SAID_AGAIN_AFTER_MS: Final = 60_000
"""Events for which there was no room are said in one line of the log in this time."""

CLOSE_S_MAX: Final = 5.0
"""Longest time that the end of a node waits for a disk that does not answer."""


class Lines(Protocol):
    """A second place for the lines."""

    def put(self, lines: Sequence[bytes], dropped: int) -> None:
        """Take lines, behind so many that are missing. It waits for nothing; a thread calls it."""


class AuditFile:
    """The file, which is renamed when it is full; so many renamed ones are kept."""

    def __init__(self, path: Path, *, bytes_max: int, backups_max: int) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._backups_max = backups_max
        self._file: BinaryIO | None = None
        self._size = 0

    def check(self) -> None:
        """Raise OSError if it cannot be opened."""
        self._open()
        self.close()

    def write(self, lines: bytes) -> None:
        """Write whole lines. Raises OSError, and then none of them is in the file, or the file begins anew."""
        self._follow()
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

    def _follow(self) -> None:
        """Begin a new file if somebody has renamed or removed this one, and go on at the end of one that was cut."""
        if self._file is None:
            return
        opened = os.fstat(self._file.fileno())
        try:
            named = os.stat(self._path)
        except FileNotFoundError:
            self.close()
            return
        if (named.st_dev, named.st_ino) != (opened.st_dev, opened.st_ino):
            self.close()
        self._size = opened.st_size

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
    def __init__(self, settings: AuditSettings, clock: Clock, topic: Lines | None = None) -> None:
        assert settings.path is not None or topic is not None, "the audit is off"
        self._clock = clock
        self._path = settings.path
        self._file = None
        if settings.path is not None:
            self._file = AuditFile(settings.path, bytes_max=settings.bytes_max, backups_max=settings.backups_max)
        self._topic = topic
        self._lock = threading.Lock()
        """Held for as long as it takes to look something up, never while the disk works."""

        self._failures = FailureCounts()
        self._waiting: deque[tuple[int, AuditEvent]] = deque()
        self._dropped = 0
        """Events for which there was no room, since the last lines were made."""

        self._lost = 0
        """Lines that are not in the file, since a line of it last said how many."""

        self.dropped_count = 0
        """Events since the start for which there was no room, so that they are in no place."""

        self.unwritten_count = 0
        """Lines since the start that the file did not take."""

        self._said_ms: int | None = None
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
                self._dropped += 1
                self.dropped_count += 1
                return
            self._waiting.append((self._clock.wall_ms(), event))
        self._has_work.set()

    @property
    def is_idle(self) -> bool:
        """True if every event has become a line."""
        return not self._waiting

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
        if self._file is not None:
            self._file.close()

    def _write_all(self, *, ends: bool = False) -> None:
        while True:
            lines, dropped = self._next_lines(ends=ends)
            if dropped:
                self._say_dropped()
            if self._topic is not None and (lines or dropped):
                self._topic.put(lines, dropped)
            if self._file is None:
                if not (lines or dropped):
                    return
                continue
            self._lost += dropped
            if not (lines or self._lost) or not self._write(self._file, lines):
                return

    def _next_lines(self, *, ends: bool) -> tuple[list[bytes], int]:
        """Return the next lines, and how many are missing before them."""
        with self._lock:
            events = [self._waiting.popleft() for _ in range(min(len(self._waiting), EVENTS_AT_ONCE))]
            counts = self._failures.ended(self._clock.monotonic_ms(), all_of_them=ends)
            dropped, self._dropped = self._dropped, 0
        now = text_of(self._clock.wall_ms())
        lines = [line_of(event, text_of(wall_ms)) for wall_ms, event in events]
        return lines + [line_of_count(client, count, now) for client, count in counts], dropped

    def _say_dropped(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._said_ms is None or now_ms - self._said_ms >= SAID_AGAIN_AFTER_MS:
            self._said_ms = now_ms
            log.warning("audit lines lost, they come too fast", lost_since_start=self.dropped_count)

    def _write(self, file: AuditFile, lines: list[bytes]) -> bool:
        """Write lines, after the number of those that are lost. Return False if these are lost, too."""
        lost = self._lost
        first = [line_of_lost(lost, text_of(self._clock.wall_ms()))] if lost else []
        try:
            file.write(b"".join(first + lines))
        except OSError as error:
            self._lost += len(lines)
            self.unwritten_count += len(lines)
            if not self._is_failing:
                log.error("audit log cannot be written to, lines are lost", path=str(self._path), reason=str(error))
            self._is_failing = True
            return False
        self._lost = 0
        if self._is_failing:
            log.info("audit log written to again", path=str(self._path), lost=lost)
        self._is_failing = False
        return True


def audit_log(settings: AuditSettings, clock: Clock, topic: Lines | None = None) -> AuditLog | None:
    """Return the audit log of a broker with these settings; None if it is off."""
    return None if settings.path is None and topic is None else AuditLog(settings, clock, topic)


def check_audit_file(settings: AuditSettings) -> None:
    """Raise ConfigError if there is to be a file, and it cannot be opened.

    Whoever asks for an audit must not find out later that there was none.
    """
    if settings.path is None:
        return
    try:
        AuditFile(settings.path, bytes_max=settings.bytes_max, backups_max=settings.backups_max).check()
    except OSError as error:
        remedy = "let the user of the node write there, or choose another path"
        raise ConfigError(f"audit.log.path: cannot write to {settings.path} ({error.strerror}): {remedy}") from error


def text_of(wall_ms: int) -> str:
    """Return a time as lines have it."""
    return datetime.fromtimestamp(wall_ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
