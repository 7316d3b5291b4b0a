"""The log directories of a broker: which are online, and which have failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from kraft.model.ids import LogDirectory


class LogDirectories:
    """Log directories by path. One that has failed is never used again in this process.

    After a failed write or sync the state of the bytes is unknown, and the operating system reports the error once: a
    retry that succeeds would prove nothing.
    """

    def __init__(self, online: Sequence[LogDirectory], offline: Mapping[LogDirectory, str]) -> None:
        """`offline` has the directories that could not be used at the start, each with the reason."""
        assert online, "a broker needs a log directory"
        self._online = tuple(online)
        self._offline = dict(offline)

    @property
    def online(self) -> tuple[LogDirectory, ...]:
        """Directories in use, in the order of log.dirs."""
        return self._online

    @property
    def offline(self) -> Mapping[LogDirectory, str]:
        """Directories out of use, each with the reason."""
        return MappingProxyType(self._offline)

    def is_online(self, directory: LogDirectory) -> bool:
        return directory in self._online

    def fail(self, directory: LogDirectory, reason: str) -> bool:
        """Take the directory offline. Return False if it was offline already."""
        if directory not in self._online:
            return False
        self._online = tuple(other for other in self._online if other != directory)
        self._offline[directory] = reason
        return True


def as_log_directory(path: Path) -> LogDirectory:
    """Return the path of a log directory as text, as the disk interface takes it."""
    return LogDirectory(str(path))
