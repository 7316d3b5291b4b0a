"""Checks of settings that are valid alone and contradict each other.

They run before the node starts: a contradiction would otherwise show much later and elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kraft.metadata.group_configs import GROUP_CONFIGS
from kraft.server.config.conflict import Conflict
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.readers import MIB
from kraft.server.config.security_checks import SECURITY_CHECKS
from kraft.server.config.values import CONTROLLER, GRPC, Listener


def advertised_listeners(config: NodeConfig) -> tuple[Listener, ...]:
    """Return an address for each listener that clients use: its `advertised.listeners`, or the listener itself.

    Raises Conflict for an address that no client can connect to.
    """
    for listener in config.advertised_listeners:
        if config.listener(listener.name) is None:
            raise Conflict(
                "advertised.listeners",
                f"advertises {listener.name}, which is not in listeners: add it there or remove it here",
            )
    advertised = []
    for listener in config.listeners:
        if listener.name == CONTROLLER:
            # Controllers are reached at controller.quorum.voters; Kafka's sample file advertises them, too.
            continue
        configured = config.advertised(listener.name)
        if (configured or listener).is_wildcard:
            key = "advertised.listeners" if configured else "listeners"
            raise Conflict(
                key,
                f"{configured or listener} means every interface, and clients need one address: "
                f"advertise a host name, as in advertised.listeners={listener.name}://broker-1.example:{listener.port}",
            )
        advertised.append(configured or listener)
    return tuple(advertised)


def _check_listeners_fit_roles(config: NodeConfig) -> None:
    own_address = next((each.address for each in config.quorum.voters if each.node_id == config.node_id), "")
    for named, is_needed, role, example in (
        (GRPC, config.is_broker, "broker", "GRPC://localhost:9094"),
        (CONTROLLER, config.is_controller, "controller", f"CONTROLLER://{own_address or 'localhost:9093'}"),
    ):
        if is_needed and config.listener(named) is None:
            raise Conflict("listeners", f"a {role} needs a listener {named}: add {example}")
        if not is_needed and config.listener(named) is not None:
            raise Conflict(
                "listeners", f"{named} is served by a {role} only: remove it, or add {role} to process.roles"
            )
    for listener in () if config.is_broker else config.kafka_listeners:
        raise Conflict(
            "listeners", f"{listener.name} is served by a broker only: remove it, or add broker to process.roles"
        )


def _check_ports(config: NodeConfig) -> None:
    for index, listener in enumerate(config.bound):
        for other in config.bound[:index]:
            if listener.port == other.port:
                key = "metrics.address" if listener is config.metrics.address else "listeners"
                raise Conflict(key, f"{other.name} and {listener.name} have the same port {listener.port}: change one")


def _check_directories(config: NodeConfig) -> None:
    # With links resolved: two names of one directory are one directory.
    real = [(directory, Path(os.path.realpath(directory))) for directory in config.log_dirs]
    for index, (directory, place) in enumerate(real):
        for other, other_place in real[:index]:
            if place == other_place:
                raise Conflict("log.dirs", f"{directory} is named twice: name each directory once")
            if place.is_relative_to(other_place) or other_place.is_relative_to(place):
                raise Conflict(
                    "log.dirs", f"one of {other} and {directory} is inside the other: name separate directories"
                )


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
    if controller is None and not config.is_controller:
        raise Conflict(
            "controller.quorum.voters",
            f"names this node, {voter}, which is not a controller: add controller to process.roles or remove the voter",
        )
    if controller is not None and voter.port != controller.port:
        raise Conflict(
            "controller.quorum.voters",
            f"names {voter} for this node, whose listener is {controller}: use the same port",
        )


def _check_replicas(config: NodeConfig) -> None:
    topics = config.topics
    if topics.configs.min_insync_replicas > topics.replication_factor:
        raise Conflict(
            "min.insync.replicas",
            f"above default.replication.factor={topics.replication_factor}, so new topics could not have that many "
            "in-sync replicas: lower it, or raise the replication factor",
        )


def _check_times(config: NodeConfig) -> None:
    if config.broker.heartbeat_interval_ms * 2 > config.broker.session_timeout_ms:
        raise Conflict(
            "broker.heartbeat.interval.ms",
            f"above half of broker.session.timeout.ms={config.broker.session_timeout_ms}, so one late heartbeat would "
            "fence the broker: lower it",
        )
    if config.replication.fetch_wait_max_ms >= config.replication.lag_time_max_ms:
        raise Conflict(
            "replica.fetch.wait.max.ms",
            f"not below replica.lag.time.max.ms={config.replication.lag_time_max_ms}, so a follower that waits for "
            "records would leave the ISR: lower it",
        )


def _check_quorum_times(config: NodeConfig) -> None:
    quorum = config.quorum
    silence_ms = quorum.fetch_timeout_ms or quorum.election_timeout_ms
    silence_key = f"controller.quorum.{'fetch' if quorum.fetch_timeout_ms else 'election'}.timeout.ms={silence_ms}"
    if quorum.append_linger_ms * 4 > silence_ms:
        raise Conflict(
            "controller.quorum.append.linger.ms",
            f"above a quarter of {silence_key}, so metadata changes would wait almost as long as an election: lower it",
        )
    if (quorum.election_backoff_ms_max or 0) > quorum.election_timeout_ms:
        raise Conflict(
            "controller.quorum.election.backoff.max.ms",
            f"above controller.quorum.election.timeout.ms={quorum.election_timeout_ms}: lower it",
        )


def _check_group_times(config: NodeConfig) -> None:
    classic, consumer = config.groups.classic, config.groups.consumer
    if classic.session_timeout_min_ms > classic.session_timeout_max_ms:
        raise _above("group.min.session.timeout.ms", "group.max.session.timeout.ms", classic.session_timeout_max_ms)
    for declared in GROUP_CONFIGS.values():
        value, least, most = (
            getattr(each, declared.field_name)
            for each in (consumer, config.group_bounds.least, config.group_bounds.most)
        )
        minimum, maximum = declared.least_key.name, declared.most_key.name
        if least > most:
            raise _above(minimum, maximum, most)
        if not least <= value <= most:
            raise Conflict(
                declared.default_key.name, f"not between {minimum}={least} and {maximum}={most}: change one of them"
            )
    if consumer.heartbeat_interval_ms >= consumer.session_timeout_ms:
        raise Conflict(
            "group.consumer.heartbeat.interval.ms",
            f"not below group.consumer.session.timeout.ms={consumer.session_timeout_ms}, so members would be removed "
            "between two heartbeats: lower it",
        )


def _above(minimum: str, maximum: str, most: int) -> Conflict:
    return Conflict(minimum, f"above {maximum}={most}: lower it, or raise the other")


def _check_sizes(config: NodeConfig) -> None:
    if config.topics.configs.max_message_bytes >= config.network.request_bytes_max:
        raise Conflict(
            "message.max.bytes",
            f"not below socket.request.max.bytes={config.network.request_bytes_max}, so a batch of that size could not "
            "be received: lower it",
        )


def _check_cleaner(config: NodeConfig) -> None:
    maintenance = config.log_maintenance
    if maintenance.cleaner_dedupe_buffer_bytes < maintenance.cleaner_threads * MIB:
        raise Conflict(
            "log.cleaner.dedupe.buffer.size",
            f"below 1 MiB for each of log.cleaner.threads={maintenance.cleaner_threads}, so each pass over a log would "
            "clean only a few keys: raise it",
        )


CHECKS: Final[tuple[Callable[[NodeConfig], None], ...]] = (
    _check_listeners_fit_roles,
    *SECURITY_CHECKS,
    _check_ports,
    _check_directories,
    _check_voters,
    _check_replicas,
    _check_times,
    _check_quorum_times,
    _check_group_times,
    _check_sizes,
    _check_cleaner,
)
"""Each raises Conflict for the first contradiction that it finds."""
