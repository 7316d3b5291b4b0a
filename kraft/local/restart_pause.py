"""The pause before a process is started again."""

from __future__ import annotations

from typing import Final

PAUSE_MIN_S: Final = 1.0
PAUSE_MAX_S: Final = 30.0

STEADY_S: Final = 60.0
"""Lifetime after which a process counts as healthy: its next end begins a new series."""


class RestartPause:
    """Doubles with each end of the process, and is short again after a life of STEADY_S."""

    def __init__(self) -> None:
        self._next_s = PAUSE_MIN_S

    def after(self, lived_s: float) -> float:
        """Return the pause after the end of a process that lived so long."""
        pause_s = PAUSE_MIN_S if lived_s >= STEADY_S else self._next_s
        self._next_s = min(2 * pause_s, PAUSE_MAX_S)
        return pause_s
