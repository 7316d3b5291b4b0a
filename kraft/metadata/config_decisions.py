"""Decisions that alter configs: one key at a time, checked together.

Source: KIP-339 (IncrementalAlterConfigs); KIP-133 (AlterConfigs, which replaces all of them).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from kraft.log.topic_config import TOPIC_CONFIGS, TopicConfig
from kraft.metadata.broker_configs import EVERY_BROKER, check_broker_config, check_broker_key
from kraft.metadata.client_metrics_decisions import ClientMetricsAlterations
from kraft.metadata.configs import NOT_SUPPORTED_YET, broker_defaults, checked, text_in_effect, unknown_config
from kraft.metadata.decision import Decision
from kraft.metadata.election_decisions import without_stale_elrs
from kraft.metadata.features import require_groups, require_settings
from kraft.metadata.group_configs import GroupDefaults, check_group_configs, check_group_key
from kraft.metadata.image import MetadataImage, TopicImage
from kraft.metadata.records import BrokerConfigSet, GroupConfigSet, MetadataRecord, TopicConfigSet
from kraft.metadata.topic_names import unknown_topic
from kraft.model.config_keys import Key
from kraft.model.config_types import list_items
from kraft.model.configs import ConfigOperation, ConfigResourceType, ConfigType
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kraft.wire.schema.alter_configs import AlterConfigsResource as ReplacedResource
from kraft.wire.schema.alter_configs import AlterConfigsResourceResponse as AllResponse
from kraft.wire.schema.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kraft.wire.schema.incremental_alter_configs import AlterConfigsResourceResponse as OneByOneResponse

ALTERATIONS_PER_REQUEST_MAX = 10_000
"""Kafka's limit too: a single request must not keep the controller busy for seconds."""


_OPERATIONS: Final = frozenset(ConfigOperation)


class NodeConfigs(Struct, frozen=True, kw_only=True):
    """Configs of the node that decides, from its file: what alterations are checked together with."""

    topics: TopicConfig
    """Defaults of topics, with dynamic configs of brokers."""

    settings: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, Key] = field(default_factory=dict)
    """All keys that such a file may hold."""

    groups: GroupDefaults = field(default_factory=GroupDefaults)


class _Resource(Protocol):
    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...

    @property
    def configs(self) -> Sequence[object]: ...


_AnyResource = TypeVar("_AnyResource", bound=_Resource)
_Response_co = TypeVar("_Response_co", covariant=True)


class _ResourceResponse(Protocol[_Response_co]):
    """Constructor of one result; both APIs have their own struct with these same fields."""

    def __call__(
        self, *, error_code: int, error_message: str | None, resource_type: int, resource_name: str
    ) -> _Response_co: ...


def alter_configs(
    image: MetadataImage, request: AlterConfigsRequest, node: NodeConfigs
) -> Decision[AlterConfigsResponse]:
    """Replace all configs of each resource on its own: those that are not named return to their defaults."""
    records, refusals = _altered_resources(image, request.resources, node, partial(_replacing, image))
    responses = resource_responses(AllResponse, request.resources, refusals)
    return Decision(
        records=[] if request.validate_only else records, response=AlterConfigsResponse(responses=responses)
    )


def incremental_alter_configs(
    image: MetadataImage, request: IncrementalAlterConfigsRequest, node: NodeConfigs
) -> Decision[IncrementalAlterConfigsResponse]:
    """Alter each resource on its own: all its alterations or none. One that changes nothing gives no record."""
    records, refusals = _altered_resources(image, request.resources, node, lambda resource: resource)
    responses = resource_responses(OneByOneResponse, request.resources, refusals)
    return Decision(
        records=[] if request.validate_only else records, response=IncrementalAlterConfigsResponse(responses=responses)
    )


def resource_responses(
    response: _ResourceResponse[_Response_co], resources: Sequence[_Resource], refusals: Sequence[Refusal | None]
) -> tuple[_Response_co, ...]:
    """Return the response for each resource, in their order; None is no refusal."""
    return tuple(
        response(
            error_code=ErrorCode.NONE if refusal is None else refusal.error_code,
            error_message=None if refusal is None else refusal.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, refusal in zip(resources, refusals, strict=True)
    )


def _altered_resources(
    image: MetadataImage,
    resources: Sequence[_AnyResource],
    node: NodeConfigs,
    alterations_of: Callable[[_AnyResource], AlterConfigsResource],
) -> tuple[list[MetadataRecord], list[Refusal | None]]:
    named = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    left = ALTERATIONS_PER_REQUEST_MAX
    records: list[MetadataRecord] = []
    refusals: list[Refusal | None] = []
    client_metrics = ClientMetricsAlterations(image)
    for resource in resources:
        left -= len(resource.configs)
        try:
            _check_resource(resource, named[resource.resource_type, resource.resource_name], left)
            alterations = alterations_of(resource)
            _check_alterations(alterations.configs)
            match alterations.resource_type:
                case ConfigResourceType.BROKER:
                    records += _altered_broker(image, alterations, node)
                case ConfigResourceType.GROUP:
                    records += _altered_group(image, alterations, node.groups)
                case ConfigResourceType.CLIENT_METRICS:
                    records += client_metrics.altered(alterations)
                case _:
                    records += _altered(image, _topic(image, alterations), alterations, node.topics)
        except Refusal as refusal:
            refusals.append(refusal)
        else:
            refusals.append(None)
    return records, refusals


def _check_resource(resource: _Resource, times_named: int, alterations_left: int) -> None:
    if alterations_left < 0:
        problem = f"more than {ALTERATIONS_PER_REQUEST_MAX} configs in one request: alter fewer at a time"
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    if times_named > 1:
        problem = f"resource '{resource.resource_name[:300]}' is in the request {times_named} times: name it once"
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)


