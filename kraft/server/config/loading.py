"""Loads and checks a node's configuration file.

The file has the format of Kafka's `server.properties`. Every error is found before the node starts, all of a file at
once, and each is one line that names the file, the key and the allowed values. Harmless mistakes are warnings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kraft.log.topic_config import TopicConfig
from kraft.metadata.configs import broker_defaults
from kraft.metadata.group_configs import GroupBounds, group_bounds
from kraft.model.config_keys import Key, Required, components_of, keys_of
from kraft.model.errors import Refusal
from kraft.server.config import kafka_files, properties, unsupported
from kraft.server.config.checks import CHECKS, Conflict, advertised_listeners, security_warnings
from kraft.server.config.keys import BY_NAME, KEYS
from kraft.server.config.node_config import NodeConfig
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
    problems = _dangerous(settings, file)
    warnings += [
        ConfigWarning(found.key, message)
        for found in settings.values()
        if (message := unsupported.warning(found.key)) is not None
    ]
    complete, added = kafka_files.with_voters(settings)
    if added:
        warnings = [*(each for each in warnings if each.key != kafka_files.BOOTSTRAP_SERVERS), *added]
    values = _values(file, complete, problems)
    _raise_for(file, problems)
    config, changed = kafka_files.completed(_assemble(file, complete, values))
    warnings += changed
    config, conflicts = _checked(config)
    _raise_for(file, [_problem(file, each.key, settings, each.reason) for each in conflicts])
    warnings += security_warnings(config)
    return replace(config, warnings=tuple(warnings))


def _checked(config: NodeConfig) -> tuple[NodeConfig, list[Conflict]]:
    """Complete the advertised listeners; return what contradicts itself, too."""
    conflicts = []
    try:
        config = replace(config, advertised_listeners=advertised_listeners(config))
    except Conflict as conflict:
        conflicts.append(conflict)
    for check in (*CHECKS, check_processes):
        try:
            check(config)
        except Conflict as conflict:
            conflicts.append(conflict)
    return config, conflicts


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


def _dangerous(settings: Mapping[str, Property], file: Path) -> list[str]:
    return [
        # The error leaves out the value: it may be a password.
        f"{file}:{setting.line}: {setting.key}: {reason}"
        for setting in settings.values()
        if (reason := unsupported.refusal(setting.key, setting.value))
    ]


def _raise_for(file: Path, problems: list[str]) -> None:
    """Raise ConfigError for all problems at once, if there are any: each costs an edit and a start otherwise."""
    if len(problems) > 1:
        raise ConfigError("\n  ".join([f"{file} has {len(problems)} problems:", *problems]))
    if problems:
        raise ConfigError(problems[0])


def _values(file: Path, settings: Mapping[str, Property], problems: list[str]) -> dict[str, Any]:
    """Return the values of the keys; what is wrong with others is added to the problems."""
    values: dict[str, Any] = {}
    for key in KEYS:
        try:
            values[key.name] = _value(file, key, settings)
        except ConfigError as error:
            problems.append(str(error))
    return values


def _assemble(file: Path, settings: Mapping[str, Property], values: Mapping[str, Any]) -> NodeConfig:
    whole = {
        TopicConfig: _topic_configs(file, settings),
        GroupBounds: group_bounds(lambda key: values[key.name]),
    }

    def filled(component: type[Any], **others: Any) -> Any:
        keyed = {field: values[key.name] for field, key in keys_of(component).items()}
        parts = {name: whole.get(part) or filled(part) for name, part in components_of(component).items()}
        return component(**keyed, **parts, **others)

    config: NodeConfig = filled(NodeConfig, file=file, settings=_effective_settings(settings))
    return config


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
        raise ConfigError(
            _problem(file, older.key, settings, f"contradicts {key.name}={setting.value}: remove one of them")
        )
    setting = setting or older
    if setting is None:
        if isinstance(key.default, Required):
            example = key.default.example
            if key.name == kafka_files.VOTERS:
                example = kafka_files.example_of_voters(settings, example)
            raise ConfigError(f"{file}: {key.name} is missing: set it, for example {key.name}={example}")
        return key.in_field(key.default)
    try:
        return key.in_field(key.read(setting.value))
    except ValueError as error:
        raise ConfigError(_problem(file, setting.key, settings, str(error))) from None


def _problem(file: Path, name: str, settings: Mapping[str, Property], reason: str) -> str:
    setting = settings.get(name)
    key = BY_NAME.get(name)
    if setting is None and key is not None:
        # The file may use the older name, or rely on the default.
        setting = settings.get(key.older_name or "")
    if setting is not None:
        return f"{file}:{setting.line}: {setting.key}={setting.value}: {reason}"
    default = f"={key.default}" if key is not None else ""
    return f"{file}: {name}{default} (the default): {reason}"
