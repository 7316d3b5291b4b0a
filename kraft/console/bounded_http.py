"""A GET of HTTP that is bounded in bytes and time, and leads nowhere else: redirects and proxies are not followed."""

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


def get(
    url: str, headers: Mapping[str, str], context: ssl.SSLContext | None, bytes_max: int, within_s: float
) -> HttpAnswer:
    """Ask for the URL, which is of the console's own file. It blocks, up to the time. Raises HttpFailed."""
    until_s = time.monotonic() + within_s
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    try:
        with socket.create_connection((host, port), timeout=within_s) as plain:
            connection = plain
            if parts.scheme == "https":
                connection = (context or ssl.create_default_context()).wrap_socket(plain, server_hostname=host)
            with connection:
                return _asked(connection, parts.netloc.rpartition("@")[2], url, headers, bytes_max, until_s)
    except TimeoutError:
        raise HttpFailed(f"it did not answer within {within_s:.1f} s") from None
    except ssl.SSLError as error:
        raise HttpFailed(f"TLS fails: {error.reason or error}") from None
    except OSError as error:
        raise HttpFailed((error.strerror or str(error)).lower()) from None
    except h11.RemoteProtocolError as error:
        raise HttpFailed(f"it does not speak HTTP: {error}") from None


def _asked(
    connection: socket.socket, host: str, url: str, headers: Mapping[str, str], bytes_max: int, until_s: float
) -> HttpAnswer:
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    machine = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEADER_BYTES_MAX)
    asked = h11.Request(
        method="GET", target=target, headers=[("Host", host), ("Connection", "close"), *headers.items()]
    )
    connection.sendall((machine.send(asked) or b"") + (machine.send(h11.EndOfMessage()) or b""))
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
                left_s = until_s - time.monotonic()
                if left_s <= 0:
                    raise TimeoutError
                connection.settimeout(left_s)
                machine.receive_data(connection.recv(_CHUNK_BYTES))
            case h11.InformationalResponse():
                continue
            case _:
                raise HttpFailed("it closed the connection before it had answered")
