"""Adds to a configuration what each of its listeners requires of clients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kraft.model.config_keys import components_of, keys_of
from kraft.sasl.mechanisms import SaslMechanism
from kraft.server.config import overrides
from kraft.server.config.conflict import Conflict
from kraft.server.config.file_settings import FileSettings
from kraft.server.config.keys import BY_NAME
from kraft.server.config.listener_building import listener_security
from kraft.server.config.listener_security import ListenerSecurity
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.security_settings import ListenerKeys
from kraft.server.config.values import CONTROLLER, SecurityProtocol


def with_listeners(config: NodeConfig, settings: FileSettings) -> tuple[NodeConfig, list[str]]:
    """Return the configuration with the listeners' settings, and what is wrong with those."""
    problems: list[str] = []
    found: dict[str, ListenerSecurity] = {}
    rates: list[tuple[str, int]] = []
    # A broker calls controllers at CONTROLLER, which it need not have itself.
    for name in dict.fromkeys([CONTROLLER, *(listener.name for listener in config.listeners)]):
        own = settings.of_listener(name)
        try:
            if (rate := _creation_rate(own, name)) is not None:
                rates.append((name, rate))
            protocol = config.security.protocol_of(name)
            if protocol not in (None, SecurityProtocol.PLAINTEXT):
                found[name] = listener_security(name, protocol, _filled(ListenerKeys, own), _jaas_configs(own))
        except Conflict as conflict:
            problems.append(own.problem(conflict))
    connections = replace(config.connections, creation_rates_of_listeners=tuple(rates))
    return replace(config, listener_security=found, connections=connections), list(dict.fromkeys(problems))


def _creation_rate(settings: FileSettings, name: str) -> int | None:
    """Return the listener's own rate of new connections; None if it has none."""
    if settings.get(f"{overrides.PREFIX}{name.lower()}.{overrides.CREATION_RATE}") is None:
        return None
    rate: Any = settings.value(BY_NAME[overrides.CREATION_RATE])
    return int(rate)


def _filled(component: type[Any], settings: FileSettings) -> Any:
    keyed = {field: settings.value(key) for field, key in keys_of(component).items()}
    parts = {name: _filled(part, settings) for name, part in components_of(component).items()}
    return component(**keyed, **parts)


def _jaas_configs(settings: FileSettings) -> dict[SaslMechanism, str]:
    found = {mechanism: settings.get(f"{mechanism.lower()}.{overrides.JAAS_CONFIG}") for mechanism in SaslMechanism}
    return {mechanism: text for mechanism, text in found.items() if text is not None}
