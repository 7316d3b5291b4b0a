"""A request of HTTP, bounded in bytes and time; it leads nowhere else: redirects and proxies are not followed."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import h11
from msgspec import Struct

from kraft.model.printable import readable_size

HEADER_BYTES_MAX: Final = 32 * 1024
_CHUNK_BYTES: Final = 64 * 1024
_PORTS: Final = {"http": 80, "https": 443}


class HttpFailed(Exception):
    """No answer that can be used: one sentence with the reason."""


class HttpAnswer(Struct, frozen=True, kw_only=True):
    status: int
    body: bytes


class HttpRequest(Struct, frozen=True, kw_only=True):
    url: str
    """By http or https, from a file of an operator, or from what a server says that such a file names."""

    headers: Mapping[str, str] = {}
    body: bytes | None = None
    """What a POST carries; without it, it is a GET."""


def fetch(request: HttpRequest, context: ssl.SSLContext | None, bytes_max: int, within_s: float) -> HttpAnswer:
    """Return the answer, whatever its status. It blocks, up to the time. Raises HttpFailed.

    `context` says which CAs are trusted; by default those of the system, or those that the variables SSL_CERT_FILE and
    SSL_CERT_DIR name.
    """
    until_s = time.monotonic() + within_s
    try:
        parts = urlsplit(request.url)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        with socket.create_connection((host, port), timeout=within_s) as plain:
            connection = plain
            if parts.scheme == "https":
                plain.settimeout(_left_s(until_s))
                connection = (context or ssl.create_default_context()).wrap_socket(plain, server_hostname=host)
            with connection:
                return _asked(connection, request, bytes_max, until_s)
    except TimeoutError:
        raise HttpFailed(f"it did not answer within {within_s:.1f} s") from None
    except ssl.SSLError as error:
        raise HttpFailed(f"TLS fails: {error.reason or error}") from None
    except OSError as error:
        raise HttpFailed((error.strerror or str(error)).lower()) from None
    except h11.ProtocolError as error:
        raise HttpFailed(f"it does not speak HTTP: {error}") from None
    except (ValueError, OverflowError):
        # A document of a server may name it: a port that is none, or a host that cannot be looked up.
        raise HttpFailed("its URL names no host and port") from None


def _left_s(until_s: float) -> float:
    left_s = until_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def _asked(connection: socket.socket, request: HttpRequest, bytes_max: int, until_s: float) -> HttpAnswer:
    machine = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEADER_BYTES_MAX)
    connection.settimeout(_left_s(until_s))
    connection.sendall(_written(machine, request))
    status, body = 0, bytearray()
    while True:
        event = machine.next_event()
        match event:
            case h11.Response():
                status = event.status_code
            case h11.Data():
                body += event.data
                if len(body) > bytes_max:
                    raise HttpFailed(f"its answer is longer than {readable_size(bytes_max)}")
            case h11.EndOfMessage():
                return HttpAnswer(status=status, body=bytes(body))
            case h11.NEED_DATA:
                connection.settimeout(_left_s(until_s))
                machine.receive_data(connection.recv(_CHUNK_BYTES))
            case h11.InformationalResponse():
                continue
            case _:
                raise HttpFailed("it closed the connection before it had answered")


def _written(machine: h11.Connection, request: HttpRequest) -> bytes:
    parts = urlsplit(request.url)
    headers = [("Host", parts.netloc.rpartition("@")[2]), ("Connection", "close"), *request.headers.items()]
    if request.body is not None:
        headers.append(("Content-Length", str(len(request.body))))
    asked = h11.Request(
        method="GET" if request.body is None else "POST",
        target=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
        headers=headers,
    )
    events = (asked, *([h11.Data(data=request.body)] if request.body else []), h11.EndOfMessage())
    return b"".join(machine.send(each) or b"" for each in events)
