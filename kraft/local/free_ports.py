"""Ports for nodes to be, kept from others until the nodes take them."""

from __future__ import annotations

import random
import socket

from kraft.local.cluster_files import HOST

# Below the range from which the kernel takes ports for outgoing connections (32768 to 60999 by default): a port from
# that range may be gone when a killed node comes back for it.
_LOWEST, _HIGHEST = 15_000, 31_999
_ATTEMPTS_MAX = 1_000


class ReservedPorts:
    """Ports bound, but not listened on, until `release`: other reservations, of other processes too, pass them by."""

    def __init__(self, count: int) -> None:
        self._sockets: list[socket.socket] = []
        self.ports: list[int] = []
        # Not the global generator: tests seed it, and parallel runs would all try the same ports.
        chance = random.SystemRandom()
        for _ in range(_ATTEMPTS_MAX):
            if len(self.ports) == count:
                return
            self._try(chance.randint(_LOWEST, _HIGHEST))
        self.release()
        raise OSError(f"no {count} free ports found between {_LOWEST} and {_HIGHEST} on {HOST}")

    def release(self) -> None:
        while self._sockets:
            self._sockets.pop().close()

    def _try(self, port: int) -> None:
        reservation = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            reservation.bind((HOST, port))
        except OSError:
            reservation.close()
            return
        self._sockets.append(reservation)
        self.ports.append(port)
