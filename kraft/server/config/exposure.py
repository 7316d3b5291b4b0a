"""Listeners for clients that other machines can reach: closed, unless the file or the environment says otherwise.

A listener is open if it lets in somebody who did not show who it is, or if it sends passwords in clear text.
CONTROLLER is for nodes only, which authenticate each other: see `node_authentication`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kraft.model.addresses import is_loopback
from kraft.server.config.conflict import Conflict
from kraft.server.config.listener_security import ListenerSecurity
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.values import CONTROLLER, GRPC, ConfigWarning, Listener

ALLOWED_BY_ENVIRONMENT: Final = "ALLOW_PLAINTEXT_LISTENER"

_YES: Final = ("yes", "true", "1")


def allowed_by_environment(config: NodeConfig, environment: Mapping[str, str]) -> NodeConfig:
    """Return the configuration in which each listener may be open, if the environment says so."""
    if environment.get(ALLOWED_BY_ENVIRONMENT, "").lower() not in _YES:
        return config
    names = tuple(listener.name for listener in config.bound if listener.name != CONTROLLER)
    return replace(config, security=replace(config.security, unauthenticated_listeners=names))


def check_strangers(config: NodeConfig) -> None:
    """Raise Conflict for listeners that would let in anybody from other machines."""
    found = [
        listener
        for listener, security in _exposed(config)
        if not security.authenticates and not _is_allowed(config, listener)
    ]
    if found:
        raise Conflict(
            "listeners",
            f"{_in_words(found)} open to other machines without authentication: let clients log in, with"
            f" listener.security.protocol.map={_mapped(found)}, or, in a network that you trust,"
            f" {_allowance(config, found)}",
        )


def check_passwords(config: NodeConfig) -> None:
    """Raise Conflict for listeners at which others on the network could read passwords."""
    found = [
        listener
        for listener, security in _exposed(config)
        if security.sends_passwords_in_clear and not _is_allowed(config, listener)
    ]
    if found:
        raise Conflict(
            "listeners",
            f"{_in_words(found)} open to other machines, and PLAIN and OAUTHBEARER send passwords and tokens in clear"
            f" text: encrypt them, with listener.security.protocol.map={_mapped(found)}, or, in a network that you"
            f" trust, {_allowance(config, found)}",
        )


def check_metrics(config: NodeConfig) -> None:
    """Raise Conflict if anybody on other machines could read what the node tells of itself, and nobody said so."""
    address = config.metrics.address
    if address is None:
        return
    if config.listener(address.name) is not None:
        raise Conflict("listeners", f"{address.name} is the name of metrics.address: give the listener another one")
    if not is_loopback(address.host) and not _is_allowed(config, address):
        raise Conflict(
            "metrics.address",
            f"{_in_words([address])} open to other machines without authentication: listen on localhost, for an agent"
            f" on this machine, or, in a network that you trust, {_allowance(config, [address])}",
        )


def exposure_warnings(config: NodeConfig) -> list[ConfigWarning]:
    found = [ConfigWarning("listeners", reason) for reason in (*_warnings(config), *_ways_around(config))]
    address = config.metrics.address
    if address is not None and not is_loopback(address.host):
        reason = (
            f"{address} is open to other machines: anybody who reaches it can read the names of topics and groups, and"
            " how much each is used: keep it in a trusted network"
        )
        found.append(ConfigWarning("metrics.address", reason))
    return found


def _warnings(config: NodeConfig) -> list[str]:
    found = []
    for listener, security in _exposed(config):
        if not security.authenticates:
            found.append(
                f"{listener} is open to other machines, and clients are not authenticated: anybody who reaches it can"
                " read, write and administer: keep it in a trusted network"
            )
        elif security.sends_passwords_in_clear:
            found.append(
                f"{listener} is open to other machines, and clients send passwords or tokens in clear text: keep it in"
                " a trusted network"
            )
        elif listener.name == GRPC and security.tls is None:
            found.append(
                f"{listener} is open to other machines, and clients show their sessions in clear text, which whoever"
                f" reads it on the network can use: map {GRPC} to SASL_SSL in listener.security.protocol.map"
            )
        if listener.name == GRPC and config.security.secret_file is None:
            found.append(
                f"{listener} is open to clients on other machines, but brokers there are refused: set"
                " cluster.secret.file on every node to allow them"
            )
    return found


def _ways_around(config: NodeConfig) -> list[str]:
    """Return a warning if one listener asks clients to log in, and they need not at another one."""
    clients = [listener for listener in config.listeners if listener.name != CONTROLLER]
    with_login = [listener for listener in clients if config.security_of(listener.name).sasl is not None]
    without = [
        listener
        for listener in clients
        if not config.security_of(listener.name).authenticates and not _is_allowed(config, listener)
    ]
    if not with_login or not without:
        return []
    names = ",".join(listener.name for listener in without)
    reason = (
        f"{_in_words(without)} open without a login, although clients have to log in at"
        f" {' and '.join(map(str, with_login))}: map {names} to the same security protocol in"
        f" listener.security.protocol.map, or, if that is meant, set allow.unauthenticated.listeners={names}"
    )
    return [reason]


def _exposed(config: NodeConfig) -> list[tuple[Listener, ListenerSecurity]]:
    """Return the listeners for clients on other machines; without those whose settings are refused anyway."""
    return [
        (listener, security)
        for listener in config.listeners
        if listener.name != CONTROLLER
        and not is_loopback(listener.host)
        and (security := config.security_of(listener.name)).protocol is config.security.protocol_of(listener.name)
    ]


def _is_allowed(config: NodeConfig, listener: Listener) -> bool:
    return listener.name in config.security.unauthenticated_listeners


def _in_words(listeners: list[Listener]) -> str:
    return f"{' and '.join(map(str, listeners))} {'is' if len(listeners) == 1 else 'are'}"


def _mapped(listeners: list[Listener]) -> str:
    return ",".join(f"{listener.name}:SASL_SSL" for listener in listeners)


def _allowance(config: NodeConfig, listeners: list[Listener]) -> str:
    names = dict.fromkeys((*config.security.unauthenticated_listeners, *(listener.name for listener in listeners)))
    return f"set allow.unauthenticated.listeners={','.join(names)} (in a container {ALLOWED_BY_ENVIRONMENT}=yes)"
