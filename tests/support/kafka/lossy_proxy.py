"""A proxy before a Kafka listener that loses the response to a produce request: stored, and unknown to the client."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import ExitStack, suppress
from enum import Enum, auto
from typing import Final

from kraft.wire.api_keys import ApiKey

DEADLINE_S: Final = 30.0

_LENGTH: Final = struct.Struct(">i")
_API_KEY: Final = struct.Struct(">h")
_CORRELATION_ID: Final = slice(4, 8)


class _Fate(Enum):
    """What happens to produce requests."""

    PASSED = auto()
    ANSWER_LOST = auto()
    """The next one is handed on, and the connection is closed instead of its response."""

    REFUSED = auto()
    """The connection is closed before the request is handed on."""


class LossyProxy:
    """A context manager. The proxy listens on a free port of the loopback interface as long as it is entered."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._fate = _Fate.PASSED
        self._lost_ids: set[tuple[socket.socket, bytes]] = set()
        self._has_lost = threading.Event()
        self._open = ExitStack()

    def __enter__(self) -> LossyProxy:
        self._open.callback(self._listener.close)
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    # --- faults ---

    def lose_next_answer(self) -> None:
        """Lose the response to the next produce request, and refuse those after it."""
        self._has_lost.clear()
        self._fate = _Fate.ANSWER_LOST

    def wait_lost(self) -> None:
        assert self._has_lost.wait(DEADLINE_S), f"no produce request came within {DEADLINE_S:g} s"

    def pass_on(self) -> None:
        """Hand all requests on again."""
        self._fate = _Fate.PASSED

    # --- connections ---

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(self._target, DEADLINE_S)
                broker.settimeout(None)
                for each in (client, broker):
                    self._open.callback(_close, each)
                self._start(self._hand_requests_on, client, broker)
                self._start(self._hand_responses_on, client, broker)

    def _start(self, work: object, *arguments: socket.socket) -> None:
        assert callable(work)
        threading.Thread(target=work, args=arguments, daemon=True).start()

    def _hand_requests_on(self, client: socket.socket, broker: socket.socket) -> None:
        with suppress(OSError):
            while (frame := _frame(client)) is not None:
                if _API_KEY.unpack_from(frame)[0] == ApiKey.PRODUCE:
                    if self._fate is _Fate.REFUSED:
                        break
                    if self._fate is _Fate.ANSWER_LOST:
                        self._fate = _Fate.REFUSED
                        self._lost_ids.add((client, frame[_CORRELATION_ID]))
                broker.sendall(_LENGTH.pack(len(frame)) + frame)
        _close(client, broker)

    def _hand_responses_on(self, client: socket.socket, broker: socket.socket) -> None:
        with suppress(OSError):
            while (frame := _frame(broker)) is not None:
                if (client, frame[:4]) in self._lost_ids:
                    self._has_lost.set()
                    break
                client.sendall(_LENGTH.pack(len(frame)) + frame)
        _close(client, broker)


def _close(*sockets: socket.socket) -> None:
    for each in sockets:
        # The other thread may have closed it already.
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()


def _frame(connection: socket.socket) -> bytes | None:
    """Return the next frame without its length, or None at the end."""
    head = _received(connection, _LENGTH.size)
    return None if head is None else _received(connection, _LENGTH.unpack(head)[0])


def _received(connection: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            return None
        data += part
    return bytes(data)
