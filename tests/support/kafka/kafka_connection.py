"""A bare connection to a listener of Kafka's protocol: for requests that no client sends."""

from __future__ import annotations

import socket
from typing import Final, Self

from kraft.wire.declaration import Message
from kraft.wire.frame import SIZE_BYTES, encode_request

_DEADLINE_S: Final = 30.0
_CORRELATION_ID: Final = 7


class Connection:
    """Requests and answers as bytes; a context manager."""

    def __init__(self, server: str, receive_buffer_bytes: int | None = None) -> None:
        host, _, port = server.rpartition(":")
        self.socket = socket.socket()
        if receive_buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(_DEADLINE_S)
        self.socket.connect((host, int(port)))
        self._unread = b""

    def send(self, request: Message, version: int) -> None:
        self.socket.sendall(b"".join(encode_request(request, version, _CORRELATION_ID, "tests")))

    def frame(self) -> bytes | None:
        """Return the next response; None if the other side has closed. Raises AssertionError for an incomplete one."""
        while (end := self._end_of_first()) > len(self._unread):
            received = self.socket.recv(1 << 20)
            if not received:
                assert not self._unread, f"half an answer came, {len(self._unread)} bytes of {end}"
                return None
            self._unread += received
        frame, self._unread = self._unread[SIZE_BYTES:end], self._unread[end:]
        return frame

    def _end_of_first(self) -> int:
        if len(self._unread) < SIZE_BYTES:
            return SIZE_BYTES
        return SIZE_BYTES + int.from_bytes(self._unread[:SIZE_BYTES], "big")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
