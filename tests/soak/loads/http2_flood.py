"""A stranger on a port: connections, prefaces, calls without messages, messages that never end, or prefaces for ever.

    python -m tests.soak.loads.http2_flood PORT KIND [--path METHOD]

Prints a line when it has begun everything, and holds it until standard input ends. It speaks just enough of HTTP/2.
"""

from __future__ import annotations

import argparse
import resource
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

KINDS: Final = ("connections", "prefaces", "streams", "unfinished")
RETURNING: Final = "returning"
"""Prefaces on connections that are opened again as soon as the node ends them."""

CONNECTIONS: Final = 1_100
STREAM_CONNECTIONS: Final = 20
STREAMS: Final = 1_000
UNFINISHED_CONNECTIONS: Final = 4
UNFINISHED_STREAMS: Final = 10
UNFINISHED_BYTES: Final = 15 * 1024 * 1024

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS, _PING, _WINDOW_UPDATE, _RST_STREAM = 0, 1, 4, 6, 8, 3
_END_HEADERS: Final = 4
_ACK: Final = 1
_INITIAL_WINDOW: Final = 4
_CANCEL: Final = 8
_WINDOW_BYTES: Final = 65_535
_FRAME_BYTES: Final = 16_384
_HEADER: Final = struct.Struct(">HBBBI")
"""Size in two parts, type, flags, stream."""


def _frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    return _HEADER.pack(len(content) >> 8, len(content) & 0xFF, kind, flags, stream) + content


def _literal(key: bytes, value: bytes) -> bytes:
    """A header field without compression."""
    return bytes([0, len(key)]) + key + bytes([len(value)]) + value


def _headers(path: str) -> bytes:
    fields = (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path.encode()),
        (b":authority", b"stranger"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
    )
    return b"".join(_literal(key, value) for key, value in fields)


class Stranger:
    """One HTTP/2 connection, with calls that send as much of their messages as the other side makes room for."""

    def __init__(self, port: int, path: str, streams: int, size_bytes: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self._room = _WINDOW_BYTES
        self._rooms = dict.fromkeys(range(1, 2 * streams, 2), _WINDOW_BYTES)
        self._left = dict.fromkeys(self._rooms, max(size_bytes - 1, 0))
        self._initial = _WINDOW_BYTES
        self._received = b""
        self._socket.sendall(_PREFACE + _frame(_SETTINGS, 0, 0))
        self._path = path
        for stream in self._rooms:
            self._begin(stream, size_bytes)

    def begin(self, size_bytes: int) -> int:
        """Begin one more call, and return its stream."""
        stream = 2 * len(self._left) + 1
        self._rooms[stream], self._left[stream] = self._initial, max(size_bytes - 1, 0)
        self._begin(stream, size_bytes)
        return stream

    def cancel(self, stream: int) -> None:
        self._left[stream] = 0
        self._socket.sendall(_frame(_RST_STREAM, 0, stream, struct.pack(">I", _CANCEL)))

    def _begin(self, stream: int, size_bytes: int) -> None:
        self._socket.sendall(_frame(_HEADERS, _END_HEADERS, stream, _headers(self._path)))
        if size_bytes:
            self._send(stream, b"\0" + struct.pack(">I", size_bytes))

    def send_what_fits(self, wait_s: float = 2) -> None:
        """Return when the other side has made no more room for so long."""
        while True:
            sent = 0
            for stream in self._rooms:
                size = min(self._room, self._rooms[stream], self._left[stream], _FRAME_BYTES)
                if size > 0:
                    self._send(stream, bytes(size))
                    self._left[stream] -= size
                    sent += size
            self._socket.settimeout(0.001 if sent else wait_s)
            try:
                received = self._socket.recv(65_536)
            except TimeoutError:
                if not sent:
                    return
                continue
            finally:
                self._socket.settimeout(10)
            if not received:
                return
            self._received += received
            for frame in self._frames():
                self._take(*frame)

    def is_closed(self, within_s: float) -> bool:
        """Return whether the other side has closed the connection, or does so in time."""
        self._socket.settimeout(within_s)
        try:
            while self._socket.recv(65_536):
                pass
        except TimeoutError:
            return False
        except OSError:
            return True
        return True

    def _send(self, stream: int, content: bytes) -> None:
        self._socket.sendall(_frame(_DATA, 0, stream, content))
        self._room -= len(content)
        self._rooms[stream] -= len(content)

    def _frames(self) -> Iterator[tuple[int, int, int, bytes]]:
        while len(self._received) >= _HEADER.size:
            high, low, kind, flags, stream = _HEADER.unpack_from(self._received)
            end = _HEADER.size + (high << 8 | low)
            if len(self._received) < end:
                return
            content, self._received = self._received[_HEADER.size : end], self._received[end:]
            yield kind, flags, stream & 0x7FFFFFFF, content

    def _take(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        if kind == _WINDOW_UPDATE:
            (more,) = struct.unpack(">I", content)
            if stream == 0:
                self._room += more
            elif stream in self._rooms:
                self._rooms[stream] += more
        elif kind == _SETTINGS and not flags & _ACK:
            for key, value in struct.iter_unpack(">HI", content):
                if key == _INITIAL_WINDOW:
                    for each in self._rooms:
                        self._rooms[each] += value - self._initial
                    self._initial = value
            self._socket.sendall(_frame(_SETTINGS, _ACK, 0))
        elif kind == _PING and not flags & _ACK:
            self._socket.sendall(_frame(_PING, _ACK, 0, content))
        elif kind == _RST_STREAM:
            self._rooms.pop(stream, None)


def _connections(port: int, first: bytes) -> list[socket.socket]:
    held = []
    for _ in range(CONNECTIONS):
        # Refused ones are what the caps are for.
        with suppress(OSError):
            held.append(socket.create_connection(("127.0.0.1", port), timeout=2))
            held[-1].sendall(first)
    return held


def _return(port: int, first: bytes) -> list[threading.Thread]:
    def run() -> None:
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
                connection.sendall(first)
                connection.settimeout(None)
                while connection.recv(65_536):
                    pass

    threads = [threading.Thread(target=run, daemon=True) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    return threads


def _strangers(count: int, work: Callable[[], Stranger]) -> list[Stranger]:
    held: list[Stranger] = []

    def run() -> None:
        # The node may end the connection at any moment.
        with suppress(OSError):
            stranger = work()
            held.append(stranger)
            stranger.send_what_fits()

    threads = [threading.Thread(target=run, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    until_s = time.monotonic() + 20
    for thread in threads:
        thread.join(max(0, until_s - time.monotonic()))
    return held


def flood(port: int, kind: str, path: str) -> object:
    """Begin a flood, and return what keeps it open."""
    match kind:
        case "connections":
            return _connections(port, b"")
        case "prefaces":
            return _connections(port, _PREFACE + _frame(_SETTINGS, 0, 0))
        case "returning":
            return _return(port, _PREFACE + _frame(_SETTINGS, 0, 0))
        case "streams":
            return _strangers(STREAM_CONNECTIONS, lambda: Stranger(port, path, STREAMS, 0))
        case _:
            size = UNFINISHED_BYTES
            return _strangers(UNFINISHED_CONNECTIONS, lambda: Stranger(port, path, UNFINISHED_STREAMS, size))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("kind", choices=(*KINDS, RETURNING))
    parser.add_argument("--path", default="/kraft.v1.Broker/Metadata")
    arguments = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    held = flood(arguments.port, arguments.kind, arguments.path)
    print("begun", flush=True)
    sys.stdin.read()
    del held


if __name__ == "__main__":
    main()
