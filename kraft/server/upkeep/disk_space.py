"""Keeps free space on the disks of the logs: appends are refused below the limit; everything else continues.

A disk that runs full during a write leaves a part of it behind, and has no room for the checkpoints and indexes that a
broker must write. So appends are refused before the disk is full.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import structlog

from kraft.log.disk import Disk
from kraft.model.callbacks import NowMs
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import LogDirectory

log = structlog.get_logger()

RECHECK_AFTER_MS: Final = 100
RECHECK_AFTER_BYTES: Final = 4 << 20
"""Free space is measured again after this time, or after this much was appended, whichever comes first."""


@dataclass(slots=True, kw_only=True)
class _Measurement:
    at_ms: int
    free_bytes: int
    appended_bytes: int = 0
    """Bytes appended since."""
    error: str = ""
    """Reason why the free space could not be read; empty if it could."""
    is_full: bool = False
    unmeasured_bytes_max: int = 0
    """How much may be appended before the next measurement; on a full disk only time leads to one."""


class DiskSpace:
    """Free space of any number of log directories. Used on the loop only; times are monotonic milliseconds."""

    def __init__(self, disk: Disk, free_bytes_min: int, monotonic_ms: NowMs) -> None:
        """A `free_bytes_min` of 0 admits every append."""
        self._disk = disk
        self._free_bytes_min = free_bytes_min
        self._monotonic_ms = monotonic_ms
        self._measured: dict[LogDirectory, _Measurement] = {}

    def admit(self, directory: LogDirectory, size_bytes: int) -> None:
        """Check the free space before an append of that many bytes to a log in that directory.

        Raises Refusal KAFKA_STORAGE_ERROR, which is retriable, while less than the minimum is free. One append may go
        below the minimum; the next one is refused.
        """
        if self._free_bytes_min == 0:
            return
        latest = self._check(directory)
        if latest.is_full:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, self._shortage(directory, latest))
        latest.appended_bytes += size_bytes

    def recheck(self) -> None:
        """Measure again, so that the end of a shortage is noticed without an append. Call it periodically."""
        for directory in list(self._measured):
            self._check(directory)

    def free_bytes(self) -> dict[LogDirectory, int]:
        """Return the free space that was measured last, of directories to which something was appended."""
        return {directory: latest.free_bytes for directory, latest in self._measured.items() if not latest.error}

    def is_full(self, directory: LogDirectory) -> bool:
        """Return whether the latest measurement found too little free space."""
        latest = self._measured.get(directory)
        return latest is not None and latest.is_full

    def shortage(self, directory: LogDirectory) -> str:
        """Return why appends are refused, by the latest measurement; empty while they are not."""
        latest = self._measured.get(directory)
        return "" if latest is None or not latest.is_full else self._shortage(directory, latest)

    def _check(self, directory: LogDirectory) -> _Measurement:
        latest, now_ms = self._measured.get(directory), self._monotonic_ms()
        if (
            latest is not None
            and now_ms - latest.at_ms < RECHECK_AFTER_MS
            and latest.appended_bytes < latest.unmeasured_bytes_max
        ):
            return latest
        was_full = latest is not None and latest.is_full
        latest = self._measured[directory] = self._measure(directory, now_ms)
        latest.is_full = was_full
        latest.unmeasured_bytes_max = min(RECHECK_AFTER_BYTES, max(1, latest.free_bytes - self._free_bytes_min))
        self._update(directory, latest)
        return latest

    def _measure(self, directory: LogDirectory, now_ms: int) -> _Measurement:
        try:
            return _Measurement(at_ms=now_ms, free_bytes=self._disk.free_bytes(directory))
        except OSError as error:
            return _Measurement(at_ms=now_ms, free_bytes=0, error=str(error))

    def _update(self, directory: LogDirectory, latest: _Measurement) -> None:
        is_full = bool(latest.error) or latest.free_bytes < self._free_bytes_min
        if is_full and not latest.is_full:
            event = "free disk space unknown, appends refused" if latest.error else "disk full, appends refused"
            log.warning(event, directory=directory, reason=self._shortage(directory, latest))
        elif latest.is_full and not is_full:
            log.info("disk space recovered", directory=directory, free_bytes=latest.free_bytes)
        latest.is_full = is_full

    def _shortage(self, directory: LogDirectory, latest: _Measurement) -> str:
        if latest.error:
            return f"the free space on the disk of {directory} cannot be read: {latest.error}"
        return (
            f"the disk of {directory} has {latest.free_bytes:,} bytes free, below"
            f" log.free.space.min.bytes={self._free_bytes_min:,}; free some space, or lower that"
        )
