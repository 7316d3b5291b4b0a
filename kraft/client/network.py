"""Connections, clock and randomness of a client. Tests replace them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kraft.client.ports import Connections
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
        self.connect: Callable[[], Connections] = connect or _grpc_connections
        self.clock: Clock = clock or SystemClock()
        self.entropy: Entropy = entropy or SystemEntropy()

    def chance(self) -> float:
        """Return a random number from 0 to 1."""
        return self.entropy.below(_CHANCE_STEPS) / _CHANCE_STEPS


def _grpc_connections() -> Connections:
    from kraft.rpc.peers import Connections as GrpcConnections

    return GrpcConnections()
