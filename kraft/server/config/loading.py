"""Loads and checks a node's configuration file.

The file has the format of Kafka's `server.properties`. Every error is found before the node starts, all of a file at
once, and each is one line that names the file, the key and the allowed values. Harmless mistakes are warnings.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kraft.log.topic_config import TopicConfig
from kraft.metadata.configs import broker_defaults
from kraft.metadata.group_configs import GroupBounds, group_bounds
from kraft.model.config_keys import components_of, keys_of
from kraft.model.errors import Refusal
from kraft.server.config import kafka_files, properties, unsupported
from kraft.server.config.checks import CHECKS, advertised_listeners
from kraft.server.config.conflict import Conflict
from kraft.server.config.exposure import allowed_by_environment, exposure_warnings
from kraft.server.config.file_settings import FileSettings
from kraft.server.config.keys import KEYS
from kraft.server.config.listener_loading import with_listeners
from kraft.server.config.missing import examples_of_missing, with_id_of_container
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.old_addresses import with_addresses
from kraft.server.config.processes import check_processes
from kraft.server.config.properties import PropertiesError, Property
from kraft.server.config.values import ConfigWarning


class ConfigError(ValueError):
    """The node cannot start with this configuration; one line, with the remedy."""


def load(path: Path | str, environment: Mapping[str, str] = os.environ) -> NodeConfig:
    """Return the configuration of a file. Raises ConfigError."""
    file = Path(path)
    settings, repeated = _last_of_each(_read(file), file)
    if reason := unsupported.whole_refusal(settings):
        raise ConfigError(f"{file} {reason}")
    try:
        settings, of_environment = with_id_of_container(settings, environment)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    # With the settings that it lacks as the errors propose them, the rest of the file is checked in the same run.
    missing = examples_of_missing(settings)
    refused = _refused(settings)
    problems = [
        # The error leaves out the value: it may be a password.
        *(f"{file}:{each.line}: {each.key}: {reason}" for each, reason in refused),
        *(f"{file}: {key} is missing: set it, for example {key}={example}" for key, example in missing.items()),
    ]
    settings, moved = with_addresses({**settings, **{key: Property(key, missing[key], 0) for key in missing}})
    warnings = [*repeated, *of_environment, *moved, *_older_names(settings)]
    warnings += [
        ConfigWarning(found.key, message)
        for found in settings.values()
        if (message := unsupported.warning(found.key)) is not None
    ]
    complete, added = kafka_files.with_voters(settings)
    if added:
        warnings = [*(each for each in warnings if each.key != kafka_files.BOOTSTRAP_SERVERS), *added]
    of_file = FileSettings(file, complete)
    values, unreadable = _values(of_file)
    if unreadable or any(not unsupported.is_of_zookeeper(each.key) for each, _ in refused):
        _raise_for(file, [*problems, *unreadable])
    config = allowed_by_environment(_assemble(file, complete, values), environment)
    config, changed = kafka_files.completed(config)
    warnings += changed
    config, of_listeners = with_listeners(config, of_file)
    config, conflicts = _checked(config)
    of_messages = FileSettings(file, {key: each for key, each in settings.items() if key not in missing})
    _raise_for(file, [*problems, *of_listeners, *(of_messages.problem(each) for each in conflicts)])
    warnings += [*exposure_warnings(config), *config.access.warnings()]
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


def _last_of_each(found: list[Property], file: Path) -> tuple[Mapping[str, Property], list[ConfigWarning]]:
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


def _refused(settings: Mapping[str, Property]) -> list[tuple[Property, str]]:
    """Return the settings that a node must not start with, each with the reason."""
    return [
        (setting, reason)
        for setting in settings.values()
        if (reason := unsupported.refusal(setting.key, setting.value))
    ]


def _raise_for(file: Path, problems: list[str]) -> None:
    """Raise ConfigError for all problems at once, if there are any: each costs an edit and a start otherwise."""
    if len(problems) > 1:
        raise ConfigError("\n  ".join([f"{file} has {len(problems)} problems:", *problems]))
    if problems:
        raise ConfigError(problems[0])


def _values(settings: FileSettings) -> tuple[dict[str, Any], list[str]]:
    """Return the values of the keys, and what is wrong with those that have none."""
    values: dict[str, Any] = {}
    problems = []
    for key in KEYS:
        try:
            values[key.name] = settings.value(key)
        except Conflict as conflict:
            problems.append(settings.problem(conflict))
    return values, problems


def _assemble(file: Path, settings: Mapping[str, Property], values: Mapping[str, Any]) -> NodeConfig:
    whole = {
        TopicConfig: _topic_configs(file, settings),
        GroupBounds: group_bounds(lambda key: values[key.name]),
    }

    def filled(component: type[Any], **others: Any) -> Any:
        keyed = {field: values[key.name] for field, key in keys_of(component).items()}
        parts = {name: whole.get(part) or filled(part) for name, part in components_of(component).items()}
        return component(**keyed, **parts, **others)

    config: NodeConfig = filled(NodeConfig, file=file, settings=FileSettings(file, settings).in_effect())
    return config


def _topic_configs(file: Path, settings: Mapping[str, Property]) -> TopicConfig:
    """Return the defaults of topics; each value was already checked as a key."""
    try:
        return broker_defaults({setting.key: setting.value for setting in settings.values()})
    except Refusal as refusal:
        raise ConfigError(f"{file}: {refusal.message}") from None
