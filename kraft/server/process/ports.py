"""Checks that a node can listen at its configured addresses, before it tries.

gRPC reports a used port in several lines of its own, and only after the node has opened everything else.
"""

from __future__ import annotations

import errno
import socket

from kraft.server.config.loading import ConfigError
from kraft.server.config.node_config import NodeConfig

_IN_USE = "the port is in use"


class CannotListen(ConfigError):
    """An address is in use, or does not belong to this machine; one line, with the remedy."""


def check_listeners(config: NodeConfig) -> None:
    """Raise CannotListen for the first listener whose address is in use, or does not belong to this machine."""
    for listener in config.bound:
        if reason := why_not_free(listener.host, listener.port):
            of_process = f" of process {config.node_id}" if config.processes > 1 else ""
            problem = f"cannot listen on {listener.address} for {listener.name}{of_process}: {reason}"
            remedy = "stop the process that uses it, or change" if reason == _IN_USE else "correct"
            key = "metrics.address" if listener is config.metrics.address else "listeners"
            raise CannotListen(f"{problem}: {remedy} {key} in {config.file}")


def why_not_free(host: str, port: int) -> str | None:
    """Return why the address cannot be listened on; None if it is free. An empty host is every interface."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        return f"the host name cannot be resolved ({error.strerror})"
    except UnicodeError:
        return "the host name is invalid: its parts have 1 to 63 characters"
    reasons = [_why_not_bound(family, address) for family, _, _, _, address in found]
    if _IN_USE in reasons:
        return _IN_USE
    # A name may also mean an IPv6 address that this machine does not have: one that works is enough.
    return None if None in reasons else reasons[0]


def _why_not_bound(family: int, address: tuple[object, ...]) -> str | None:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # As the node itself does, so that connections in TIME_WAIT do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            # SO_REUSEADDR lets two sockets bind as long as neither listens.
            probe.listen(1)
    except OSError as error:
        return _IN_USE if error.errno == errno.EADDRINUSE else error.strerror or str(error)
    return None
