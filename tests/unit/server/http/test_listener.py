"""The HTTP listener, over real sockets: what it answers, and what nobody can do to it."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from kraft.local.free_ports import ReservedPorts
from kraft.server.config.values import METRICS, Listener
from kraft.server.http import connection
from kraft.server.http.listener import CONNECTIONS_MAX, HttpListener, why_not_bound
from kraft.server.http.messages import Request, Response, line
from tests.support.waiting import until

LARGE = b"x" * (32 << 20)
WAIT_S = 20.0


async def _said(request: Request) -> Response:
    return line(f"{request.path} {request.query} {request.accept}")


async def _large(_: Request) -> Response:
    return Response(body=LARGE[:7], more=[LARGE[7:-7], LARGE[-7:]])


async def _broken(_: Request) -> Response:
    raise RuntimeError("a mistake")


_hang: list[Request] = []
_ended: list[Request] = []
"""Requests that were not answered, as they begin and as they are given up."""


async def _hanging(request: Request) -> Response:
    _hang.append(request)
    try:
        await asyncio.sleep(3_600)
    finally:
        _ended.append(request)
    raise AssertionError("it was cancelled")


ROUTES = {"/said": _said, "/below/": _said, "/large": _large, "/broken": _broken, "/hanging": _hanging}


@pytest.fixture
def serving() -> Iterator[HttpListener]:
    with ReservedPorts(1) as (port,):
        serving = HttpListener(Listener(METRICS, "127.0.0.1", port), ROUTES)
        asyncio.run(serving.start())
        yield serving
        asyncio.run(serving.stop())


@pytest.fixture
def port(serving: HttpListener) -> int:
    return serving.address.port


def _connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)


def _get(path: str, *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


def _answered(port: int, sent: bytes) -> bytes:
    """Return all that is answered until the connection closes."""
    with _connect(port) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        return _rest(client)


def _rest(client: socket.socket) -> bytes:
    found = b""
    try:
        while data := client.recv(1 << 20):
            found += data
    except ConnectionError:
        pass
    return found


def test_a_route_is_answered_with_what_the_request_asks_for(port: int) -> None:
    answered = _answered(port, _get("/said?name=a", "Accept: text/plain", "Connection: close"))
    head, _, body = answered.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert b"Content-Length: 24" in head
    assert body == b"/said name=a text/plain\n"


def test_a_route_that_ends_with_a_slash_is_for_all_below_it(port: int) -> None:
    assert _answered(port, _get("/below/a/b?c", "Connection: close")).endswith(b"/below/a/b c \n")
    assert b" 404 " in _answered(port, _get("/below", "Connection: close"))


def test_head_has_the_length_and_no_body(port: int) -> None:
    answered = _answered(port, _get("/said", "Connection: close", method="HEAD"))
    assert b"Content-Length: 8\r\n" in answered
    assert answered.endswith(b"\r\n\r\n")


def test_a_connection_is_kept_for_further_requests_also_for_those_sent_at_once(port: int) -> None:
    answered = _answered(port, _get("/said?1") + _get("/said?2") + _get("/said?3", "Connection: close"))
    assert [text in answered for text in (b"/said 1", b"/said 2", b"/said 3")] == [True] * 3


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (_get("/other"), b"404 Not Found"),
        (_get("/said", method="POST"), b"405 Method Not Allowed"),
        (_get("/said", "Content-Length: 5") + b"12345", b"413 "),
        (_get("/said", "Content-Length: 500000000000"), b"413 "),
        (b"\x16\x03\x01\x02\x00garbage\r\n\r\n", b"400 Bad Request"),
        (b"\x00" * 64 + b"\r\n\r\n", b"400 Bad Request"),
        (_get("/said", "Name: " + "x" * 9_000), b"431 "),
        (b"GET /" + b"x" * 100_000, b"431 "),
        (b"GET /said HTTP/1.1\r\n\r\n", b"400 Bad Request"),
        (b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n", b"400 Bad Request"),
        (_get("/broken", "Connection: close"), b"500 Internal Server Error"),
    ],
)
def test_what_cannot_be_answered_is_refused_and_others_are_answered(port: int, sent: bytes, status: bytes) -> None:
    answered = _answered(port, sent)
    assert answered.startswith(b"HTTP/1.1 " + status)
    assert b"bytearray" not in answered
    assert b" 200 OK" in _answered(port, _get("/said"))


def test_a_handler_that_hangs_is_answered_for(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "ANSWER_S_MAX", 0.05)
    with _connect(port) as client:
        client.sendall(_get("/hanging"))
        assert b"503 Service Unavailable" in client.recv(1 << 16)


@pytest.mark.parametrize("sent", [b"", b"GET /sa", _get("/said", "Slow: yes")[:-2]])
def test_a_head_that_does_not_arrive_ends_the_connection(
    port: int, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HEAD_S_MAX", 0.2)
    with _connect(port) as client:
        for byte in sent:
            client.send(bytes([byte]))
        assert not _rest(client)


@pytest.mark.parametrize("sent", [(_get("/said"), b"GET /sa"), (_get("/said") + b"GET /sa",)], ids=["later", "at once"])
def test_a_later_head_that_does_not_arrive_ends_the_connection_too(
    port: int, sent: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HEAD_S_MAX", 0.5)
    with _connect(port) as client:
        client.sendall(sent[0])
        assert b" 200 OK" in client.recv(1 << 16)
        for more in sent[1:]:
            client.sendall(more)
        assert b" 200 OK" not in _rest(client)


def test_scrapers_that_never_read_are_closed_and_others_are_answered(
    serving: HttpListener, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SEND_S_MAX", 0.5)
    with ExitStack() as silent:
        for _ in range(CONNECTIONS_MAX - 1):
            silent.enter_context(_connect(port)).sendall(_get("/large"))
        assert b" 200 OK" in _answered(port, _get("/said"))
        until(lambda: not serving.connection_count, "connections are still open")
        assert b" 200 OK" in _answered(port, _get("/said"))


def test_a_scraper_that_reads_a_little_at_a_time_is_closed_too(
    serving: HttpListener, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "RESPONSE_S_MAX", 0.5)
    with _connect(port) as client:
        client.sendall(_get("/large"))

        def is_closed() -> bool:
            # Each part long before its own deadline: all of them would take half a minute.
            return not client.recv(64 * 1024) or not serving.connection_count

        until(is_closed, "the connection is still open", deadline_s=WAIT_S / 2)


def test_connections_that_are_all_being_answered_keep_no_probe_away(port: int) -> None:
    with ExitStack() as open_ones:
        before, ended = len(_hang), len(_ended)
        for _ in range(CONNECTIONS_MAX):
            open_ones.enter_context(_connect(port)).sendall(_get("/hanging"))
        until(lambda: len(_hang) == before + CONNECTIONS_MAX, "not all of them are being answered")
        assert b" 200 OK" in _answered(port, _get("/said", "Connection: close"))
        until(lambda: len(_ended) == ended + 1, "the work for a connection that was closed goes on")


def test_of_too_many_connections_the_oldest_that_waits_goes(port: int) -> None:
    with ExitStack() as open_ones:
        clients = [open_ones.enter_context(_connect(port)) for _ in range(100)]
        clients[-1].sendall(_get("/said"))
        assert b" 200 OK" in clients[-1].recv(1 << 16)
        kept = 0
        for client in clients:
            client.setblocking(False)
            try:
                kept += bool(client.recv(1))
            except BlockingIOError:
                kept += 1
            except ConnectionError:
                pass
        assert kept == CONNECTIONS_MAX


def test_one_that_is_being_answered_stays(port: int) -> None:
    with ExitStack() as open_ones:
        answered = open_ones.enter_context(_connect(port))
        answered.sendall(_get("/large", "Connection: close"))
        first = answered.recv(1 << 16)
        for _ in range(100):
            open_ones.enter_context(_connect(port))
        assert b" 200 OK" in _answered(port, _get("/said"))
        assert len(first + _rest(answered)) > len(LARGE)


def test_a_body_in_parts_arrives_as_one(port: int) -> None:
    head, _, body = _answered(port, _get("/large", "Connection: close")).partition(b"\r\n\r\n")
    assert f"Content-Length: {len(LARGE)}\r\n".encode() in head
    assert body == LARGE


def test_an_address_in_use_is_an_error_of_the_start(port: int) -> None:
    another = HttpListener(Listener(METRICS, "127.0.0.1", port), ROUTES)
    with pytest.raises(OSError, match="in use"):
        asyncio.run(another.start())
    asyncio.run(another.stop())


def test_the_end_closes_connections_and_the_thread(port: int) -> None:
    with ReservedPorts(1) as (other,):
        serving = HttpListener(Listener(METRICS, "127.0.0.1", other), ROUTES)
        asyncio.run(serving.start())
        with _connect(other) as client:
            client.sendall(_get("/said"))
            assert b" 200 OK" in client.recv(1 << 16)
            client.sendall(_get("/hanging"))
            asyncio.run(serving.stop())
            assert not _rest(client)


def test_an_address_that_another_process_has_is_told_with_the_remedy() -> None:
    of_asyncio = "error while attempting to bind on address ('127.0.0.1', 9): "
    taken = why_not_bound(OSError(errno.EADDRINUSE, f"{of_asyncio}address already in use"))
    assert taken.endswith("give each process of a machine its own port")
    assert why_not_bound(OSError(errno.EACCES, f"{of_asyncio}permission denied")) == "permission denied"
    assert why_not_bound(OSError("no such name")) == "no such name"
