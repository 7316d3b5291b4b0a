"""A server that answers what it is told, for what a real search engine says rarely, and for what stands before one."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

_WAIT_S: Final = 10.0
HOST: Final = "127.0.0.1"


class Asked(NamedTuple):
    """A request as it came."""

    line: str
    headers: dict[str, str]
    body: bytes
    connection: int
    """Number of its connection, from 1 on."""


Answer = bytes | Callable[[socket.socket], None]
"""What is sent, or what is done with the connection, which is closed afterwards."""


class FakeEngine:
    """A context manager: answers with the given ones in their order, and the last one again and again."""

    def __init__(self, *answers: Answer, context: ssl.SSLContext | None = None) -> None:
        self._answers = list(answers)
        self._context = context
        self._listening = socket.create_server((HOST, 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._ends = threading.Event()
        self.asked: list[Asked] = []
        self.connections = 0
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://{HOST}:{self._listening.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        with contextlib.suppress(OSError):
            # Closing it alone does not end a wait for a connection.
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(_WAIT_S)

    def _serve(self) -> None:
        while not self._ends.is_set():
            try:
                connected, _ = self._listening.accept()
            except OSError:
                return
            connected.settimeout(_WAIT_S)
            self.connections += 1
            with contextlib.suppress(OSError, ValueError):
                if self._context is not None:
                    connected = self._context.wrap_socket(connected, server_side=True)
                self._answer(connected)
            connected.close()

    def _answer(self, connected: socket.socket) -> None:
        with connected.makefile("rb") as reading:
            while line := reading.readline().decode():
                headers: dict[str, str] = {}
                while header := reading.readline().decode().strip():
                    name, _, value = header.partition(":")
                    headers[name.lower()] = value.strip()
                answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
                if answer is REFUSED_UNREAD:
                    self.asked.append(Asked(line.strip(), headers, b"", self.connections))
                    connected.sendall(REFUSED_UNREAD)
                    return
                body = reading.read(int(headers.get("content-length", "0")))
                self.asked.append(Asked(line.strip(), headers, body, self.connections))
                if callable(answer):
                    answer(connected)
                    return
                connected.sendall(answer)
                if b"Connection: close" in answer:
                    return


def answered(status: int, body: bytes | dict[str, Any] = b"", *headers: str) -> bytes:
    """Return an answer with its length."""
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(sent)}", *headers, "", ""]
    return "\r\n".join(head).encode() + sent


def items(*statuses: int) -> bytes:
    """Return the answer of OpenSearch to a `_bulk` request with this filter of paths."""
    return answered(200, {"errors": max(statuses) > 299, "items": [{"create": {"status": each}} for each in statuses]})


REFUSED_UNREAD: Final = answered(413, b"", "Connection: close")
"""As nginx says it: by the head of the request alone, and the body is not read."""


def hung_up(connected: socket.socket) -> None:
    """Close without an answer."""


def dripping(head: bytes, every_s: float) -> Callable[[socket.socket], None]:
    """Send the head, and then a byte at a time, for longer than any test waits."""

    def drip(connected: socket.socket) -> None:
        connected.sendall(head)
        until_s = time.monotonic() + _WAIT_S
        while time.monotonic() < until_s:
            connected.sendall(b"x")
            time.sleep(every_s)  # That is the fault: it never stops, and never ends.

    return drip


def endless(chunk: bytes, count: int) -> Callable[[socket.socket], None]:
    """Send an answer of so many chunks, while anybody reads them."""

    def send(connected: socket.socket) -> None:
        connected.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(chunk) * count}\r\n\r\n".encode())
        for _ in range(count):
            connected.sendall(chunk)

    return send
