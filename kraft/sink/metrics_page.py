"""The metrics of a sink at `metrics.address`, as Prometheus reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from kraft.model.errors import KraftError
from kraft.server.config.values import Listener
from kraft.server.http.listener import HttpListener, why_not_bound
from kraft.server.http.messages import Request, Response
from kraft.server.metrics.rendering import format_of, render
from kraft.server.metrics.snapshot import take
from kraft.sink.counts import Counts


class CannotListen(KraftError):
    """The address of the metrics is not to be had; one line, with the reason."""


@contextmanager
def metrics_page(address: Listener | None, counts: Counts) -> Iterator[None]:
    """Serve /metrics during the block, if there is an address. Raises CannotListen."""
    if address is None:
        yield
        return

    async def answer(request: Request) -> Response:
        form = format_of(request.accept)
        first, *more = await render(await take([counts.collect]), form)
        return Response(body=first, more=more, content_type=form.content_type)

    listener = HttpListener(address, {"/metrics": answer})
    try:
        asyncio.run(listener.start())
    except OSError as error:
        raise CannotListen(
            f"metrics.address: the sink cannot listen at {address.address}: {why_not_bound(error)}"
        ) from None
    try:
        yield
    finally:
        asyncio.run(listener.stop())
