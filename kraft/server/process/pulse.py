"""The pulse of a node: a beat each second on its event loop, which shows that the loop turns, and whether it is ready.

Other threads read it, and answer for a node whose loop hangs. A service manager is told at each beat.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Final

from kraft.server.loop.periods import period_end
from kraft.server.process.service_manager import ServiceManager, more_time

BEAT_S: Final = 1.0

HANGS_AFTER_S: Final = 5.0
"""Time without a beat after which the event loop is said to hang."""

IN_SERVICE: Final = "in service"
"""Status of a node that is ready."""


class Pulse:
    def __init__(self, why_not_ready: Callable[[], str | None], manager: ServiceManager) -> None:
        """`why_not_ready` is called on the loop; it returns a reason in words, None if the node is ready."""
        self._why_not_ready = why_not_ready
        self._manager = manager
        self._beat_s = monotonic()
        self._reason: str | None = "it is starting"
        self._told: str | None = None
        self._was_ready = False
        self._is_stopping = False

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            self.beat()
            await period_end(BEAT_S)

    def stopping(self) -> None:
        """Note that the node stops: from now on it is not ready."""
        self._is_stopping = True
        self._manager.tell("STOPPING=1")
        self.beat()

    def beat(self) -> None:
        self._beat_s = monotonic()
        self._reason = "it stops" if self._is_stopping else self._why_not_ready()
        self._manager.tell(*self._news())

    def _news(self) -> list[str]:
        """Return what the service manager has to hear now."""
        lines = []
        if self._reason is None and not self._was_ready:
            self._was_ready = True
            lines.append("READY=1")
        status = IN_SERVICE if self._reason is None else f"not ready: {self._reason}"
        if status != self._told:
            self._told = status
            lines.append(f"STATUS={status}")
        if not self._was_ready or self._is_stopping:
            lines.append(more_time())
        if self._manager.has_watchdog:
            lines.append("WATCHDOG=1")
        return lines

    # --- for any thread ----------------------------------------------------------------------------------------------

    def why_not_alive(self) -> str | None:
        """Return why the node is no better than a dead one; None if its event loop turns."""
        silent_s = monotonic() - self._beat_s
        return None if silent_s <= HANGS_AFTER_S else f"the event loop has not turned for {silent_s:.0f} s"

    def why_not_ready(self) -> str | None:
        """Return why clients should not be sent to this node; None if it was in service at the last beat."""
        return self.why_not_alive() or self._reason
