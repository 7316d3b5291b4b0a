"""Configs of groups: set one key at a time, checked together, within the bounds of the brokers' files."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from kraft.log.topic_config import KAFKA_DEFAULTS
from kraft.metadata.config_decisions import NodeConfigs, alter_configs, incremental_alter_configs
from kraft.metadata.decision import Decision
from kraft.metadata.group_configs import GROUP_CONFIGS, GroupBounds, GroupConfig, GroupDefaults
from kraft.metadata.image import MetadataImage
from kraft.metadata.records import GroupConfigSet, MetadataRecord
from kraft.model.configs import ConfigOperation, ConfigResourceType
from kraft.model.errors import ErrorCode
from kraft.wire.schema.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.cluster_images import cluster, earlier_cluster
from tests.support.replaced_configs import asked_to_replace

SET, DELETE, APPEND = ConfigOperation.SET, ConfigOperation.DELETE, ConfigOperation.APPEND
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
SESSION_TIMEOUT = "consumer.session.timeout.ms"
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"
KAFKAS = GroupDefaults()
WIDE = GroupDefaults(
    bounds=GroupBounds(
        least=GroupConfig(heartbeat_interval_ms=1, session_timeout_ms=1, assignment_interval_ms=0),
        most=KAFKAS.bounds.most,
    )
)


def alter(
    *alterations: tuple[str, ConfigOperation, str | None],
    group: str = "billing",
    image: MetadataImage | None = None,
    defaults: GroupDefaults = WIDE,
    replaces: bool = False,
) -> tuple[int, str, list[MetadataRecord]]:
    before = cluster(1) if image is None else image
    node = NodeConfigs(topics=KAFKA_DEFAULTS, groups=defaults)
    decision: Decision[Any]
    if replaces:
        request = asked_to_replace(ConfigResourceType.GROUP, group, {key: value for key, _, value in alterations})
        decision = alter_configs(before, request, node)
    else:
        resource = AlterConfigsResource(
            resource_type=ConfigResourceType.GROUP,
            resource_name=group,
            configs=tuple(
                AlterableConfig(name=key, config_operation=how, value=value) for key, how, value in alterations
            ),
        )
        one_by_one = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
        decision = incremental_alter_configs(before, one_by_one, node)
    (result,) = decision.response.responses
    return result.error_code, result.error_message or "", list(decision.records)


def test_configs_are_set_and_removed() -> None:
    code, _, records = alter((SESSION_TIMEOUT, SET, "50000"), (HEARTBEAT_INTERVAL, SET, "1000"))
    assert code is ErrorCode.NONE
    assert records == [
        GroupConfigSet(group_id="billing", key=HEARTBEAT_INTERVAL, value="1000"),
        GroupConfigSet(group_id="billing", key=SESSION_TIMEOUT, value="50000"),
    ]
    image = cluster(1).replay(records)
    assert image.group_configs == {"billing": {HEARTBEAT_INTERVAL: "1000", SESSION_TIMEOUT: "50000"}}
    assert alter((SESSION_TIMEOUT, SET, "50000"), image=image)[2] == []
    removed = [GroupConfigSet(group_id="billing", key=SESSION_TIMEOUT, value=None)]
    assert alter((SESSION_TIMEOUT, DELETE, None), image=image)[2] == removed
    assert alter((HEARTBEAT_INTERVAL, SET, "1000"), image=image, replaces=True)[2] == removed
    assert image.replay(alter(image=image, replaces=True)[2]).group_configs == {}


@pytest.mark.parametrize(
    ("alteration", "words"),
    [
        ((SESSION_TIMEOUT, SET, "60001"), "expected a whole number from 1 to 60000"),
        ((SESSION_TIMEOUT, SET, "0"), "expected a whole number from 1 to 60000"),
        ((SESSION_TIMEOUT, SET, "long"), "expected a whole number"),
        ((SESSION_TIMEOUT, SET, "5000"), "lower the first"),
        ((ASSIGNMENT_INTERVAL, SET, "-1"), "expected a whole number from 0 to 15000"),
        ((ASSIGNMENT_INTERVAL, SET, "15001"), "expected a whole number from 0 to 15000"),
        ((SESSION_TIMEOUT, APPEND, "5000"), "cannot be appended to"),
        (("consumer.session.timeout", SET, "5000"), "did you mean 'consumer.session.timeout.ms'?"),
        (("consumer.session.timeout", DELETE, None), "did you mean"),
        (("x", APPEND, "5000"), "there is no group config"),
    ],
)
def test_what_is_not_valid_is_refused(alteration: tuple[str, ConfigOperation, str | None], words: str) -> None:
    code, message, records = alter(alteration)
    assert (code, records) == (ErrorCode.INVALID_CONFIG, [])
    assert words in message


def test_kafkas_bounds_are_the_default() -> None:
    code, message, _ = alter((SESSION_TIMEOUT, SET, "44999"), defaults=GroupDefaults())
    assert code is ErrorCode.INVALID_CONFIG
    assert "from 45000 to 60000" in message
    assert "group.consumer.min.session.timeout.ms and group.consumer.max.session.timeout.ms" in message


def test_a_group_has_to_be_named() -> None:
    assert alter((SESSION_TIMEOUT, SET, "50000"), group="")[0] is ErrorCode.INVALID_REQUEST


def test_the_whole_cluster_has_to_know_group_configs() -> None:
    code, message, _ = alter((SESSION_TIMEOUT, SET, "50000"), image=earlier_cluster())
    assert code is ErrorCode.UNSUPPORTED_VERSION
    assert "kraft features upgrade --feature group.version=1" in message


def test_each_config_has_a_field_of_its_own() -> None:
    assert [each.field_name for each in GROUP_CONFIGS.values()] == [field.name for field in fields(GroupConfig)]
