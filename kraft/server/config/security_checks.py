"""Checks of what listeners require of their clients: it has to be possible, and nothing is set in vain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kraft.model.password import Password
from kraft.server.config import overrides
from kraft.server.config.conflict import Conflict
from kraft.server.config.exposure import check_metrics, check_passwords, check_strangers
from kraft.server.config.node_authentication import check_nodes
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.served import Layer, not_served
from kraft.server.config.values import CONTROLLER, GRPC, Listener, SecurityProtocol
from kraft.tls.stores import ClientAuth

INTER_BROKER_PROTOCOL: Final = "security.inter.broker.protocol"

_STORES: Final = ("ssl.keystore.", "ssl.key.", "ssl.truststore.")

_CLIENT_AUTH: Final = "ssl.client.auth"

_SASL_KEYS: Final = ("sasl.enabled.mechanisms", "sasl.oauthbearer.jwks.endpoint.url")


def _check_protocols(config: NodeConfig) -> None:
    for listener in config.listeners:
        if config.security.protocol_of(listener.name) is None:
            raise Conflict(
                "listeners",
                f"{listener.name} has no security protocol: add {listener.name}:PLAINTEXT to"
                " listener.security.protocol.map",
            )


def _check_served(config: NodeConfig) -> None:
    for listener in config.listeners:
        reason = not_served(listener.name, config.security_of(listener.name)) if listener.name != CONTROLLER else None
        if reason is not None:
            raise Conflict("listeners", f"{listener}: {reason}")


def _check_overridden_listeners(config: NodeConfig) -> None:
    """Raise Conflict for a setting of a listener that does not exist: a typing error would leave it open."""
    known = {CONTROLLER, *(listener.name for listener in config.listeners), *dict(config.security.protocols)}
    for name in config.settings:
        found = overrides.override(name)
        if found is not None and found.listener.upper() not in known:
            raise Conflict(name, f"there is no listener {found.listener.upper()}: correct the name, or remove the line")


def _check_effect(config: NodeConfig) -> None:
    """Raise Conflict for a setting of TLS or SASL that somebody relies on, and that no listener uses."""
    for name, text in config.settings.items():
        found = overrides.override(name)
        layer = _layer_of(name if found is None else found.key, text)
        if layer is None:
            continue
        protocols = _protocols(config, None if found is None else found.listener.upper())
        if not protocols or any(each.has_tls if layer is Layer.TLS else each.has_sasl for each in protocols):
            continue
        choice = "SSL or SASL_SSL" if layer is Layer.TLS else "SASL_SSL or SASL_PLAINTEXT"
        which = ("no listener uses", "one") if found is None else ("the listener does not use", found.listener.upper())
        raise Conflict(
            name,
            f"has no effect: {which[0]} {layer}: map {which[1]} to {choice} in listener.security.protocol.map",
        )


def _layer_of(key: str, text: str) -> Layer | None:
    """Return what a listener needs for the setting; None if nobody relies on the setting."""
    if key == _CLIENT_AUTH:
        return None if text.lower() == ClientAuth.NONE else Layer.TLS
    if key.startswith(_STORES) and not key.endswith(".type"):
        return Layer.TLS
    return Layer.SASL if key in _SASL_KEYS or key.endswith(overrides.JAAS_CONFIG) else None


def _protocols(config: NodeConfig, name: str | None) -> list[SecurityProtocol]:
    """Return the protocol of that listener, or those of all, also of CONTROLLER, at which others are called."""
    names = [CONTROLLER, *(listener.name for listener in config.listeners)] if name is None else [name]
    return [protocol for each in names if (protocol := config.security.protocol_of(each)) is not None]


def _check_users_of_file(config: NodeConfig) -> None:
    """Raise Conflict if listeners have a user with two passwords: users are those of the cluster."""
    passwords: dict[str, Password] = {}
    for listener in config.listeners:
        sasl = config.security_of(listener.name).sasl if listener.name != CONTROLLER else None
        for user, password in sasl.plain_users if sasl is not None else ():
            if passwords.setdefault(user, password) != password:
                key = f"{overrides.PREFIX}{listener.name.lower()}.plain.{overrides.JAAS_CONFIG}"
                raise Conflict(key, f"{user} has another password at another listener: give a user one password")


def _check_calls_of_brokers(config: NodeConfig) -> None:
    """Raise Conflict if brokers were to encrypt what they send each other, and the listeners do not.

    They call each other at GRPC, and copy partitions at the first listener of Kafka's protocol. They always
    authenticate each other, so SASL asks for nothing more.
    """
    text = config.settings.get(INTER_BROKER_PROTOCOL)
    if text is None or not SecurityProtocol(text.upper()).has_tls:
        return
    for listener in _called_by_brokers(config):
        protocol = config.security.protocol_of(listener.name)
        if protocol is not None and not protocol.has_tls:
            raise Conflict(
                INTER_BROKER_PROTOCOL,
                f"brokers also call each other at {listener}, without TLS: map {listener.name} to SSL or SASL_SSL in"
                " listener.security.protocol.map",
            )


def _called_by_brokers(config: NodeConfig) -> list[Listener]:
    grpc = config.listener(GRPC)
    return [*([] if grpc is None else [grpc]), *config.kafka_listeners[:1]]


SECURITY_CHECKS: Final[tuple[Callable[[NodeConfig], None], ...]] = (
    _check_protocols,
    _check_overridden_listeners,
    _check_effect,
    _check_served,
    _check_users_of_file,
    _check_calls_of_brokers,
    check_nodes,
    check_strangers,
    check_passwords,
    check_metrics,
)
"""Each raises Conflict for the first contradiction that it finds."""
