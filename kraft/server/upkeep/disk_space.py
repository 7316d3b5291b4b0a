"""Keeps head-room on the disks of the logs: nothing is appended while too little is free, and all the rest goes on.

A file system that runs full in the middle of a write leaves half of it behind, and has no room for the checkpoints and
indexes either that a broker writes to stay whole. So appends are refused before it is full.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from kraft.log.disk import Disk
from kraft.model.errors import ErrorCode, Refusal

log = structlog.get_logger()

LOOK_AGAIN_AFTER_MS: Final = 100
LOOK_AGAIN_AFTER_BYTES: Final = 4 << 20
"""A disk is asked what is free after so long, or after so much was appended since, whichever comes first."""


@dataclass(slots=True, kw_only=True)
class _Seen:
    at_ms: int
    free_bytes: int
    appended_bytes: int = 0
    """Since then."""
    trouble: str = ""
    """Why what is free could not be read; empty when it could."""
    is_full: bool = False


class DiskSpace:
    """Of any number of log directories. Belongs to the loop; times are monotonic milliseconds."""

    def __init__(self, disk: Disk, free_bytes_min: int, monotonic_ms: Callable[[], int]) -> None:
        """With `free_bytes_min` 0 everything is admitted."""
        self._disk = disk
        self._free_bytes_min = free_bytes_min
        self._monotonic_ms = monotonic_ms
        self._seen: dict[str, _Seen] = {}

    def admit(self, directory: str, size_bytes: int) -> None:
        """To be called before so many bytes are appended to a log in that directory.

        Raises Refusal KAFKA_STORAGE_ERROR, which is retriable, while less is free than there has to be. One append may
        reach into the head-room; the next one is refused.
        """
        if self._free_bytes_min == 0:
            return
        seen = self._look(directory)
        if seen.is_full:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, self._told(directory, seen))
        seen.appended_bytes += size_bytes

    def look_again(self) -> None:
        """Notices the end of a shortage though nobody appends: to be called from time to time."""
        for directory in list(self._seen):
            self._look(directory)

    def is_full(self, directory: str) -> bool:
        """As `admit` last found it."""
        seen = self._seen.get(directory)
        return seen is not None and seen.is_full

    def _look(self, directory: str) -> _Seen:
        seen, now_ms = self._seen.get(directory), self._monotonic_ms()
        if seen is None:
            seen = self._seen[directory] = self._measure(directory, now_ms)
        elif now_ms - seen.at_ms >= LOOK_AGAIN_AFTER_MS or seen.appended_bytes >= self._unmeasured_bytes_max(seen):
            was_full = seen.is_full
            seen = self._seen[directory] = self._measure(directory, now_ms)
            seen.is_full = was_full
        self._judge(directory, seen)
        return seen

    def _unmeasured_bytes_max(self, seen: _Seen) -> int:
        """While it is full nothing is appended, so that only time leads to another look."""
        return min(LOOK_AGAIN_AFTER_BYTES, max(1, seen.free_bytes - self._free_bytes_min))

    def _measure(self, directory: str, now_ms: int) -> _Seen:
        try:
            return _Seen(at_ms=now_ms, free_bytes=self._disk.free_bytes(directory))
        except OSError as error:
            return _Seen(at_ms=now_ms, free_bytes=0, trouble=str(error))

    def _judge(self, directory: str, seen: _Seen) -> None:
        is_full = bool(seen.trouble) or seen.free_bytes < self._free_bytes_min
        if is_full and not seen.is_full:
            log.warning("disk full, appends refused", reason=self._told(directory, seen))
        elif seen.is_full and not is_full:
            log.info("disk space recovered", directory=directory, free_bytes=seen.free_bytes)
        seen.is_full = is_full

    def _told(self, directory: str, seen: _Seen) -> str:
        if seen.trouble:
            return f"what is free on the disk of {directory} cannot be read: {seen.trouble}"
        return (
            f"the disk of {directory} has {seen.free_bytes} bytes free, "
            f"below log.free.space.min.bytes={self._free_bytes_min}"
        )
