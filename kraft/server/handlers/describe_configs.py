"""DescribeConfigs: the value in effect of each config, and its source.

A topic's configs are its own, or the answering broker's defaults. A broker's configs are those of its file, those set
dynamically for this broker, and those set for all brokers. Source: KIP-133, KIP-226.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Final

from msgspec.structs import replace

from kraft.log.topic_config import TOPIC_CONFIGS, ConfigKey
from kraft.metadata.broker_configs import DYNAMIC_KEYS, EVERY_BROKER, TopicDefaultsInEffect
from kraft.metadata.configs import text_in_effect
from kraft.metadata.group_configs import GROUP_CONFIGS, GroupConfigKey
from kraft.metadata.image import MetadataImage
from kraft.metadata.topic_names import unknown_topic
from kraft.model.config_keys import Key, Required
from kraft.model.config_types import text_of
from kraft.model.configs import (
    ConfigEntry,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ConfigSynonym,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    ResourceDescription,
)
from kraft.model.errors import ErrorCode, Refusal
from kraft.rpc.call import Served
from kraft.rpc.calls import DESCRIBE_CONFIGS
from kraft.server.config.keys import BY_NAME, KEYS
from kraft.server.config.node_config import NodeConfig
from kraft.server.loop.turns import Turns

ENTRIES_AT_ONCE: Final = 400
"""Configs that are described before other tasks have their turn: a topic has some forty."""


class DescribeConfigsHandler:
    def __init__(self, config: NodeConfig, image: Callable[[], MetadataImage]) -> None:
        self._config = config
        self._image = image

    async def handle(self, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        """Describe the configs of each resource. One that is named twice, with the same keys, is described once."""
        image, turns = self._image(), Turns(ENTRIES_AT_ONCE)
        results: dict[tuple[ConfigResourceType, str, tuple[str, ...]], ResourceDescription] = {}
        for resource in request.resources:
            named = (resource.resource_type, resource.resource_name, tuple(resource.keys))
            if named not in results:
                described = _described(image, self._config, resource)
                results[named] = _as_requested(described, request, set(resource.keys))
                await turns.done(len(described.entries))
            await turns.done()
        return DescribeConfigsResponse(results=list(results.values()))

    def in_effect_on_topic(self, own: Mapping[str, str]) -> list[ConfigEntry]:
        """Return all configs, sorted by key, of a topic that sets `own`. The topic need not exist."""
        return sorted(_topic_entries(self._image(), self._config, own), key=lambda entry: entry.key)

    def served(self) -> list[Served]:
        return [DESCRIBE_CONFIGS.served_by(self.handle)]


def _described(image: MetadataImage, config: NodeConfig, resource: ConfigResource) -> ResourceDescription:
    try:
        entries = sorted(_entries(image, config, resource), key=lambda entry: entry.key)
    except Refusal as refusal:
        return ResourceDescription(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            error_code=refusal.error_code,
            error_message=refusal.message,
        )
    return ResourceDescription(
        resource_type=resource.resource_type, resource_name=resource.resource_name, entries=entries
    )


def _entries(image: MetadataImage, config: NodeConfig, resource: ConfigResource) -> Iterator[ConfigEntry]:
    name = resource.resource_name
    match resource.resource_type:
        case ConfigResourceType.TOPIC:
            topic = image.topic(name)
            if topic is None:
                raise unknown_topic(name)
            yield from _topic_entries(image, config, topic.configs)
        case ConfigResourceType.BROKER if name == EVERY_BROKER:
            for key_name, value in image.broker_configs.get(EVERY_BROKER, {}).items():
                if key_name in BY_NAME:
                    yield _entry_of_all_brokers(BY_NAME[key_name], value)
        case ConfigResourceType.BROKER:
            if name != str(config.node_id):
                problem = f"this is broker {config.node_id}, which has only its own configs: ask broker '{name[:100]}'"
                raise Refusal(ErrorCode.INVALID_REQUEST, problem)
            settings = _BrokerSettings(image, config)
            for key in KEYS:
                yield _broker_entry(settings, key)
        case ConfigResourceType.GROUP:
            if not name:
                raise Refusal(ErrorCode.INVALID_REQUEST, "the group id is empty: name a group")
            for group_key in GROUP_CONFIGS.values():
                yield _group_entry(_BrokerSettings(image, config), image.group_configs.get(name, {}), group_key)
        case other:
            what = other.name.lower().replace("_", " ")
            raise Refusal(ErrorCode.INVALID_REQUEST, f"configs of this kind ({what}) are not supported yet")


class _BrokerSettings:
    """All settings of this broker: dynamic ones for it and for all brokers, and those of its file."""

    def __init__(self, image: MetadataImage, config: NodeConfig) -> None:
        self._own = image.broker_configs.get(str(config.node_id), {})
        self._of_all = image.broker_configs.get(EVERY_BROKER, {})
        self._file = config.settings
        self.topic_defaults = TopicDefaultsInEffect(config.settings, config.topics.configs, str(config.node_id))(image)

    def synonyms(self, key: str) -> Iterator[ConfigSynonym]:
        """Return the values of `key`; the one in effect comes first."""
        for settings, source in (
            (self._own, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (self._of_all, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (self._file, ConfigSource.STATIC_BROKER_CONFIG),
        ):
            if key in settings:
                yield ConfigSynonym(key=key, value=settings[key], source=source)


def _entry_of_all_brokers(key: Key, value: str) -> ConfigEntry:
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return ConfigEntry(
        key=key.name,
        value=value,
        source=source,
        is_default=False,
        read_only=False,
        type=key.read.type,
        documentation=key.purpose,
        synonyms=[ConfigSynonym(key=key.name, value=value, source=source)],
    )


def _topic_entries(image: MetadataImage, config: NodeConfig, own: Mapping[str, str]) -> Iterator[ConfigEntry]:
    settings = _BrokerSettings(image, config)
    for declared in TOPIC_CONFIGS.values():
        text = own.get(declared.key)
        # The canonical form of the value: TRUE is shown as true.
        yield _topic_entry(settings, None if text is None else text_of(declared.kind.read(text)), declared)


def _group_entry(settings: _BrokerSettings, own: Mapping[str, str], declared: GroupConfigKey) -> ConfigEntry:
    default = _broker_entry(settings, declared.default_key)
    synonyms = list(default.synonyms)
    if declared.key in own:
        source = ConfigSource.DYNAMIC_GROUP_CONFIG
        synonyms.insert(0, ConfigSynonym(key=declared.key, value=own[declared.key], source=source))
    return ConfigEntry(
        key=declared.key,
        value=synonyms[0].value,
        source=synonyms[0].source,
        is_default=synonyms[0].source is ConfigSource.DEFAULT_CONFIG,
        read_only=False,
        type=declared.type,
        documentation=declared.documentation,
        synonyms=synonyms,
    )


def _topic_entry(settings: _BrokerSettings, own: str | None, declared: ConfigKey) -> ConfigEntry:
    synonyms = list(_synonyms(settings, own, declared))
    source = synonyms[0].source
    return ConfigEntry(
        key=declared.key,
        value=text_in_effect(settings.topic_defaults, declared.key) if own is None else own,
        source=source,
        is_default=source is ConfigSource.DEFAULT_CONFIG,
        read_only=False,
        type=declared.type,
        documentation=declared.documentation,
        synonyms=synonyms,
    )


def _synonyms(settings: _BrokerSettings, own: str | None, declared: ConfigKey) -> Iterator[ConfigSynonym]:
    if own is not None:
        yield ConfigSynonym(key=declared.key, value=own, source=ConfigSource.DYNAMIC_TOPIC_CONFIG)
    for server_key in declared.server_keys:
        yield from settings.synonyms(server_key.name)
    name, default = declared.default_server_key()
    yield ConfigSynonym(key=name, value=default, source=ConfigSource.DEFAULT_CONFIG)


def _broker_entry(settings: _BrokerSettings, key: Key) -> ConfigEntry:
    default = ConfigSynonym(key=key.name, value=_default(key), source=ConfigSource.DEFAULT_CONFIG)
    synonyms = [*settings.synonyms(key.name), default]
    return ConfigEntry(
        key=key.name,
        value=synonyms[0].value,
        source=synonyms[0].source,
        is_default=synonyms[0] is default,
        read_only=key.name not in DYNAMIC_KEYS,
        type=key.read.type,
        documentation=key.purpose,
        synonyms=synonyms,
    )


def _default(key: Key) -> str | None:
    match key.default:
        case None | () | Required():
            return None
        case bool() | int() | float() | str() | tuple() as value:
            return text_of(value)
        case Enum() as one:
            return str(one.value)
        case other:
            raise AssertionError(f"{key.name}: default {other!r} has no text form")


def _as_requested(
    description: ResourceDescription, request: DescribeConfigsRequest, keys: set[str]
) -> ResourceDescription:
    """Return only the requested keys and details. Keys that do not exist are left out, as in Kafka."""
    entries = [
        replace(
            entry,
            documentation=entry.documentation if request.include_documentation else "",
            synonyms=entry.synonyms if request.include_synonyms else [],
        )
        for entry in description.entries
        if not keys or entry.key in keys
    ]
    return replace(description, entries=entries)
