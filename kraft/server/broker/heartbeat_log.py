"""Log lines about heartbeats that fail: the first of a row, then one in a while with a count, and the recovery."""

from __future__ import annotations

from typing import Final

import structlog

from kraft.server.loop.periods import loop_time_s

log = structlog.get_logger()

AGAIN_AFTER_S: Final = 60.0
"""Heartbeats that go on failing are logged once in this time."""


class HeartbeatLog:
    def __init__(self) -> None:
        self._failing_since_s: float | None = None
        """None while heartbeats are answered."""

        self._logged_s = 0.0
        self._failures = 0
        self._not_logged = 0

    def failed(self, event: str, reason: str) -> None:
        now_s = loop_time_s()
        self._failures += 1
        if self._failing_since_s is None:
            self._failing_since_s = now_s
        elif now_s - self._logged_s < AGAIN_AFTER_S:
            self._not_logged += 1
            return
        omitted = {"failures_not_logged": self._not_logged} if self._not_logged else {}
        self._logged_s, self._not_logged = now_s, 0
        log.warning(event, reason=reason, **omitted)

    def answered(self) -> None:
        if self._failing_since_s is None:
            return
        for_s = round(loop_time_s() - self._failing_since_s, 1)
        log.info("heartbeats answered again", failures=self._failures, failed_for_s=for_s)
        self._failing_since_s = None
        self._failures = self._not_logged = 0