def _check_alterations(configs: Sequence[AlterableConfig]) -> None:
    for config in configs:
        if config.config_operation not in _OPERATIONS:
            problem = f"config '{config.name[:100]}': unknown operation {config.config_operation}"
            raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    if len(configs) > 1:
        for name, times in Counter(config.name for config in configs).items():
            if times > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, f"config '{name[:100]}' is in the request {times} times")
    for config in configs:
        # DELETE takes no value, but some clients send one.
        if config.value is None and config.config_operation != ConfigOperation.DELETE:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"config '{config.name[:100]}' has no value: give it one")


def _replacing(image: MetadataImage, resource: ReplacedResource) -> AlterConfigsResource:
    """Return the alterations by which the resource has these configs and no others."""
    alterations = [
        AlterableConfig(name=config.name, config_operation=ConfigOperation.SET, value=config.value)
        for config in resource.configs
    ]
    if own := _own_configs(image, resource):
        named = {config.name for config in resource.configs}
        alterations += [
            AlterableConfig(name=key, config_operation=ConfigOperation.DELETE, value=None)
            for key in sorted(own)
            if key not in named
        ]
    return AlterConfigsResource(
        resource_type=resource.resource_type, resource_name=resource.resource_name, configs=tuple(alterations)
    )


def _own_configs(image: MetadataImage, resource: ReplacedResource) -> Mapping[str, str]:
    """Return what is set; nothing for a resource that does not exist, which is refused later."""
    name = resource.resource_name
    match resource.resource_type:
        case ConfigResourceType.BROKER:
            try:
                return image.broker_configs.get(_broker_name(image, name), {})
            except Refusal:
                return {}
        case ConfigResourceType.GROUP:
            return image.group_configs.get(name, {})
        case ConfigResourceType.CLIENT_METRICS:
            return image.client_metrics.get(name, {})
        case _:
            topic = image.topic(name)
            return {} if topic is None else topic.configs


def _topic(image: MetadataImage, resource: AlterConfigsResource) -> TopicImage:
    if resource.resource_type != ConfigResourceType.TOPIC:
        what = ConfigResourceType(resource.resource_type).name.lower().replace("_", " ")
        problem = (
            f"altering configs of a {what} is not supported: alter those of a topic, broker, group or client metrics"
        )
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    if not resource.resource_name:
        problem = "no topic is named, and configs cannot be altered for all topics at once: name one"
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    topic = image.topic(resource.resource_name)
    if topic is None:
        raise unknown_topic(resource.resource_name)
    return topic


def _altered_broker(image: MetadataImage, resource: AlterConfigsResource, node: NodeConfigs) -> list[MetadataRecord]:
    require_settings(image, "altering broker configs")
    broker = _broker_name(image, resource.resource_name)
    before = image.broker_configs.get(broker, {})
    for config in resource.configs:
        if config.config_operation == ConfigOperation.SET:
            assert config.value is not None, "checked before"
            check_broker_config(config.name, config.value, node.keys)
    wanted = _set_and_deleted(resource, before, lambda key: check_broker_key(key, node.keys))
    # A value is checked together with all others that would be in effect.
    of_all = {} if broker == EVERY_BROKER else image.broker_configs.get(EVERY_BROKER, {})
    broker_defaults({**node.settings, **of_all, **wanted})
    return [
        BrokerConfigSet(broker=broker, key=key, value=wanted.get(key))
        for key in sorted({config.name for config in resource.configs})
        if wanted.get(key) != before.get(key)
    ]


