"""`python -m benchmarks.tls_server KIND KEYSTORE`: the serving end of `benchmarks.tls`, in a process of its own.

A request is two numbers of eight bytes: how many bytes follow, and how many are wanted back. The port is the first line
of the output; each line of the input is answered by the memory and the CPU time of the process.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from struct import Struct
from typing import Final

import psutil

from kraft.server.loop.crowds import new_event_loop
from kraft.tls.contexts import server_context
from kraft.tls.handshakes import Handshakes, ServerHandshake
from kraft.tls.session import TlsBuffers
from kraft.tls.stores import KeyStoreFile, TlsSettings

REQUEST: Final = Struct(">QQ")
PIECE: Final = bytes(1 << 20)
KINDS: Final = ("plain", "kraft", "asyncio")

_SHARED: Final = memoryview(bytearray(1 << 20))
"""As on a Kafka listener, connections receive into one buffer."""


class _Answering(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self._head = b""
        self._expected = self._wanted = 0
        self._is_full = False
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return _SHARED

    def buffer_updated(self, nbytes: int) -> None:
        if self._wanted or self._expected:
            self._expected -= nbytes
        else:
            self._head += bytes(_SHARED[:nbytes])
            if len(self._head) < REQUEST.size:
                return
            self._expected, self._wanted = REQUEST.unpack_from(self._head)
            self._expected -= len(self._head) - REQUEST.size
            self._head = b""
        if self._expected == 0:
            self._send()

    def _send(self) -> None:
        while self._wanted and not self._is_full:
            piece = memoryview(PIECE)[: self._wanted]
            self._wanted -= len(piece)
            self._transport.write(piece)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._send()


async def _serve(kind: str, keystore: Path) -> None:
    loop = asyncio.get_running_loop()
    shown = server_context(TlsSettings(key_store=KeyStoreFile(path=keystore)))
    make: Callable[[], asyncio.BaseProtocol] = _Answering
    if kind == "kraft":
        handshakes = Handshakes(TlsBuffers(), lambda _, reason, __: print(reason, file=sys.stderr), _counted, _ended)
        make = partial(ServerHandshake, handshakes, lambda: shown, lambda _: _Answering())
    tls = shown.context if kind == "asyncio" else None
    server = await loop.create_server(make, "127.0.0.1", 0, ssl=tls, backlog=1_024)
    print(server.sockets[0].getsockname()[1], flush=True)
    process = psutil.Process()
    while await loop.run_in_executor(None, sys.stdin.readline):
        times = process.cpu_times()
        print(process.memory_info().rss, times.user + times.system, flush=True)


def _counted(_: object) -> str | None:
    return None


def _ended(_: object) -> None:
    """Nobody counts them."""


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(sys.argv[1], Path(sys.argv[2])))
