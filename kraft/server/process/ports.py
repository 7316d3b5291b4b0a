"""Whether a node could listen where its configuration says, asked before it tries.

gRPC tells a taken port in several lines of its own, and only after the node has opened everything else.
"""

from __future__ import annotations

import errno
import socket

from kraft.server.config.loading import ConfigError
from kraft.server.config.node_config import NodeConfig

_TAKEN = "the port is in use"


class CannotListen(ConfigError):
    """An address that is taken, or is not this machine's: one line, with the remedy."""


def check_listeners(config: NodeConfig) -> None:
    """Raises CannotListen for the first listener that another process has, or that is not of this machine."""
    for listener in config.listeners:
        if reason := why_not_free(listener.host, listener.port):
            raise CannotListen(
                f"cannot listen on {listener.address} for {listener.name}: {reason}: "
                f"stop what has the port, or change listeners in {config.file}"
            )


def why_not_free(host: str, port: int) -> str | None:
    """Why nobody could listen there now; None when it is free. An empty host is every interface."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        return f"the host name cannot be resolved ({error.strerror})"
    reasons = [_why_not_bound(family, address) for family, _, _, _, address in found]
    if _TAKEN in reasons:
        return _TAKEN
    # A name may stand for an IPv6 address too, which this machine need not have: one that works is enough.
    return None if None in reasons else reasons[0]


def _why_not_bound(family: int, address: tuple[object, ...]) -> str | None:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # As the node itself does: a connection that is still being forgotten is not in the way.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            # Without this, SO_REUSEADDR lets two sockets bind as long as neither listens.
            probe.listen(1)
    except OSError as error:
        return _TAKEN if error.errno == errno.EADDRINUSE else error.strerror or str(error)
    return None
