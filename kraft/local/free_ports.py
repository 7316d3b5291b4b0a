"""Reserves free ports for nodes against other processes that use this module."""

from __future__ import annotations

import random
import socket
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

from kraft.local.cluster_files import HOST

_LOWEST = 10_000
_EPHEMERAL = 32_768
_EPHEMERAL_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_ATTEMPTS_MAX = 2_000


class ReservedPorts:
    """A context manager for `ports` that are free for TCP, and in no other reservation until `release`.

    The ports that are `offsets` above each of them are reserved, too. Raises OSError if no such ports are found, which
    are sought in `among`, or else below the ports of outgoing connections.
    """

    def __init__(self, count: int, offsets: Sequence[int] = (0,), among: Sequence[int] | None = None) -> None:
        self._claims = ExitStack()
        self.ports: list[int] = []
        candidates = _port_range()
        # Not the global generator: tests seed it, and parallel runs would try the same ports.
        chance = random.SystemRandom()
        for _ in range(_ATTEMPTS_MAX):
            if len(self.ports) == count:
                return
            port = chance.choice(among or candidates[: -max(offsets) or None])
            with suppress(OSError), ExitStack() as claims:
                for offset in offsets:
                    claims.enter_context(_claim(port + offset))
                self._claims.push(claims.pop_all())
                self.ports.append(port)
        self.release()
        raise OSError(f"no {count} free ports found between {candidates.start} and {candidates.stop - 1} on {HOST}")

    def release(self) -> None:
        self._claims.close()

    def __enter__(self) -> list[int]:
        return self.ports

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


def _port_range() -> range:
    """Return ports below those of outgoing connections, which could take the port of a killed node."""
    try:
        first_ephemeral = int(_EPHEMERAL_RANGE_FILE.read_text().split()[0])
    except OSError:
        # Not Linux. The ephemeral ports of other systems begin higher.
        first_ephemeral = _EPHEMERAL
    # If too few ports are left below, use the usual range.
    return range(_LOWEST, min(first_ephemeral, _EPHEMERAL) if first_ephemeral > _LOWEST + 1_000 else _EPHEMERAL)


def _claim(port: int) -> socket.socket:
    """Claim a port by a UDP socket: only one process can have it, and the kernel closes it with the process.

    TCP ports are separate, so a node can listen, end, and listen again meanwhile. Raises OSError if the port is
    claimed, or in use for TCP.
    """
    claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        claim.bind((HOST, port))
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind((HOST, port))
    except OSError:
        claim.close()
        raise
    return claim
