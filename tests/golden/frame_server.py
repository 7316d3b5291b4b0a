"""A server of frames that begin with their size, on a free port of this machine, with one thread a connection."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

HOST: Final = "127.0.0.1"
_SIZE_BYTES: Final = 4
_SOCKET_TIMEOUT_S: Final = 30.0

Answer = Callable[[bytes], bytes | None]
"""Maps a request without its size to a response with it; None if the client expects no response."""


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        super().__init__((HOST, 0), _Connection)
        self.answer = answer


class _Connection(socketserver.StreamRequestHandler):
    timeout = _SOCKET_TIMEOUT_S
    server: _Server

    def handle(self) -> None:
        # A client that leaves does not wait for the answer to its last fetch.
        with suppress(ConnectionError):
            while len(size := self.rfile.read(_SIZE_BYTES)) == _SIZE_BYTES:
                response = self.server.answer(self.rfile.read(int.from_bytes(size, "big")))
                if response is not None:
                    self.wfile.write(response)


@contextmanager
def frame_server(answer: Answer) -> Iterator[int]:
    """Listen until the block ends; yield the port."""
    with _Server(answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join(_SOCKET_TIMEOUT_S)
