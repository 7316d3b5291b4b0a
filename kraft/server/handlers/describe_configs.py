"""DescribeConfigs: the value of each config in effect, and who said it.

A topic's configs are its own, or the answering broker's defaults. A broker tells of its own file, of what was set over
it while it runs, and of what was set for all brokers. Source: KIP-133, KIP-226.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from kraft.metadata.broker_configs import DYNAMIC_KEYS, EVERY_BROKER, TopicDefaultsInEffect
from kraft.metadata.config_types import text_of
from kraft.metadata.configs import TOPIC_CONFIGS, ConfigKey, text_in_effect
from kraft.metadata.image import MetadataImage
from kraft.metadata.topic_names import unknown_topic
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
from kraft.server.config.declaration import Key, Required
from kraft.server.config.keys import BY_NAME, KEYS
from kraft.server.config.node_config import NodeConfig


class DescribeConfigsHandler:
    def __init__(self, config: NodeConfig, image: Callable[[], MetadataImage]) -> None:
        self._config = config
        self._image = image

    async def handle(self, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        image = self._image()
        return DescribeConfigsResponse(
            results=[
                _with_less(_described(image, self._config, resource), request, resource.keys)
                for resource in request.resources
            ]
        )

    def in_effect_on_topic(self, own: Mapping[str, str]) -> list[ConfigEntry]:
        """All configs of a topic that sets these itself, whether there is such a topic or not, by key."""
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
                problem = f"this is broker {config.node_id}, which knows its own configuration only, not '{name[:100]}'"
                raise Refusal(ErrorCode.INVALID_REQUEST, problem)
            said = _Said(image, config)
            for key in KEYS:
                yield _broker_entry(said, key)
        case other:
            what = other.name.lower().replace("_", " ")
            raise Refusal(ErrorCode.INVALID_REQUEST, f"configs of this kind ({what}) are not built yet")


class _Said:
    """What is set for this broker under a key: while it runs, for it or for all brokers, and in its file."""

    def __init__(self, image: MetadataImage, config: NodeConfig) -> None:
        self._own = image.broker_configs.get(str(config.node_id), {})
        self._of_all = image.broker_configs.get(EVERY_BROKER, {})
        self._file = config.settings
        self.topic_defaults = TopicDefaultsInEffect(config.settings, config.topics.configs, str(config.node_id))(image)

    def synonyms(self, key: str) -> Iterator[ConfigSynonym]:
        """What counts comes first."""
        for said, source in (
            (self._own, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (self._of_all, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (self._file, ConfigSource.STATIC_BROKER_CONFIG),
        ):
            if key in said:
                yield ConfigSynonym(key=key, value=said[key], source=source)


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
    said = _Said(image, config)
    for declared in TOPIC_CONFIGS.values():
        text = own.get(declared.key)
        # As it is understood, not as somebody spelt it: TRUE is true.
        yield _topic_entry(said, None if text is None else text_of(declared.kind.read(text)), declared)


def _topic_entry(said: _Said, own: str | None, declared: ConfigKey) -> ConfigEntry:
    synonyms = list(_synonyms(said, own, declared))
    source = synonyms[0].source
    return ConfigEntry(
        key=declared.key,
        value=text_in_effect(said.topic_defaults, declared.key) if own is None else own,
        source=source,
        is_default=source is ConfigSource.DEFAULT_CONFIG,
        read_only=False,
        type=declared.type,
        documentation=declared.documentation,
        synonyms=synonyms,
    )


def _synonyms(said: _Said, own: str | None, declared: ConfigKey) -> Iterator[ConfigSynonym]:
    if own is not None:
        yield ConfigSynonym(key=declared.key, value=own, source=ConfigSource.DYNAMIC_TOPIC_CONFIG)
    for server_key in declared.server_keys:
        yield from said.synonyms(server_key.name)
    name, default = declared.default_server_key()
    yield ConfigSynonym(key=name, value=default, source=ConfigSource.DEFAULT_CONFIG)


def _broker_entry(said: _Said, key: Key) -> ConfigEntry:
    default = ConfigSynonym(key=key.name, value=_default(key), source=ConfigSource.DEFAULT_CONFIG)
    synonyms = [*said.synonyms(key.name), default]
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
        case bool() | int() | float() | str() as value:
            return text_of(value)
        case other:
            raise AssertionError(f"{key.name}: nobody wrote how {other!r} is shown")


def _with_less(
    description: ResourceDescription, request: DescribeConfigsRequest, keys: list[str]
) -> ResourceDescription:
    """Only what was asked for. Keys that do not exist are left out, as in Kafka."""
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
