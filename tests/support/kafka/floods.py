"""One address that floods a listener of Kafka's protocol, as a program of its own: it prints how often it tried.

`python -m tests.support.kafka.floods connect|guess HOST:PORT ADDRESS SECONDS PER_SECOND`: opens connections, or logs in
with wrong passwords on many connections at once, no faster than that.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from kraft.sasl.plain import plain_message
from kraft.wire.frame import encode_request
from kraft.wire.schema.sasl_authenticate import SaslAuthenticateRequest
from kraft.wire.schema.sasl_handshake import SaslHandshakeRequest

OPEN_MAX: Final = 400
"""Connections that a flood has open at once; the oldest is reset then."""

GUESSERS: Final = 200

_RESET: Final = struct.pack("ii", 1, 0)
_SPAN_S: Final = 0.01
_DEADLINE_S: Final = 60.0


@contextmanager
def flood(kind: str, server: str, address: str, seconds: float, per_second: int = 10_000) -> Iterator[list[int]]:
    """Flood while the block runs, at most so long. Afterwards the list has the number of attempts."""
    attempts: list[int] = []
    command = [sys.executable, "-m", __name__, kind, server, address, str(seconds), str(per_second)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"begun\n"
            yield attempts
            output, _ = process.communicate(timeout=seconds + _DEADLINE_S)
            attempts.append(json.loads(output))
        finally:
            process.kill()


def _connect(server: tuple[str, int], address: str, seconds: float, per_second: int) -> int:
    opened: deque[socket.socket] = deque()
    attempts = 0
    began_s = time.monotonic()
    while (now_s := time.monotonic() - began_s) < seconds:
        if attempts >= now_s * per_second:
            time.sleep(_SPAN_S)
            continue
        connection = socket.socket()
        connection.setblocking(False)
        # A port is chosen with the destination, so that one is found among those that are remembered.
        connection.setsockopt(socket.IPPROTO_IP, getattr(socket, "IP_BIND_ADDRESS_NO_PORT", 24), 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        with suppress(OSError):
            connection.bind((address, 0))
            connection.connect_ex(server)
            attempts += 1
        opened.append(connection)
        if len(opened) > OPEN_MAX:
            opened.popleft().close()
    for connection in opened:
        connection.close()
    return attempts


async def _guess(server: tuple[str, int], address: str, seconds: float, per_second: int) -> int:
    attempts = 0
    began_s = time.monotonic()
    requests = (
        encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "guesser"),
        encode_request(SaslAuthenticateRequest(auth_bytes=plain_message("alice", "guessed")), 2, 2, "guesser"),
    )
    sent = b"".join(bytes(piece) for request in requests for piece in request)

    async def guesser() -> None:
        nonlocal attempts
        while (now_s := time.monotonic() - began_s) < seconds:
            if attempts >= now_s * per_second:
                await asyncio.sleep(_SPAN_S)
                continue
            attempts += 1
            with suppress(OSError):
                reader, writer = await asyncio.open_connection(*server, local_addr=(address, 0))
                writer.write(sent)
                await reader.read()
                writer.transport.abort()

    await asyncio.gather(*(guesser() for _ in range(GUESSERS)))
    return attempts


def _main(kind: str, server: str, address: str, seconds: str, per_second: str) -> None:
    # What is measured beside it waits for the node, and not for this program.
    os.nice(19)
    host, _, port = server.rpartition(":")
    print("begun", flush=True)
    arguments = (host, int(port)), address, float(seconds), int(per_second)
    print(_connect(*arguments) if kind == "connect" else asyncio.run(_guess(*arguments)))


if __name__ == "__main__":
    _main(*sys.argv[1:])
