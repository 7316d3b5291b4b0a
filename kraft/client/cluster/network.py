"""Connections, clock and randomness of a client. Tests replace them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kraft.client.cluster.connections import Connections, PeerNode
from kraft.client.model.errors import ClientClosed
from kraft.runtime.clock import Clock, SystemClock
from kraft.runtime.entropy import Entropy, SystemEntropy

_CHANCE_STEPS: Final = 1 << 20


class Network:
    """Connections, clock and randomness that a client uses. The client opens the connections on its own event loop."""

    def __init__(
        self,
        connect: Callable[[], Connections] | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self._connect = connect or _grpc_connections
        self.clock: Clock = clock or SystemClock()
        self.entropy: Entropy = entropy or SystemEntropy()

    def connect(self, client_id: str) -> Connections:
        """Return the connections of one client. After it has closed them, calls that use them raise ClientClosed."""
        return _ClosableConnections(self._connect(), client_id)

    def chance(self) -> float:
        """Return a random number from 0 to 1."""
        return self.entropy.below(_CHANCE_STEPS) / _CHANCE_STEPS


class _ClosableConnections:
    """Connections that are not opened again after the client has closed them. Its calls say what it calls itself."""

    def __init__(self, connections: Connections, client_id: str) -> None:
        self._connections = connections
        self._client_id = client_id
        self._is_closed = False

    def peer(self, address: str, client_id: str = "") -> PeerNode:
        if self._is_closed:
            raise ClientClosed("the client is closed")
        return self._connections.peer(address, client_id or self._client_id)

    async def close(self) -> None:
        self._is_closed = True
        await self._connections.close()


def shared_network() -> Network:
    """Return a network whose clients share connections, which stay open until the process ends.

    For clients that follow one another quickly in one process, all of them synchronous or on one event loop.
    """
    connections = _KeptConnections()
    return Network(connect=lambda: connections)


class _KeptConnections:
    """Connections that outlive the clients that use them."""

    def __init__(self) -> None:
        self._connections: Connections | None = None

    def peer(self, address: str, client_id: str = "") -> PeerNode:
        if self._connections is None:
            self._connections = _grpc_connections()
        return self._connections.peer(address, client_id)

    async def close(self) -> None:
        """Leave them open for the next client."""


def _grpc_connections() -> Connections:
    from kraft.rpc.peers import PeerConnections as GrpcConnections

    return GrpcConnections()
