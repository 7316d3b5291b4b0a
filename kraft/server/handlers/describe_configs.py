"""DescribeConfigs: the value in effect of each config, and its source.

A topic's configs are its own, or the answering broker's defaults. A broker's configs are those of its file, those set
dynamically for this broker, and those set for all brokers. Source: KIP-133, KIP-226.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final

from kraft.log.topic_config import TOPIC_CONFIGS
from kraft.metadata.broker_configs import EVERY_BROKER, is_dynamic
from kraft.metadata.client_metrics import CLIENT_METRICS_CONFIGS, ClientMetricsKey
from kraft.metadata.configs import text_in_effect
from kraft.metadata.group_configs import GROUP_CONFIGS, GroupConfigKey
from kraft.metadata.image import CurrentImage, MetadataImage
from kraft.metadata.topic_names import unknown_topic
from kraft.model.config_keys import Key, Required
from kraft.model.config_types import text_of
from kraft.model.configs import ConfigResourceType, ConfigSource, ConfigType
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.config.keys import BY_NAME, KEYS
from kraft.server.config.node_config import NodeConfig
from kraft.server.handlers import broker_loggers
from kraft.server.loop.turns import Turns
from kraft.wire.schema.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

ENTRIES_AT_ONCE: Final = 400
"""Configs that are described before other tasks have their turn: a topic has some forty."""


class DescribeConfigsHandler:
    def __init__(self, config: NodeConfig, image: CurrentImage) -> None:
        self._config = config
        self._image = image

    async def handle(self, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        """Describe the configs of each resource. One that is named twice, with the same keys, is described once.

        Keys that do not exist are left out, as in Kafka.
        """
        describing, turns = _Describing(self._image(), self._config, request), Turns(ENTRIES_AT_ONCE)
        results: dict[tuple[int, str, tuple[str, ...]], DescribeConfigsResult] = {}
        for resource in request.resources:
            keys = resource.configuration_keys or ()
            named = (resource.resource_type, resource.resource_name, keys)
            if named not in results:
                results[named] = describing.described(resource, frozenset(keys))
                await turns.done(len(results[named].configs))
            await turns.done()
        return DescribeConfigsResponse(results=tuple(results.values()))

    def in_effect_on_topic(self, own: Mapping[str, str]) -> list[DescribeConfigsResourceResult]:
        """Return all configs, sorted by key, of a topic that sets `own`. The topic need not exist."""
        describing = _Describing(self._image(), self._config, DescribeConfigsRequest(resources=()))
        return sorted(describing.of_topic(own), key=lambda entry: entry.name)


def refused(request: DescribeConfigsRequest, refusal: Refusal) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=tuple(_refused(resource, refusal) for resource in request.resources))


def _refused(resource: DescribeConfigsResource, refusal: Refusal) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=refusal.error_code,
        error_message=refusal.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=(),
    )


class _Describing:
    """All settings of this broker: dynamic ones for it and for all brokers, and those of its file."""

    def __init__(self, image: MetadataImage, config: NodeConfig, request: DescribeConfigsRequest) -> None:
        self._image = image
        self._node_id = config.node_id
        self._own = image.broker_configs.get(str(config.node_id), {})
        self._of_all = image.broker_configs.get(EVERY_BROKER, {})
        self._file = config.settings
        self._topic_defaults = config.topic_defaults()(image)
        self._include_synonyms = request.include_synonyms
        self._include_documentation = request.include_documentation

    def described(self, resource: DescribeConfigsResource, keys: frozenset[str]) -> DescribeConfigsResult:
        """Describe the configs with these keys; all of them if there are none."""
        try:
            entries = [entry for entry in self._entries(resource, keys) if not keys or entry.name in keys]
        except Refusal as refusal:
            return _refused(resource, refusal)
        return DescribeConfigsResult(
            error_code=ErrorCode.NONE,
            error_message="",
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=tuple(sorted(entries, key=lambda entry: entry.name)),
        )

    def _entries(
        self, resource: DescribeConfigsResource, keys: frozenset[str]
    ) -> Iterator[DescribeConfigsResourceResult]:
        name = resource.resource_name
        match ConfigResourceType(resource.resource_type):
            case ConfigResourceType.TOPIC:
                topic = self._image.topic(name)
                if topic is None:
                    raise unknown_topic(name)
                yield from self.of_topic(topic.configs, keys)
            case ConfigResourceType.BROKER if name == EVERY_BROKER:
                yield from self._of_all_brokers()
            case ConfigResourceType.BROKER:
                yield from self._of_broker(name)
            case ConfigResourceType.GROUP:
                _check_named(name, "the group id is empty: name a group")
                for group_key in GROUP_CONFIGS.values():
                    yield self._of_group(self._image.group_configs.get(name, {}), group_key)
            case ConfigResourceType.CLIENT_METRICS:
                _check_named(name, "the name is empty: name client metrics")
                for metrics_key in CLIENT_METRICS_CONFIGS.values():
                    yield self._of_client_metrics(self._image.client_metrics.get(name, {}), metrics_key)
            case ConfigResourceType.BROKER_LOGGER:
                yield from broker_loggers.described(name, self._node_id)
            case ConfigResourceType.UNKNOWN:
                problem = f"there are no configs of kind {resource.resource_type}"
                raise Refusal(ErrorCode.INVALID_REQUEST, problem)

    def _of_all_brokers(self) -> Iterator[DescribeConfigsResourceResult]:
        for name, value in self._of_all.items():
            if name in BY_NAME:
                synonym = _synonym(name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
                yield self._of_file(BY_NAME[name], [synonym], read_only=False)

    def _of_broker(self, name: str) -> Iterator[DescribeConfigsResourceResult]:
        if name != str(self._node_id):
            problem = f"this is broker {self._node_id}, which has only its own configs: ask broker '{name[:100]}'"
            raise Refusal(ErrorCode.INVALID_REQUEST, problem)
        for key in KEYS:
            yield self._of_file(key, self._of_key(key), read_only=not is_dynamic(key))

    def of_topic(
        self, own: Mapping[str, str], keys: frozenset[str] = frozenset()
    ) -> Iterator[DescribeConfigsResourceResult]:
        """Yield the configs with these keys, or all, of a topic that sets `own`."""
        for declared in TOPIC_CONFIGS.values():
            if keys and declared.key not in keys:
                # Clients ask for one config of each of thousands of topics.
                continue
            synonyms = []
            if declared.key in own:
                # The canonical form of the value: TRUE is shown as true.
                text = text_of(declared.kind.read(own[declared.key]))
                synonyms.append(_synonym(declared.key, text, ConfigSource.DYNAMIC_TOPIC_CONFIG))
            for server_key in declared.server_keys:
                synonyms += self._set(server_key.name)
            if (default := declared.default_server_key()) is not None:
                synonyms.append(_synonym(*default, ConfigSource.DEFAULT_CONFIG))
            is_own = declared.key in own
            yield self._entry(
                declared.key,
                synonyms[0].value if is_own else text_in_effect(self._topic_defaults, declared.key),
                synonyms,
                read_only=False,
                config_type=declared.type,
                documentation=declared.documentation,
            )

    def _of_group(self, own: Mapping[str, str], declared: GroupConfigKey) -> DescribeConfigsResourceResult:
        synonyms = self._of_key(declared.default_key)
        if declared.key in own:
            synonyms.insert(0, _synonym(declared.key, own[declared.key], ConfigSource.DYNAMIC_GROUP_CONFIG))
        return self._entry(
            declared.key,
            synonyms[0].value,
            synonyms,
            read_only=False,
            config_type=declared.type,
            documentation=declared.documentation,
        )

    def _of_client_metrics(self, own: Mapping[str, str], declared: ClientMetricsKey) -> DescribeConfigsResourceResult:
        synonyms = []
        if declared.key in own:
            text = declared.text_in_effect(own[declared.key])
            synonyms.append(_synonym(declared.key, text, ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG))
        return self._entry(
            declared.key,
            synonyms[0].value if synonyms else declared.default,
            synonyms,
            read_only=False,
            config_type=declared.type,
            documentation=declared.documentation,
        )

    def _of_file(
        self, key: Key, synonyms: list[DescribeConfigsSynonym], *, read_only: bool
    ) -> DescribeConfigsResourceResult:
        if key.is_secret:
            synonyms = [_synonym(each.name, None, ConfigSource(each.source)) for each in synonyms]
        return self._entry(
            key.name,
            synonyms[0].value,
            synonyms,
            read_only=read_only,
            config_type=key.read.type,
            documentation=key.purpose,
        )

    def _entry(
        self,
        name: str,
        value: str | None,
        synonyms: list[DescribeConfigsSynonym],
        *,
        read_only: bool,
        config_type: ConfigType,
        documentation: str,
    ) -> DescribeConfigsResourceResult:
        """Return the entry with the requested details. The first of the synonyms, if any, is in effect."""
        return DescribeConfigsResourceResult(
            name=name,
            value=value,
            read_only=read_only,
            config_source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
            is_sensitive=config_type is ConfigType.PASSWORD,
            synonyms=tuple(synonyms) if self._include_synonyms else (),
            config_type=config_type,
            documentation=documentation if self._include_documentation else None,
        )

    def _of_key(self, key: Key) -> list[DescribeConfigsSynonym]:
        """Return the values of a key of the file, with its default; the one in effect comes first."""
        return [*self._set(key.name), _synonym(key.name, _default(key), ConfigSource.DEFAULT_CONFIG)]

    def _set(self, key: str) -> Iterator[DescribeConfigsSynonym]:
        """Yield the values that are set for a key of the file; the one in effect comes first."""
        for settings, source in (
            (self._own, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (self._of_all, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (self._file, ConfigSource.STATIC_BROKER_CONFIG),
        ):
            if key in settings:
                yield _synonym(key, settings[key], source)


def _check_named(name: str, problem: str) -> None:
    if not name:
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)


def _synonym(name: str, value: str | None, source: ConfigSource) -> DescribeConfigsSynonym:
    return DescribeConfigsSynonym(name=name, value=value, source=source)


def _default(key: Key) -> str | None:
    match key.default:
        case None | () | Required():
            return None
        case bool() | int() | float() | str() | tuple() as value:
            return text_of(value)
        case Enum() as one:
            return str(one.value)
        case frozenset() as names:
            return ",".join(sorted(map(str, names))) or None
        case other:
            raise AssertionError(f"{key.name}: default {other!r} has no text form")
