"""A server that closes its first connection without an answer."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

_HOST = "127.0.0.1"


@contextmanager
def closing_server() -> Iterator[str]:
    """Return its address. The context ends when a connection was closed."""
    with socket.create_server((_HOST, 0)) as listening:

        def close() -> None:
            connection, _ = listening.accept()
            connection.close()

        closing = Thread(target=close)
        closing.start()
        yield f"{_HOST}:{listening.getsockname()[1]}"
        closing.join()
