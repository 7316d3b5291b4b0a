"""Loads and checks a node's configuration file.

The file has the format of Kafka's `server.properties`. Every error is found before the node starts, and is one line
that names the file, the key and the allowed values. Harmless mistakes are warnings in the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kraft.metadata.configs import TopicConfig, broker_defaults
from kraft.model.errors import Refusal
from kraft.server.config import properties, unsupported
from kraft.server.config.checks import Conflict, advertised_listeners, check, check_security, security_warnings
from kraft.server.config.declaration import Key, Required, keys_of
from kraft.server.config.keys import BY_NAME, KEYS
from kraft.server.config.node_config import COMPONENTS, NodeConfig
from kraft.server.config.processes import check_processes
from kraft.server.config.properties import PropertiesError, Property
from kraft.server.config.values import ConfigWarning


class ConfigError(ValueError):
    """The node cannot start with this configuration; one line, with the remedy."""


def load(path: Path | str) -> NodeConfig:
    """Return the configuration of a file. Raises ConfigError."""
    file = Path(path)
    settings, repeated = _last_of_each(_read(file), file)
    warnings = [*repeated, *_older_names(settings)]
    _refuse_dangerous(settings, file)
    warnings += [
        ConfigWarning(found.key, message)
        for found in settings.values()
        if (message := unsupported.warning(found.key)) is not None
    ]
    try:
        config = _assemble(file, settings)
        check(config)
        config = replace(config, advertised_listeners=advertised_listeners(config))
        check_security(config)
        check_processes(config)
    except Conflict as conflict:
        raise _error(file, conflict.key, settings, conflict.reason) from None
    warnings += security_warnings(config)
    return replace(config, warnings=tuple(warnings))


def _read(file: Path) -> list[Property]:
    try:
        return properties.parse(file.read_bytes(), str(file))
    except OSError as error:
        raise ConfigError(f"{file}: cannot read the configuration file: {error.strerror}") from None
    except PropertiesError as error:
        raise ConfigError(str(error)) from None


def _last_of_each(found: list[Property], file: Path) -> tuple[dict[str, Property], list[ConfigWarning]]:
    """Return the settings by key. The last value of a key wins, as in Kafka: scripts append to such files."""
    settings: dict[str, Property] = {}
    warnings = []
    for setting in found:
        if earlier := settings.get(setting.key):
            warnings.append(
                ConfigWarning(
                    setting.key, f"set in lines {earlier.line} and {setting.line} of {file}: the last one is used"
                )
            )
        settings[setting.key] = setting
    return settings, warnings


def _older_names(settings: Mapping[str, Property]) -> list[ConfigWarning]:
    return [
        ConfigWarning(key.older_name, f"is an older name: use {key.name}")
        for key in KEYS
        if key.older_name in settings and key.older_name is not None
    ]


def _refuse_dangerous(settings: Mapping[str, Property], file: Path) -> None:
    for setting in settings.values():
        if reason := unsupported.refusal(setting.key, setting.value):
            # The error leaves out the value: it may be a password.
            raise ConfigError(f"{file}:{setting.line}: {setting.key}: {reason}")


def _assemble(file: Path, settings: Mapping[str, Property]) -> NodeConfig:
    values = {key.name: _value(file, key, settings) for key in KEYS}

    def filled(component: type[Any]) -> dict[str, Any]:
        return {field: values[key.name] for field, key in keys_of(component).items()}

    fields = {name: filled(component) for name, component in COMPONENTS.items()}
    fields["topics"]["configs"] = _topic_configs(file, settings)
    components = {name: component(**fields[name]) for name, component in COMPONENTS.items()}
    return NodeConfig(file=file, settings=_effective_settings(settings), **filled(NodeConfig), **components)


def _topic_configs(file: Path, settings: Mapping[str, Property]) -> TopicConfig:
    """Return the defaults of topics; each value was already checked as a key."""
    try:
        return broker_defaults({setting.key: setting.value for setting in settings.values()})
    except Refusal as refusal:
        raise ConfigError(f"{file}: {refusal.message}") from None


def _effective_settings(settings: Mapping[str, Property]) -> dict[str, str]:
    return {BY_NAME[name].name: setting.value for name, setting in settings.items() if name in BY_NAME}


def _value(file: Path, key: Key, settings: Mapping[str, Property]) -> object:
    setting = settings.get(key.name)
    older = settings.get(key.older_name) if key.older_name else None
    if setting and older and setting.value != older.value:
        raise _error(file, older.key, settings, f"contradicts {key.name}={setting.value}: remove one of them")
    setting = setting or older
    if setting is None:
        if isinstance(key.default, Required):
            raise ConfigError(f"{file}: {key.name} is missing: set it, for example {key.name}={key.default.example}")
        return key.default
    try:
        return key.read(setting.value)
    except ValueError as error:
        raise _error(file, setting.key, settings, str(error)) from None


def _error(file: Path, name: str, settings: Mapping[str, Property], reason: str) -> ConfigError:
    setting = settings.get(name)
    key = BY_NAME.get(name)
    if setting is None and key is not None:
        # The file may use the older name, or rely on the default.
        setting = settings.get(key.older_name or "")
    if setting is not None:
        return ConfigError(f"{file}:{setting.line}: {setting.key}={setting.value}: {reason}")
    default = f"={key.default}" if key is not None else ""
    return ConfigError(f"{file}: {name}{default} (the default): {reason}")
