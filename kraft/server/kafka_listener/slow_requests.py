"""Logs requests that took long, and where the time went: a few lines a minute, however many there are."""

from __future__ import annotations

from typing import Final

import structlog

from kraft.model.clients import ClientConnection
from kraft.server.kafka_listener.request_times import TimedRequest
from kraft.server.kafka_listener.requests import api_name
from kraft.wire.api_keys import ApiKey

log = structlog.get_logger()

LINES_MAX: Final = 20
"""The most lines in a period."""

PERIOD_S: Final = 60.0

_ASK_TO_WAIT: Final = frozenset({ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
"""Requests that wait for records, or for the other members of a group, because their clients want them to."""


class SlowRequestLog:
    """Limits the lines; a line counts the slow requests that were not logged before it."""

    def __init__(self, least_s: float) -> None:
        """`least_s`: a request that takes as long is slow."""
        self._least_s = least_s
        self._period_began_s = 0.0
        self._logged = 0
        self._not_logged = 0

    def note(self, client: ClientConnection, request: TimedRequest, now_s: float) -> None:
        """Log a request whose response was sent, if the node was slow. `client` is the one that sent it."""
        if request.local_s + (0 if request.times.key in _ASK_TO_WAIT else request.remote_s) < self._least_s:
            return
        if now_s - self._period_began_s >= PERIOD_S:
            self._period_began_s, self._logged = now_s, 0
        if self._logged >= LINES_MAX:
            self._not_logged += 1
            return
        omitted = {"slow_requests_not_logged": self._not_logged} if self._not_logged else {}
        self._logged, self._not_logged = self._logged + 1, 0
        log.warning(
            "request answered slowly",
            api=api_name(request.times.key),
            client_id=client.client_id,
            principal=client.principal,
            peer=client.address,
            listener=client.listener,
            request_bytes=request.size_bytes,
            response_bytes=request.response_bytes,
            queue_ms=_ms(request.queue_s),
            local_ms=_ms(request.local_s),
            remote_ms=_ms(request.remote_s),
            throttle_ms=request.throttle_ms,
            send_ms=_ms(request.send_s),
            **omitted,
        )


def _ms(seconds: float) -> float:
    return round(seconds * 1_000, 1)
