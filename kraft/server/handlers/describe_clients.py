"""DescribeClients: the connections of this broker's clients."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kraft.model.clients import ClientConnection, DescribeClientsRequest, DescribeClientsResponse

Connections = Callable[[], Awaitable[list[ClientConnection]]]
"""Returns the connections of Kafka's listeners; others have their turns meanwhile."""


class DescribeClientsHandler:
    def __init__(self) -> None:
        self._connections: Connections = _none

    def show(self, connections: Connections) -> None:
        """Show these from now on. Until then, and of a broker without listeners of Kafka's protocol, there are none."""
        self._connections = connections

    async def handle(self, _: DescribeClientsRequest) -> DescribeClientsResponse:
        return DescribeClientsResponse(connections=await self._connections())


async def _none() -> list[ClientConnection]:
    return []
