"""A request and a response of HTTP, as the handlers of routes get and return them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus

from msgspec import Struct

PLAIN_TEXT = "text/plain; charset=utf-8"


class Request(Struct, frozen=True, kw_only=True):
    path: str
    """Without the query."""

    query: str = ""

    accept: str = ""
    """Formats that the client can read, as its header says; empty without one."""


class Response(Struct, frozen=True, kw_only=True):
    body: bytes
    more: Sequence[bytes] = ()
    """Further parts of a long body: to join 10 MiB would keep the interpreter from other threads for as many ms."""

    status: int = HTTPStatus.OK
    content_type: str = PLAIN_TEXT


def line(text: str, status: int = HTTPStatus.OK) -> Response:
    """Return a response of one line."""
    return Response(body=f"{text}\n".encode(), status=status)


Handler = Callable[[Request], Awaitable[Response]]
"""Answers a request in the listener's thread: it must not touch what belongs to the node's event loop."""

Routes = Mapping[str, Handler]
"""Handlers by path. One that ends with a slash is for all paths below it without a handler of their own."""
