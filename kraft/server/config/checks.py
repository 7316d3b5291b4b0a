"""Settings that are each well formed and do not fit together.

Found here, before the node starts, because each of them would otherwise show much later and somewhere else.
"""

from __future__ import annotations

import os
from pathlib import Path

from kraft.server.config.node_config import NodeConfig
from kraft.server.config.readers import MIB
from kraft.server.config.values import CONTROLLER, GRPC, PLAINTEXT, ConfigWarning, Listener, is_loopback

_HOW_NODES_KNOW_EACH_OTHER = (
    "set cluster.secret.file, or listener.security.protocol.map=CONTROLLER:SSL with ssl.keystore.location and"
    " ssl.truststore.location"
)


class Conflict(Exception):
    """The key to name, and what to change."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key
        self.reason = reason


def check(config: NodeConfig) -> None:
    """Raises Conflict for the first thing that does not fit."""
    _check_listeners_fit_roles(config)
    _check_protocols(config)
    _check_ports(config)
    _check_directories(config)
    _check_voters(config)
    _check_replicas(config)
    _check_times(config)
    _check_quorum_times(config)
    _check_sizes(config)
    _check_cleaner(config)


def advertised_listeners(config: NodeConfig) -> tuple[Listener, ...]:
    """One for each listener that clients use: what `advertised.listeners` says of it, or the listener itself.

    Raises Conflict for one that no client could dial.
    """
    for listener in config.advertised_listeners:
        if config.listener(listener.name) is None:
            raise Conflict("advertised.listeners", f"advertises {listener.name}, which listeners does not name")
    advertised = []
    for listener in config.listeners:
        if listener.name == CONTROLLER:
            # controller.quorum.voters says where controllers are reached; Kafka's sample file names it here too.
            continue
        said = config.advertised(listener.name)
        if (said or listener).is_wildcard:
            key = "advertised.listeners" if said else "listeners"
            raise Conflict(
                key,
                f"{said or listener} is every interface, which no client can dial: "
                f"advertise a host name, as in advertised.listeners={listener.name}://broker-1.example:{listener.port}",
            )
        advertised.append(said or listener)
    return tuple(advertised)


def check_security(config: NodeConfig) -> None:
    """Raises Conflict for a node that would take anybody on the network for one of its cluster."""
    security = config.security
    stores = {
        "ssl.keystore.location": security.keystore_file,
        "ssl.truststore.location": security.truststore_file,
    }
    for key, store in stores.items():
        if security.controllers_use_tls and store is None:
            raise Conflict("listener.security.protocol.map", f"CONTROLLER:SSL needs {key}, a PEM file")
        if not security.controllers_use_tls and store is not None:
            raise Conflict(key, "has no effect without listener.security.protocol.map=CONTROLLER:SSL: add that line")
    if security.secret_file is not None:
        return
    if not security.controllers_use_tls:
        _check_quorum_is_here(config)
    elif config.is_broker and spans_machines(config) and not _is_here(config.listener(GRPC)):
        raise Conflict(
            "listener.security.protocol.map",
            "keeps strangers from the controllers only; brokers copy partitions from each other over GRPC, which has"
            " no TLS: set cluster.secret.file as well",
        )


def security_warnings(config: NodeConfig) -> list[ConfigWarning]:
    warnings = [
        ConfigWarning(
            "listeners",
            f"{listener} is open to other machines: whoever reaches it may read, write and administer, since"
            " clients are not authenticated yet; keep it in a trusted network",
        )
        for listener in config.kafka_listeners
        if not _is_here(listener)
    ]
    grpc = config.listener(GRPC)
    if grpc is not None and not _is_here(grpc) and config.security.secret_file is None:
        warnings.append(
            ConfigWarning(
                "listeners",
                f"{grpc} is open to other machines: clients there are served, brokers there are not, unless every node"
                " has cluster.secret.file",
            )
        )
    return warnings


def _check_quorum_is_here(config: NodeConfig) -> None:
    """Raises Conflict where a secret or TLS is needed: in the quorum, everybody decides about everything."""
    controller = config.listener(CONTROLLER)
    if not _is_here(controller):
        raise Conflict(
            "listeners",
            f"{controller} is open to other machines, so anybody there could take part in the quorum:"
            f" {_HOW_NODES_KNOW_EACH_OTHER}; or listen on localhost",
        )
    for voter in config.quorum.voters:
        if not is_loopback(voter.host):
            raise Conflict("controller.quorum.voters", f"{voter} is on another machine: {_HOW_NODES_KNOW_EACH_OTHER}")


def spans_machines(config: NodeConfig) -> bool:
    """Whether the quorum has, or may have, voters on other machines."""
    return not _is_here(config.listener(CONTROLLER)) or not all(
        is_loopback(voter.host) for voter in config.quorum.voters
    )


def _is_here(listener: Listener | None) -> bool:
    return listener is None or is_loopback(listener.host)


def _check_listeners_fit_roles(config: NodeConfig) -> None:
    for named, is_needed, role, example in (
        (GRPC, config.is_broker, "broker", "GRPC://localhost:9094"),
        (CONTROLLER, config.is_controller, "controller", "CONTROLLER://localhost:9093"),
    ):
        if is_needed and config.listener(named) is None:
            raise Conflict("listeners", f"a {role} needs a listener {named}, for example {example}")
        if not is_needed and config.listener(named) is not None:
            raise Conflict(
                "listeners", f"{named} is served by a {role} only: remove it, or add {role} to process.roles"
            )
    for listener in () if config.is_broker else config.kafka_listeners:
        raise Conflict(
            "listeners", f"{listener.name} is served by a broker only: remove it, or add broker to process.roles"
        )


def _check_protocols(config: NodeConfig) -> None:
    protocols = {PLAINTEXT: PLAINTEXT, **dict(config.security.protocols)}
    for listener in config.listeners:
        name = listener.name
        if name not in protocols and name not in (GRPC, CONTROLLER):
            raise Conflict(
                "listeners",
                f"{name} is neither GRPC nor CONTROLLER, and for a listener of Kafka's protocol other than PLAINTEXT "
                f"listener.security.protocol.map has to name the security protocol: add {name}:PLAINTEXT there",
            )
        if name != CONTROLLER and protocols.get(name, PLAINTEXT) != PLAINTEXT:
            raise Conflict(
                "listener.security.protocol.map",
                f"security is not built yet for clients, and is not pretended: {name} can be mapped to PLAINTEXT only",
            )


def _check_ports(config: NodeConfig) -> None:
    for index, listener in enumerate(config.listeners):
        for other in config.listeners[:index]:
            if listener.port == other.port:
                raise Conflict("listeners", f"{other.name} and {listener.name} both ask for port {listener.port}")


def _check_directories(config: NodeConfig) -> None:
    # With its links followed: two names of one directory are one directory.
    real = [(directory, Path(os.path.realpath(directory))) for directory in config.log_dirs]
    for index, (directory, place) in enumerate(real):
        for other, other_place in real[:index]:
            if place == other_place:
                raise Conflict("log.dirs", f"{directory} is there twice: name each directory once")
            if place.is_relative_to(other_place) or other_place.is_relative_to(place):
                raise Conflict("log.dirs", f"{other} and {directory} lie inside each other: name separate directories")


def _check_voters(config: NodeConfig) -> None:
    voter = next((voter for voter in config.quorum.voters if voter.node_id == config.node_id), None)
    controller = config.listener(CONTROLLER)
    if voter is None:
        if controller is not None:
            raise Conflict(
                "controller.quorum.voters",
                f"does not name this node: a controller votes, so add {config.node_id}@host:{controller.port}",
            )
        return
    if controller is None:
        raise Conflict(
            "controller.quorum.voters",
            f"names this node, {voter}, which is no controller: add controller to process.roles, or remove the voter",
        )
    if voter.port != controller.port:
        raise Conflict(
            "controller.quorum.voters",
            f"says {voter} for this node, whose listener is {controller}: the ports must be the same",
        )


def _check_replicas(config: NodeConfig) -> None:
    topics = config.topics
    if topics.configs.min_insync_replicas > topics.replication_factor:
        raise Conflict(
            "min.insync.replicas",
            f"above default.replication.factor={topics.replication_factor}: no record could ever be acknowledged; "
            "lower the one or raise the other",
        )


def _check_times(config: NodeConfig) -> None:
    if config.broker.heartbeat_interval_ms * 2 > config.broker.session_timeout_ms:
        raise Conflict(
            "broker.heartbeat.interval.ms",
            f"above half of broker.session.timeout.ms={config.broker.session_timeout_ms}: "
            "one late heartbeat would fence the broker",
        )
    if config.replication.fetch_wait_max_ms >= config.replication.lag_time_max_ms:
        raise Conflict(
            "replica.fetch.wait.max.ms",
            f"not below replica.lag.time.max.ms={config.replication.lag_time_max_ms}: "
            "a follower that waits for records would leave the ISR",
        )


def _check_quorum_times(config: NodeConfig) -> None:
    quorum = config.quorum
    silence_ms = quorum.fetch_timeout_ms or quorum.election_timeout_ms
    silence_key = f"controller.quorum.{'fetch' if quorum.fetch_timeout_ms else 'election'}.timeout.ms={silence_ms}"
    if quorum.append_linger_ms * 4 > silence_ms:
        raise Conflict(
            "controller.quorum.append.linger.ms",
            f"above a quarter of {silence_key}: metadata changes would wait as long as the loss of a leader takes",
        )
    if (quorum.election_backoff_ms_max or 0) > quorum.election_timeout_ms:
        raise Conflict(
            "controller.quorum.election.backoff.max.ms",
            f"above controller.quorum.election.timeout.ms={quorum.election_timeout_ms}: a controller asks again sooner",
        )


def _check_sizes(config: NodeConfig) -> None:
    if config.topics.configs.max_message_bytes >= config.network.request_bytes_max:
        raise Conflict(
            "message.max.bytes",
            f"not below socket.request.max.bytes={config.network.request_bytes_max}: "
            "a batch of that size would never get in",
        )


def _check_cleaner(config: NodeConfig) -> None:
    maintenance = config.log_maintenance
    if maintenance.cleaner_dedupe_buffer_bytes < maintenance.cleaner_threads * MIB:
        raise Conflict(
            "log.cleaner.dedupe.buffer.size",
            f"below 1 MiB for each of log.cleaner.threads={maintenance.cleaner_threads}: "
            "a log would be read over and over, for a few keys at a time",
        )
