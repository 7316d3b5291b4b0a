"""Connections, clock and randomness of a client. Tests replace them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kraft import __version__
from kraft.client.cluster.connections import Connections, PeerNode
from kraft.client.model.errors import ClientClosed
from kraft.client.model.security import OPEN, ClientSecurity
from kraft.client.model.settings import BY_THE_SYSTEM, ClientSettings, WireProtocol
from kraft.runtime.clock import Clock, SystemClock
from kraft.runtime.entropy import Entropy, SystemEntropy

_CHANCE_STEPS: Final = 1 << 20

PYTHON: Final = "kraft-python"
"""What the software of these clients is called where operators list clients."""


class Network:
    """Connections, clock and randomness that a client uses. The client opens the connections on its own event loop."""

    def __init__(
        self,
        connect: Callable[[], Connections] | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        software: str = PYTHON,
    ) -> None:
        """`software` is the name of the program for operators, if it is one of ours; its version is that of Kraft."""
        self._connect = connect
        self._software = software
        self.clock: Clock = clock or SystemClock()
        self.entropy: Entropy = entropy or SystemEntropy()

    def connect(self, settings: ClientSettings) -> Connections:
        """Return the connections of one client. After it has closed them, calls that use them raise ClientClosed."""
        if self._connect is not None:
            connections = self._connect()
        else:
            sizes = settings.send_buffer_bytes, settings.receive_buffer_bytes
            connections = _connections(settings.security, settings.wire_protocol, self._software, sizes)
        return _ClosableConnections(connections, settings.client_id)

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


def shared_network(security: ClientSecurity = OPEN, protocol: WireProtocol = WireProtocol.GRPC) -> Network:
    """Return a network whose clients share connections, which stay open until the process ends.

    For clients that follow one another quickly in one process, all of them synchronous or on one event loop, and all
    with this security.
    """
    connections = _KeptConnections(security, protocol)
    return Network(connect=lambda: connections)


class _KeptConnections:
    """Connections that outlive the clients that use them."""

    def __init__(self, security: ClientSecurity, protocol: WireProtocol) -> None:
        self._security = security
        self._protocol = protocol
        self._connections: Connections | None = None

    def peer(self, address: str, client_id: str = "") -> PeerNode:
        if self._connections is None:
            self._connections = _connections(self._security, self._protocol, PYTHON)
        return self._connections.peer(address, client_id)

    async def close(self) -> None:
        """Leave them open for the next client."""


def _connections(
    security: ClientSecurity,
    protocol: WireProtocol,
    software: str,
    socket_buffers: tuple[int, int] = (BY_THE_SYSTEM, BY_THE_SYSTEM),
) -> Connections:
    """`socket_buffers` are the bytes to send, and to receive; gRPC has none."""
    from kraft.client.cluster.misfits import Misfits

    explain = Misfits(security, protocol).explain
    if protocol is WireProtocol.KAFKA:
        from kraft.client.kafka.connections import KafkaConnections
        from kraft.client.kafka.dialling import SocketBuffers

        send_bytes, receive_bytes = socket_buffers
        sizes = SocketBuffers(send_bytes=send_bytes, receive_bytes=receive_bytes)
        return KafkaConnections(security, explain, software, sizes)
    from kraft.rpc.peers import Dial, dial_openly
    from kraft.rpc.peers import PeerConnections as GrpcConnections

    dial: Dial = dial_openly
    if security.tls is not None or security.sasl is not None:
        # Without security its imports, such as the log of renewed certificates, would take a fifth of a short command.
        from kraft.client.cluster.secure_dialling import dialling

        dial = dialling(security)
    return GrpcConnections(dial, explain, f"{software}/{__version__}")
