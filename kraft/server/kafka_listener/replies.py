"""Replies of a connection that are not written yet."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from kraft.server.kafka_listener.request_times import TimedRequest
from kraft.server.kafka_listener.response_writer import ResponseBytes


@dataclass(slots=True)
class Reply:
    """A response that is not ready, or stands behind one that is not."""

    request: TimedRequest

    response: ResponseBytes | None = None
    """None until the response is ready."""

    task: asyncio.Task[None] | None = None
