"""Decisions that alter configs: one key at a time, checked together.

Source: KIP-339 (IncrementalAlterConfigs); KIP-133 (AlterConfigs, which replaces all of them).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Final

from msgspec.structs import replace

from kraft.log.topic_config import TOPIC_CONFIGS, TopicConfig
from kraft.metadata.broker_configs import EVERY_BROKER, check_broker_config, check_broker_key
from kraft.metadata.configs import NOT_SUPPORTED_YET, broker_defaults, checked, text_in_effect, unknown_config
from kraft.metadata.decision import Decision
from kraft.metadata.election_decisions import without_stale_elrs
from kraft.metadata.features import require_groups, require_settings
from kraft.metadata.group_configs import GroupDefaults, check_group_configs, check_group_key
from kraft.metadata.image import MetadataImage, TopicImage
from kraft.metadata.records import BrokerConfigSet, GroupConfigSet, MetadataRecord, TopicConfigSet
from kraft.metadata.topic_names import unknown_topic
from kraft.model.config_types import ListOf, list_items
from kraft.model.configs import (
    ConfigAlteration,
    ConfigOperation,
    ConfigResourceType,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ResourceAlteration,
    ResourceAlterationResult,
)
from kraft.model.errors import ErrorCode, Refusal

ALTERATIONS_PER_REQUEST_MAX = 10_000
"""Kafka's limit too: a single request must not keep the controller busy for seconds."""

NO_SETTINGS: Final[Mapping[str, str]] = {}
NO_GROUP_SETTINGS: Final = GroupDefaults()


def incremental_alter_configs(
    image: MetadataImage,
    request: IncrementalAlterConfigsRequest,
    *,
    defaults: TopicConfig,
    broker_settings: Mapping[str, str] = NO_SETTINGS,
    broker_keys: Collection[str] = frozenset(),
    group_defaults: GroupDefaults = NO_GROUP_SETTINGS,
) -> Decision[IncrementalAlterConfigsResponse]:
    """Alter each resource on its own: all its alterations or none.

    A topic's configs are checked together with `defaults`, a broker's together with `broker_settings`, the controller's
    own file, and a group's together with `group_defaults` of that file; `broker_keys` are all keys that such a file may
    hold. An alteration that changes nothing gives no record.
    """
    named = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    left = ALTERATIONS_PER_REQUEST_MAX
    records: list[MetadataRecord] = []
    results = []
    for resource in request.resources:
        left -= len(resource.alterations)
        try:
            _check_request(resource, named[resource.resource_type, resource.resource_name], left)
            match resource.resource_type:
                case ConfigResourceType.BROKER:
                    records += _altered_broker(image, resource, broker_settings, broker_keys)
                case ConfigResourceType.GROUP:
                    records += _altered_group(image, resource, group_defaults)
                case _:
                    topic = _topic(image, resource)
                    records += _altered(image, topic, _with_deletions(resource, topic.configs), defaults)
        except Refusal as refusal:
            results.append(_result(resource, refusal.error_code, refusal.message))
        else:
            results.append(_result(resource, ErrorCode.NONE, ""))
    response = IncrementalAlterConfigsResponse(results=results)
    return Decision(records=[] if request.validate_only else records, response=response)


def _check_request(resource: ResourceAlteration, times_named: int, alterations_left: int) -> None:
    if alterations_left < 0:
        problem = f"more than {ALTERATIONS_PER_REQUEST_MAX} configs in one request: alter fewer at a time"
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    if times_named > 1:
        problem = f"'{resource.resource_name[:300]}' is in the request {times_named} times"
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    for key, times in Counter(alteration.key for alteration in resource.alterations).items():
        if times > 1:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"config '{key[:100]}' is in the request {times} times")
    for alteration in resource.alterations:
        if alteration.value is None and alteration.operation is not ConfigOperation.DELETE:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"config '{alteration.key[:100]}' has no value: give it one")


def _with_deletions(resource: ResourceAlteration, before: Mapping[str, str]) -> ResourceAlteration:
    """Add deletions of the set keys that are not named, if the request replaces all configs."""
    if not resource.replaces:
        return resource
    named = {alteration.key for alteration in resource.alterations}
    gone = [ConfigAlteration(key=key, operation=ConfigOperation.DELETE) for key in sorted(before) if key not in named]
    return replace(resource, alterations=[*resource.alterations, *gone])


def _topic(image: MetadataImage, resource: ResourceAlteration) -> TopicImage:
    if resource.resource_type is not ConfigResourceType.TOPIC:
        what = resource.resource_type.name.lower().replace("_", " ")
        problem = f"altering configs of a {what} is not supported yet: alter those of a topic, a broker or a group"
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    if not resource.resource_name:
        problem = "no topic is named, and configs cannot be altered for all topics at once: name one"
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    topic = image.topic(resource.resource_name)
    if topic is None:
        raise unknown_topic(resource.resource_name)
    return topic


