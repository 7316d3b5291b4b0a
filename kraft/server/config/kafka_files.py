"""What a file written for Kafka leaves out or says otherwise, so that Kafka's own samples start as they are.

Each change is a warning, which names what to write. Nothing is opened further than the file says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Final

from kraft.model.addresses import is_loopback
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.properties import Property
from kraft.server.config.values import CONTROLLER, GRPC, ConfigWarning, Listener, SecurityProtocol

VOTERS: Final = "controller.quorum.voters"
BOOTSTRAP_SERVERS: Final = "controller.quorum.bootstrap.servers"

INTER_BROKER: Final = "inter.broker.listener.name"

LOOPBACK: Final = "localhost"
GRPC_PORT: Final = 9094
_PORTS_OF_NODE: Final = 3
"""For Kafka's clients, for controllers, and for brokers and Kraft's own."""


def with_voters(settings: Mapping[str, Property]) -> tuple[Mapping[str, Property], list[ConfigWarning]]:
    """Add the voters that follow from the file: the node itself, if its own address is the only one that is named.

    Kafka's files name controllers without their ids (KIP-853). A host that other machines know may stand for several
    controllers, or for the first of them, and a node that voted alone would form a cluster of its own.
    """
    addresses, node_id = named_without_ids(settings), settings.get("node.id") or settings.get("broker.id")
    if VOTERS in settings or node_id is None or not _has_role(settings, "controller"):
        return settings, []
    if len(addresses) != 1 or not _is_own(addresses[0], settings):
        return settings, []
    voters = f"{node_id.value.strip()}@{addresses[0]}"
    warning = ConfigWarning(VOTERS, f"is not set: this node is the only controller, as with {VOTERS}={voters}")
    return {**settings, VOTERS: Property(VOTERS, voters, settings[BOOTSTRAP_SERVERS].line)}, [warning]


def named_without_ids(settings: Mapping[str, Property]) -> list[str]:
    """Return the addresses of controller.quorum.bootstrap.servers."""
    servers = settings.get(BOOTSTRAP_SERVERS)
    return [] if servers is None else [each.strip() for each in servers.value.split(",") if each.strip()]


def _is_own(address: str, settings: Mapping[str, Property]) -> bool:
    """Return whether it is the address of this node's CONTROLLER listener, on this machine."""
    host, _, port = address.rpartition(":")
    listeners = settings.get("listeners")
    ports = [
        each.rpartition(":")[2].strip()
        for each in (listeners.value.split(",") if listeners is not None else ())
        if each.strip().startswith(f"{CONTROLLER}://")
    ]
    return is_loopback(host) and ports == [port]


def _has_role(settings: Mapping[str, Property], role: str) -> bool:
    roles = settings.get("process.roles")
    return roles is not None and role in (each.strip() for each in roles.value.split(","))


def completed(config: NodeConfig) -> tuple[NodeConfig, list[ConfigWarning]]:
    """Add or narrow listeners of a node whose quorum is on this machine."""
    warnings: list[ConfigWarning] = []
    named = config.settings.get(INTER_BROKER, GRPC)
    if named != GRPC:
        warnings.append(ConfigWarning(INTER_BROKER, f"{named} has no effect: brokers call each other at {GRPC}"))
    if not all(is_loopback(voter.host) for voter in config.quorum.voters):
        return config, warnings
    listeners = config.listeners
    if config.is_broker and config.listener(GRPC) is None and config.kafka_listeners:
        own = Listener(name=GRPC, host=LOOPBACK, port=_port_of_grpc(config))
        listeners = (*listeners, own)
        warnings.append(
            ConfigWarning(
                "listeners", f"has no {GRPC} listener, which brokers and the kraft command use: {own} is added"
            )
        )
    controller = config.listener(CONTROLLER)
    if controller is not None and not controller.host and not _authenticates(config):
        narrowed = replace(controller, host=LOOPBACK)
        listeners = tuple(narrowed if each is controller else each for each in listeners)
        warnings.append(
            ConfigWarning(
                "listeners",
                f"{controller} is opened as {narrowed}: for controllers on other machines, set cluster.secret.file",
            )
        )
    narrow_config, narrowings = _narrowed(replace(config, listeners=listeners))
    return narrow_config, [*warnings, *narrowings]


def _port_of_grpc(config: NodeConfig) -> int:
    """Return the usual port, or, for a node that has higher ones, the next: beside it others may run.

    Where the ports of the controllers leave no room between them, each node has one above all of these.
    """
    highest = max(listener.port for listener in config.bound)
    taken = sorted(voter.port for voter in config.quorum.voters)
    if any(after - before < _PORTS_OF_NODE for before, after in pairwise(taken)):
        ids = sorted(voter.node_id for voter in config.quorum.voters)
        return max(highest, *taken) + 1 + sum(each < config.node_id for each in ids)
    first = max(GRPC_PORT, highest + 1)
    return next(port for port in range(first, first + len(taken) + 1) if port not in taken)


def _narrowed(config: NodeConfig) -> tuple[NodeConfig, list[ConfigWarning]]:
    """Open listeners on loopback that are for any interface, and send their clients to loopback.

    Kafka's samples have such a listener without authentication, the older ones without saying where clients find it.
    Clients on other machines could not use it anyway.
    """
    warnings, listeners = [], list(config.listeners)
    for index, listener in enumerate(listeners):
        advertised = config.advertised(listener.name)
        is_open = config.security.protocol_of(listener.name) is SecurityProtocol.PLAINTEXT
        is_meant = listener.name in config.security.unauthenticated_listeners
        if listener.name == CONTROLLER or listener.host or is_meant or not is_open:
            continue
        if advertised is None or is_loopback(advertised.host):
            listeners[index] = replace(listener, host=LOOPBACK)
            reason = "no address is advertised" if advertised is None else f"it sends its clients to {advertised}"
            warnings.append(
                ConfigWarning(
                    "listeners",
                    f"{listener} is opened as {listeners[index]}, because {reason}: for clients on other machines,"
                    " advertise another address, and let them log in",
                )
            )
    return replace(config, listeners=tuple(listeners)), warnings


def _authenticates(config: NodeConfig) -> bool:
    return config.security.secret_file is not None or config.security.controllers_use_tls
