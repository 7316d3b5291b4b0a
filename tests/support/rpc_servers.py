"""A real gRPC server on loopback for a test, and connections to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import grpc.aio

from kraft.rpc import calls, topic_calls
from kraft.rpc.peers import PeerConnections
from kraft.rpc.services import SERVER_OPTIONS, Service


class Addable(Protocol):
    def add_to(self, server: grpc.aio.Server) -> None: ...


@asynccontextmanager
async def served(*services: Addable) -> AsyncIterator[tuple[PeerConnections, str]]:
    """Connections, and the address at which the services answer."""
    server = grpc.aio.server(options=SERVER_OPTIONS)
    for service in services:
        service.add_to(server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    connections = PeerConnections()
    try:
        yield connections, f"127.0.0.1:{port}"
    finally:
        await connections.close()
        await server.stop(grace=None)


@asynccontextmanager
async def listening(server: grpc.aio.Server, services: Iterable[Addable], address: str) -> AsyncIterator[int]:
    """Serve at the address; gives the port."""
    for service in services:
        service.add_to(server)
    port = server.add_insecure_port(address)
    await server.start()
    try:
        yield port
    finally:
        await server.stop(grace=None)


def public_service(**answering: Any) -> Service:
    """Serve calls of the public API by their names."""
    rows = {**vars(calls), **vars(topic_calls)}
    return Service(*(rows[name.upper()].served_by(handler) for name, handler in answering.items()))
