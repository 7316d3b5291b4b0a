"""Answers /metrics: one snapshot and one text at a time, for all scrapers that ask meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any, Final

from kraft.server.http.messages import Request, Response, line
from kraft.server.http.node_loop import LoopHangs, on_node_loop
from kraft.server.metrics.rendering import TextFormat, format_of, render
from kraft.server.metrics.snapshot import Values

SNAPSHOT_S_MAX: Final = 5.0
"""A loop that does not answer in this time hangs, or is far behind."""


class Scrapes:
    """Its methods run in the thread of the HTTP listener."""

    def __init__(self, node_loop: asyncio.AbstractEventLoop, take: Callable[[], Coroutine[Any, Any, Values]]) -> None:
        """`take` is called on the node's loop."""
        self._node_loop = node_loop
        self._take = take
        self._turn = asyncio.Lock()
        self._under_way: dict[TextFormat, asyncio.Task[list[bytes]]] = {}

    async def answer(self, request: Request) -> Response:
        form = format_of(request.accept)
        running = self._under_way.get(form)
        if running is None:
            running = self._under_way[form] = asyncio.create_task(self._text(form))
            running.add_done_callback(lambda _: self._under_way.pop(form))
        try:
            # One scraper that gives up does not end it for the others.
            first, *more = await asyncio.shield(running)
            return Response(body=first, more=more, content_type=form.content_type)
        except LoopHangs:
            reason = f"the node's event loop has not answered within {SNAPSHOT_S_MAX:g} s"
            return line(reason, HTTPStatus.SERVICE_UNAVAILABLE)

    async def _text(self, form: TextFormat) -> list[bytes]:
        async with self._turn:
            return await render(await on_node_loop(self._node_loop, self._take(), SNAPSHOT_S_MAX), form)
