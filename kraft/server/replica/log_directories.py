"""Which log directories of a broker are in use, and which have failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType


class LogDirectories:
    """Directories are texts, as a Disk takes them. One that has failed is never used again in this process.

    What the disk did with bytes that it failed to write or to sync is not known, and an operating system tells of such
    a failure once: a second try that succeeds would prove nothing.
    """

    def __init__(self, online: Sequence[str], offline: Mapping[str, str] | None = None) -> None:
        """`offline` are those that could not be used at the start, each with the reason."""
        assert online, "a broker needs a log directory"
        self._online = tuple(online)
        self._offline = dict(offline or {})

    @property
    def online(self) -> tuple[str, ...]:
        """In the order of log.dirs."""
        return self._online

    @property
    def offline(self) -> Mapping[str, str]:
        """Those out of use, each with the reason."""
        return MappingProxyType(self._offline)

    def is_online(self, directory: str) -> bool:
        return directory in self._online

    def fail(self, directory: str, reason: str) -> bool:
        """Takes it out of use. False when it was already."""
        if directory not in self._online:
            return False
        self._online = tuple(other for other in self._online if other != directory)
        self._offline[directory] = reason
        return True