def _altered_group(
    image: MetadataImage, resource: AlterConfigsResource, defaults: GroupDefaults
) -> list[MetadataRecord]:
    require_groups(image, "altering group configs")
    group_id = resource.resource_name
    if not group_id:
        raise Refusal(ErrorCode.INVALID_REQUEST, "the group id is empty: name a group")
    before = image.group_configs.get(group_id, {})
    wanted = _set_and_deleted(resource, before, check_group_key)
    check_group_configs(wanted, defaults)
    return [
        GroupConfigSet(group_id=group_id, key=key, value=wanted.get(key))
        for key in sorted(before.keys() | wanted.keys())
        if wanted.get(key) != before.get(key)
    ]


def _set_and_deleted(
    resource: AlterConfigsResource, before: Mapping[str, str], check_key: Callable[[str], None]
) -> dict[str, str]:
    """Return the configs after the alterations, none of which is for a list. Raises Refusal, also from `check_key`."""
    wanted = dict(before)
    for config in resource.configs:
        if config.name not in before:
            check_key(config.name)
        match ConfigOperation(config.config_operation):
            case ConfigOperation.SET:
                assert config.value is not None, "checked before"
                wanted[config.name] = config.value
            case ConfigOperation.DELETE:
                wanted.pop(config.name, None)
            case ConfigOperation.APPEND | ConfigOperation.SUBTRACT:
                what = ConfigResourceType(resource.resource_type).name.lower()
                problem = f"{config.name[:100]} of a {what} cannot be appended to or subtracted from: set all of it"
                raise Refusal(ErrorCode.INVALID_CONFIG, problem)
    return wanted


def _broker_name(image: MetadataImage, name: str) -> str:
    if name == EVERY_BROKER:
        return name
    if not name.isascii() or not name.isdigit() or len(name) > 10:
        raise Refusal(
            ErrorCode.INVALID_REQUEST, f"'{name[:100]}' is not a broker id: give one, or none for all brokers"
        )
    if image.broker(int(name)) is None:
        raise Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {int(name)} is not registered: check the id")
    return str(int(name))


def _altered(
    image: MetadataImage, topic: TopicImage, resource: AlterConfigsResource, defaults: TopicConfig
) -> list[MetadataRecord]:
    wanted = dict(topic.configs)
    for config in resource.configs:
        value = _new_value(topic.configs, config, defaults)
        if value is None:
            wanted.pop(config.name, None)
        else:
            wanted[config.name] = value
    changed = {
        config.name: wanted.get(config.name)
        for config in resource.configs
        if wanted.get(config.name) != topic.configs.get(config.name)
    }
    in_effect = checked(defaults, wanted)
    records: list[MetadataRecord] = [
        TopicConfigSet(topic_id=topic.topic_id, key=key, value=value) for key, value in sorted(changed.items())
    ]
    if "min.insync.replicas" in changed:
        _check_min_insync_replicas(in_effect.min_insync_replicas, topic.replication_factor)
        # With a lower minimum, leaders commit again once there is no ELR left.
        records += without_stale_elrs(image, replace(topic, configs=wanted), defaults)
    return records


def _new_value(configs: Mapping[str, str], config: AlterableConfig, defaults: TopicConfig) -> str | None:
    """Return the topic's own value for the key after the alteration. Values are checked later, all together."""
    key, value = config.name, config.value
    operation = ConfigOperation(config.config_operation)
    match operation:
        case ConfigOperation.DELETE:
            if key not in TOPIC_CONFIGS and key not in NOT_SUPPORTED_YET and key not in configs:
                raise Refusal(ErrorCode.INVALID_CONFIG, unknown_config(key))
            return None
        case ConfigOperation.SET:
            return value
        case ConfigOperation.APPEND | ConfigOperation.SUBTRACT:
            assert value is not None, "checked before"
            return _altered_list(configs, key, value, defaults, adds=operation is ConfigOperation.APPEND)


def _altered_list(configs: Mapping[str, str], key: str, value: str, defaults: TopicConfig, *, adds: bool) -> str:
    declared = TOPIC_CONFIGS.get(key)
    if declared is None:
        raise Refusal(ErrorCode.INVALID_CONFIG, unknown_config(key))
    if declared.type is not ConfigType.LIST:
        verb = "appended to" if adds else "subtracted from"
        raise Refusal(ErrorCode.INVALID_CONFIG, f"nothing can be {verb} {key}, which is not a list: set it instead")
    # A topic without a value of its own starts from the value in effect, as in Kafka.
    before = list_items(configs[key] if key in configs else text_in_effect(defaults, key))
    items = list_items(value)
    if adds:
        return ",".join(dict.fromkeys([*before, *items]))
    return ",".join(item for item in before if item not in items)


def _check_min_insync_replicas(demanded: int, replication_factor: int) -> None:
    """Refuse a minimum above the number of replicas: it has no more effect than that number."""
    if demanded > replication_factor:
        problem = (
            f"min.insync.replicas would be {demanded}, but the topic has {replication_factor} replicas: "
            f"set min.insync.replicas={replication_factor} at most"
        )
        raise Refusal(ErrorCode.INVALID_CONFIG, problem)
