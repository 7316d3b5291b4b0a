"""Whether anybody listens at an address: the shortest way to tell a process that is gone from one that is slow."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Sequence
from typing import Final

from kraft.model.endpoint import Endpoint

DIAL_TIMEOUT_S: Final = 1.0
PORT_MAX: Final = 65_535

_NOT_OF_THIS_MACHINE: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT)
"""A name may stand for an IPv6 address, too, which this machine has no way to: that tells nothing about the other."""


async def nobody_listens(endpoints: Sequence[Endpoint]) -> bool:
    """True when every one of these addresses refuses connections; False when any does not, or does not answer."""
    if not endpoints:
        return False
    try:
        async with asyncio.timeout(DIAL_TIMEOUT_S):
            for endpoint in endpoints:
                if not await _is_refused(endpoint.host, endpoint.port):
                    return False
    except (TimeoutError, OSError, ValueError):
        # Whatever else kept the connection from being made proves nothing: no route, an unknown name, no address.
        return False
    return True


async def _is_refused(host: str, port: int) -> bool:
    loop = asyncio.get_running_loop()
    refused = False
    if not 0 < port <= PORT_MAX:
        # The resolver would take what is left of it in 16 bits.
        raise ValueError(f"no port has the number {port}")
    for family, kind, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        try:
            with socket.socket(family, kind, protocol) as dialled:
                dialled.setblocking(False)
                await loop.sock_connect(dialled, address)
        except ConnectionRefusedError:
            refused = True
        except OSError as error:
            if error.errno not in _NOT_OF_THIS_MACHINE:
                raise
        else:
            return False
    return refused