def _altered_broker(
    image: MetadataImage,
    resource: ResourceAlteration,
    settings: Mapping[str, str],
    known_keys: Collection[str],
) -> list[MetadataRecord]:
    require_settings(image, "altering broker configs")
    broker = _broker_name(image, resource.resource_name)
    before = image.broker_configs.get(broker, {})
    resource = _with_deletions(resource, before)
    for alteration in resource.alterations:
        if alteration.operation is ConfigOperation.SET:
            assert alteration.value is not None, "checked before"
            check_broker_config(alteration.key, alteration.value, known_keys)
    wanted = _set_and_deleted(resource, before, lambda key: check_broker_key(key, known_keys))
    # A value is checked together with all others that would be in effect.
    of_all = {} if broker == EVERY_BROKER else image.broker_configs.get(EVERY_BROKER, {})
    broker_defaults({**settings, **of_all, **wanted})
    return [
        BrokerConfigSet(broker=broker, key=key, value=wanted.get(key))
        for key in sorted({alteration.key for alteration in resource.alterations})
        if wanted.get(key) != before.get(key)
    ]


def _altered_group(image: MetadataImage, resource: ResourceAlteration, defaults: GroupDefaults) -> list[MetadataRecord]:
    require_groups(image, "altering group configs")
    group_id = resource.resource_name
    if not group_id:
        raise Refusal(ErrorCode.INVALID_REQUEST, "the group id is empty: name a group")
    before = image.group_configs.get(group_id, {})
    wanted = _set_and_deleted(_with_deletions(resource, before), before, check_group_key)
    check_group_configs(wanted, defaults)
    return [
        GroupConfigSet(group_id=group_id, key=key, value=wanted.get(key))
        for key in sorted(before.keys() | wanted.keys())
        if wanted.get(key) != before.get(key)
    ]


def _set_and_deleted(
    resource: ResourceAlteration, before: Mapping[str, str], check_key: Callable[[str], None]
) -> dict[str, str]:
    """Return the configs after the alterations, none of which is for a list. Raises Refusal, also from `check_key`."""
    wanted = dict(before)
    for alteration in resource.alterations:
        if alteration.key not in before:
            check_key(alteration.key)
        match alteration.operation:
            case ConfigOperation.SET:
                assert alteration.value is not None, "checked before"
                wanted[alteration.key] = alteration.value
            case ConfigOperation.DELETE:
                wanted.pop(alteration.key, None)
            case ConfigOperation.APPEND | ConfigOperation.SUBTRACT:
                what = resource.resource_type.name.lower()
                problem = f"{alteration.key[:100]} of a {what} cannot be appended to or subtracted from: set all of it"
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
    image: MetadataImage, topic: TopicImage, resource: ResourceAlteration, defaults: TopicConfig
) -> list[MetadataRecord]:
    wanted = dict(topic.configs)
    for alteration in resource.alterations:
        value = _new_value(topic.configs, alteration, defaults)
        if value is None:
            wanted.pop(alteration.key, None)
        else:
            wanted[alteration.key] = value
    changed = {
        alteration.key: wanted.get(alteration.key)
        for alteration in resource.alterations
        if wanted.get(alteration.key) != topic.configs.get(alteration.key)
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


def _new_value(configs: Mapping[str, str], alteration: ConfigAlteration, defaults: TopicConfig) -> str | None:
    """Return the topic's own value for the key after the alteration. Values are checked later, all together."""
    key, value = alteration.key, alteration.value
    match alteration.operation:
        case ConfigOperation.DELETE:
            if key not in TOPIC_CONFIGS and key not in NOT_SUPPORTED_YET and key not in configs:
                raise Refusal(ErrorCode.INVALID_CONFIG, unknown_config(key))
            return None
        case ConfigOperation.SET:
            return value
        case ConfigOperation.APPEND | ConfigOperation.SUBTRACT:
            assert value is not None, "checked before"
            return _altered_list(configs, key, value, defaults, adds=alteration.operation is ConfigOperation.APPEND)


def _altered_list(configs: Mapping[str, str], key: str, value: str, defaults: TopicConfig, *, adds: bool) -> str:
    declared = TOPIC_CONFIGS.get(key)
    if declared is None:
        raise Refusal(ErrorCode.INVALID_CONFIG, unknown_config(key))
    if not isinstance(declared.kind, ListOf):
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


def _result(resource: ResourceAlteration, error_code: ErrorCode, error_message: str) -> ResourceAlterationResult:
    return ResourceAlterationResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_code=error_code,
        error_message=error_message,
    )
