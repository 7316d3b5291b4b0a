"""Decisions about configs: altered one key at a time, and checked as a whole.

Source: KIP-339 (IncrementalAlterConfigs).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from kraft.metadata.config_types import ListOf, list_items
from kraft.metadata.configs import (
    NOT_BUILT_YET,
    TOPIC_CONFIGS,
    TopicConfig,
    checked,
    text_in_effect,
    unknown_config,
)
from kraft.metadata.decision import Decision
from kraft.metadata.image import MetadataImage, TopicImage
from kraft.metadata.records import MetadataRecord, TopicConfigSet
from kraft.model.config_requests import (
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
"""Kafka's bound too: a single request must not keep the controller busy for seconds."""


def incremental_alter_configs(
    image: MetadataImage, request: IncrementalAlterConfigsRequest, *, defaults: TopicConfig
) -> Decision[IncrementalAlterConfigsResponse]:
    """Alters each resource on its own: all that is asked of it, or nothing of it.

    What a topic does not set itself is judged by `defaults`. What is so already gives no record.
    """
    named = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    left = ALTERATIONS_PER_REQUEST_MAX
    records: list[MetadataRecord] = []
    results = []
    for resource in request.resources:
        left -= len(resource.alterations)
        try:
            _check_request(resource, named[resource.resource_type, resource.resource_name], left)
            records += _altered(_topic(image, resource), resource, defaults)
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
            raise Refusal(ErrorCode.INVALID_REQUEST, f"config '{alteration.key[:100]}' is without a value")


def _topic(image: MetadataImage, resource: ResourceAlteration) -> TopicImage:
    if resource.resource_type is not ConfigResourceType.TOPIC:
        what = resource.resource_type.name.lower().replace("_", " ")
        problem = f"configs of a {what} cannot be altered while the cluster runs: that is not built yet"
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    topic = image.topic(resource.resource_name)
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic '{resource.resource_name[:300]}'")
    return topic


def _altered(topic: TopicImage, resource: ResourceAlteration, defaults: TopicConfig) -> list[MetadataRecord]:
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
    if "min.insync.replicas" in changed:
        _check_min_insync_replicas(in_effect.min_insync_replicas, topic.replication_factor)
    return [TopicConfigSet(topic_id=topic.topic_id, key=key, value=value) for key, value in sorted(changed.items())]


def _new_value(configs: Mapping[str, str], alteration: ConfigAlteration, defaults: TopicConfig) -> str | None:
    """What the topic sets for the key afterwards. A value that is no good is found when all are checked together."""
    key, value = alteration.key, alteration.value
    match alteration.operation:
        case ConfigOperation.DELETE:
            if key not in TOPIC_CONFIGS and key not in NOT_BUILT_YET and key not in configs:
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
        raise Refusal(ErrorCode.INVALID_CONFIG, f"nothing can be {verb} {key}: its value is no list")
    # A topic that sets nothing itself starts from what it has in effect, as in Kafka.
    before = list_items(configs[key] if key in configs else text_in_effect(defaults, key))
    items = list_items(value)
    if adds:
        return ",".join(dict.fromkeys([*before, *items]))
    return ",".join(item for item in before if item not in items)


def _check_min_insync_replicas(demanded: int, replication_factor: int) -> None:
    """With more in-sync replicas demanded than there are replicas, every acks=all write would be refused for ever."""
    if demanded > replication_factor:
        problem = (
            f"min.insync.replicas would be {demanded} but the topic has {replication_factor} replicas, so that no "
            f"acks=all write could succeed: set min.insync.replicas={replication_factor} at most"
        )
        raise Refusal(ErrorCode.INVALID_CONFIG, problem)


def _result(resource: ResourceAlteration, error_code: ErrorCode, error_message: str) -> ResourceAlterationResult:
    return ResourceAlterationResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_code=error_code,
        error_message=error_message,
    )
