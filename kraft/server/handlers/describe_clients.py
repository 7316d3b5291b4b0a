"""DescribeClients: the connections of this broker's clients, at all its listeners."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import chain

from kraft.model.clients import ClientConnection, DescribeClientsRequest, DescribeClientsResponse

Connections = Callable[[], Awaitable[list[ClientConnection]]]
"""Returns the connections of some listeners; others have their turns meanwhile."""


class DescribeClientsHandler:
    def __init__(self) -> None:
        self._shown: list[Connections] = []

    def show(self, connections: Connections) -> None:
        """Show these, too, from now on."""
        self._shown.append(connections)

    async def handle(self, _: DescribeClientsRequest) -> DescribeClientsResponse:
        found = [await connections() for connections in self._shown]
        return DescribeClientsResponse(connections=list(chain.from_iterable(found)))
