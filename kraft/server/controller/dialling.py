"""Checks whether an address refuses connections: the fastest way to tell a dead process from a slow one."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from kraft.model.endpoint import Endpoint

DIAL_TIMEOUT_S: Final = 1.0
PORT_MAX: Final = 65_535

_NOT_OF_THIS_MACHINE: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT)
"""Errors of this machine: a name may also resolve to an IPv6 address that this machine cannot reach, which says nothing
about the other process."""


NobodyListens = Callable[[Sequence[Endpoint]], Awaitable[bool]]


async def nobody_listens(endpoints: Sequence[Endpoint]) -> bool:
    """Return whether all of these addresses refuse connections; False if one accepts or does not answer."""
    if not endpoints:
        return False
    try:
        async with asyncio.timeout(DIAL_TIMEOUT_S):
            for endpoint in endpoints:
                if not await _is_refused(endpoint.host, endpoint.port):
                    return False
    except (TimeoutError, OSError, ValueError):
        # Other failures, such as no route or an unknown name, prove nothing.
        return False
    return True


async def _is_refused(host: str, port: int) -> bool:
    loop = asyncio.get_running_loop()
    refused = False
    if not 0 < port <= PORT_MAX:
        # The resolver would cut the number to 16 bits.
        raise ValueError(f"port {port} is not in 1 to {PORT_MAX}")
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
