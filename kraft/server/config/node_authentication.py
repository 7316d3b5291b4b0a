"""Checks that nobody on the network is taken for a node of the cluster."""

from __future__ import annotations

from typing import Final

from kraft.model.addresses import is_loopback
from kraft.server.config.conflict import Conflict
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.values import CONTROLLER, GRPC, Listener

_HOW_TO_AUTHENTICATE: Final = (
    "set cluster.secret.file, or listener.security.protocol.map=CONTROLLER:SSL with ssl.keystore.location and"
    " ssl.truststore.location"
)


def check_nodes(config: NodeConfig) -> None:
    """Raise Conflict for a node that would accept anybody on the network as a node of its cluster."""
    if config.security.secret_file is not None:
        return
    if not config.security.controllers_use_tls:
        _check_quorum_is_here(config)
    elif config.is_broker and spans_machines(config) and not _is_here(config.listener(GRPC)):
        raise Conflict(
            "listener.security.protocol.map",
            "CONTROLLER:SSL authenticates nodes on that listener only; brokers also call each other and copy partitions"
            " on other listeners: set cluster.secret.file as well",
        )


def spans_machines(config: NodeConfig) -> bool:
    """Return whether the quorum has, or may have, voters on other machines."""
    return not _is_here(config.listener(CONTROLLER)) or not all(
        is_loopback(voter.host) for voter in config.quorum.voters
    )


def _check_quorum_is_here(config: NodeConfig) -> None:
    """Raise Conflict if the quorum needs a secret or TLS, because each voter controls all metadata."""
    controller = config.listener(CONTROLLER)
    if not _is_here(controller):
        raise Conflict(
            "listeners",
            f"{controller} is open to other machines, so anybody there could join the quorum:"
            f" {_HOW_TO_AUTHENTICATE}; or listen on localhost",
        )
    for voter in config.quorum.voters:
        if not is_loopback(voter.host):
            raise Conflict("controller.quorum.voters", f"{voter} is on another machine: {_HOW_TO_AUTHENTICATE}")


def _is_here(listener: Listener | None) -> bool:
    return listener is None or is_loopback(listener.host)
