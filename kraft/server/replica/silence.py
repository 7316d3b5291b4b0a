"""For how long somebody has not answered."""

from __future__ import annotations

from kraft.server.loop.periods import loop_time_s


class Silence:
    def __init__(self) -> None:
        self._since_s: float | None = None

    @property
    def seconds(self) -> float:
        """Return the time since the first of the failures without an answer between them; 0 after an answer."""
        return 0.0 if self._since_s is None else loop_time_s() - self._since_s

    def failed(self) -> None:
        """Note that an answer did not come."""
        if self._since_s is None:
            self._since_s = loop_time_s()

    def answered(self) -> None:
        self._since_s = None
