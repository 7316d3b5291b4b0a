"""A port of this machine that forwards to another one, as a proxy, a tunnel or a container's port does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from kraft.local.cluster_files import HOST


@asynccontextmanager
async def forwarded(port: int) -> AsyncIterator[int]:
    """Forward a port; return the new one. To a node, its callers come from this machine."""
    ends: list[asyncio.StreamWriter] = []
    connections: list[asyncio.Task[None]] = []

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(HOST, port)
        ends.extend((writer, back))
        connections.extend(map(asyncio.create_task, (_copy(reader, back), _copy(there, writer))))

    server = await asyncio.start_server(forward, HOST, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for end in ends:
            end.transport.abort()
        await asyncio.gather(*connections)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
