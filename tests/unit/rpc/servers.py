"""A real gRPC server on loopback for a test, and connections to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields
from typing import Any, Protocol

import grpc.aio

from kraft.rpc.peers import Connections
from kraft.rpc.services import (
    SERVER_OPTIONS,
    AdminHandlers,
    AdminService,
    BrokerHandlers,
    BrokerService,
    ClusterAdminHandlers,
    PartitionAdminHandlers,
)


class Service(Protocol):
    def add_to(self, server: grpc.aio.Server) -> None: ...


@asynccontextmanager
async def served(*services: Service) -> AsyncIterator[tuple[Connections, str]]:
    """Connections, and the address at which the services answer."""
    server = grpc.aio.server(options=SERVER_OPTIONS)
    for service in services:
        service.add_to(server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    connections = Connections()
    try:
        yield connections, f"127.0.0.1:{port}"
    finally:
        await connections.close()
        await server.stop(grace=None)


async def unasked(*_: object) -> Any:
    raise AssertionError("nobody asks for this here")


def broker_service(**answering: Any) -> BrokerService:
    """A Broker service whose other calls are asked by nobody."""
    names = [field.name for field in fields(BrokerHandlers)]
    return BrokerService(BrokerHandlers(**{name: answering.get(name, unasked) for name in names}))


def admin_service(**answering: Any) -> AdminService:
    """An Admin service whose other calls are asked by nobody."""
    groups = {"cluster": ClusterAdminHandlers, "partitions": PartitionAdminHandlers}
    grouped = {group: kind(**_handlers(kind, answering)) for group, kind in groups.items()}
    own = {name: handler for name, handler in _handlers(AdminHandlers, answering).items() if name not in groups}
    return AdminService(AdminHandlers(**own, **grouped))


def _handlers(kind: type[Any], answering: dict[str, Any]) -> dict[str, Any]:
    return {field.name: answering.get(field.name, unasked) for field in fields(kind)}
