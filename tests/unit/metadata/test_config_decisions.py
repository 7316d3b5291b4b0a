from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import pytest

from kraft.log.topic_config import KAFKA_DEFAULTS, TopicConfig
from kraft.metadata.broker_decisions import fence_broker
from kraft.metadata.config_decisions import (
    ALTERATIONS_PER_REQUEST_MAX,
    NodeConfigs,
    alter_configs,
    incremental_alter_configs,
)
from kraft.metadata.configs import broker_defaults
from kraft.metadata.decision import Decision
from kraft.metadata.image import MetadataImage
from kraft.metadata.records import BrokerConfigSet, TopicConfigSet
from kraft.model.configs import ConfigOperation, ConfigResourceType
from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerId, TopicId
from kraft.server.config.keys import BY_NAME
from kraft.wire.schema.alter_configs import AlterConfigsResponse
from kraft.wire.schema.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.support.cluster_images import ORDERS, cluster, epoch_of, partition, with_topic
from tests.support.replaced_configs import asked_to_replace

BILLS = TopicId(UUID(int=101))
SET, DELETE, APPEND, SUBTRACT = ConfigOperation


def op(operation: ConfigOperation, key: str, value: str | None = None) -> AlterableConfig:
    return AlterableConfig(name=key, config_operation=operation, value=value)


def of(
    *configs: AlterableConfig, topic: str = "orders", kind: ConfigResourceType = ConfigResourceType.TOPIC
) -> AlterConfigsResource:
    return AlterConfigsResource(resource_type=kind, resource_name=topic, configs=configs)


def alter(
    image: MetadataImage,
    *resources: AlterConfigsResource,
    validate_only: bool = False,
    defaults: TopicConfig = KAFKA_DEFAULTS,
) -> Decision[IncrementalAlterConfigsResponse]:
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)
    return incremental_alter_configs(image, request, NodeConfigs(topics=defaults))


def replaced(image: MetadataImage, configs: Mapping[str, str | None]) -> Decision[AlterConfigsResponse]:
    request = asked_to_replace(ConfigResourceType.TOPIC, "orders", configs)
    return alter_configs(image, request, NodeConfigs(topics=KAFKA_DEFAULTS))


def orders(**configs: str) -> MetadataImage:
    """A topic of three replicas with these configs, '_' standing for '.'."""
    records = [
        TopicConfigSet(topic_id=ORDERS, key=key.replace("_", "."), value=value) for key, value in configs.items()
    ]
    return with_topic(cluster(1, 2, 3), [1, 2, 3]).replay(records)


def configs_after(
    image: MetadataImage, decision: Decision[IncrementalAlterConfigsResponse] | Decision[AlterConfigsResponse]
) -> dict[str, str]:
    assert [result.error_code for result in decision.response.responses] == [ErrorCode.NONE]
    topic = image.replay(decision.records).topic("orders")
    assert topic is not None
    return dict(topic.configs)


def test_what_is_set_and_deleted_is_so_and_the_rest_stays() -> None:
    image = orders(retention_ms="1", segment_bytes="1000")
    decision = alter(image, of(op(SET, "max.message.bytes", "500"), op(DELETE, "retention.ms")))
    assert configs_after(image, decision) == {"segment.bytes": "1000", "max.message.bytes": "500"}


def test_where_all_is_replaced_by_nothing_nothing_is_set() -> None:
    image = orders(retention_ms="1")
    assert configs_after(image, replaced(image, {})) == {}


def test_a_value_that_is_null_is_refused_where_all_is_replaced() -> None:
    decision = replaced(orders(retention_ms="1"), {"retention.ms": None})
    (result,) = decision.response.responses
    assert (result.error_code, result.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "config 'retention.ms' has no value: give it one",
    )
    assert not decision.records


def test_a_resource_that_does_not_exist_cannot_be_replaced() -> None:
    for kind, name, code in (
        (ConfigResourceType.TOPIC, "ordres", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ConfigResourceType.BROKER, "one", ErrorCode.INVALID_REQUEST),
        (ConfigResourceType.BROKER, "77", ErrorCode.BROKER_ID_NOT_REGISTERED),
        (99, "1", ErrorCode.INVALID_REQUEST),
    ):
        request = asked_to_replace(kind, name, {"retention.ms": "5"})
        decision = alter_configs(orders(), request, NodeConfigs(topics=KAFKA_DEFAULTS))
        (result,) = decision.response.responses
        assert (result.error_code, result.resource_type, result.resource_name) == (code, kind, name)
        assert not decision.records


def test_the_configs_of_a_broker_are_replaced() -> None:
    image = cluster(1).replay([BrokerConfigSet(broker="1", key="log.retention.ms", value="5")])
    request = asked_to_replace(ConfigResourceType.BROKER, "1", {"log.roll.ms": "7"})
    decision = alter_configs(image, request, NodeConfigs(topics=KAFKA_DEFAULTS, keys=BY_NAME))
    assert image.replay(decision.records).broker_configs["1"] == {"log.roll.ms": "7"}


def test_a_deletion_takes_no_notice_of_a_value() -> None:
    image = orders(retention_ms="1")
    assert configs_after(image, alter(image, of(op(DELETE, "retention.ms", "a value")))) == {}


def test_an_operation_that_does_not_exist_is_refused_and_the_other_resources_are_altered() -> None:
    unknown = AlterableConfig(name="retention.ms", config_operation=9, value="1")
    image = with_topic(orders(), [1], topic="bills", topic_id=BILLS)
    decision = alter(image, of(unknown), of(op(SET, "retention.ms", "1"), topic="bills"))
    assert [(each.error_code, each.error_message) for each in decision.response.responses] == [
        (ErrorCode.INVALID_REQUEST, "config 'retention.ms': unknown operation 9"),
        (ErrorCode.NONE, None),
    ]
    assert decision.records == [TopicConfigSet(topic_id=BILLS, key="retention.ms", value="1")]


@pytest.mark.parametrize(
    ("before", "operation", "value", "after"),
    [
        (None, APPEND, "compact", "delete,compact"),
        ("compact", APPEND, "delete", "compact,delete"),
        ("", APPEND, "compact", "compact"),
        ("compact", APPEND, "compact,delete", "compact,delete"),
        ("compact,delete", SUBTRACT, "delete", "compact"),
        ("delete", SUBTRACT, "compact", "delete"),
        (None, SUBTRACT, "delete", ""),
    ],
)
def test_lists_are_appended_to_and_subtracted_from(
    before: str | None, operation: ConfigOperation, value: str, after: str
) -> None:
    image = orders() if before is None else orders(cleanup_policy=before)
    decision = alter(image, of(op(operation, "cleanup.policy", value)))
    assert configs_after(image, decision) == {"cleanup.policy": after}


def test_a_list_that_the_topic_does_not_set_begins_as_the_clusters() -> None:
    decision = alter(
        orders(),
        of(op(APPEND, "cleanup.policy", "delete")),
        defaults=broker_defaults({"log.cleanup.policy": "compact"}),
    )
    assert configs_after(orders(), decision) == {"cleanup.policy": "compact,delete"}


def test_throttled_replicas_are_set_and_appended_to_and_removed_as_the_tools_of_kafka_do() -> None:
    key = "leader.replication.throttled.replicas"
    image = orders()
    for operation, value, expected in (
        (APPEND, "0:1,0:2", "0:1,0:2"),
        (APPEND, "0:2,1:3", "0:1,0:2,1:3"),
        (SUBTRACT, "0:1,0:2", "1:3"),
        (SET, "*", "*"),
        (DELETE, None, None),
    ):
        decision = alter(image, of(op(operation, key, value)))
        assert configs_after(image, decision).get(key) == expected
        image = image.replay(decision.records)


@pytest.mark.parametrize(
    ("alteration", "code", "message"),
    [
        (op(SET, "retention.ms", "soon"), ErrorCode.INVALID_CONFIG, "a whole number from -1"),
        (op(SET, "retention.m", "1"), ErrorCode.INVALID_CONFIG, "did you mean 'retention.ms'?"),
        (op(DELETE, "retention.m"), ErrorCode.INVALID_CONFIG, "did you mean 'retention.ms'?"),
        (op(SET, "log.retention.hours", "1"), ErrorCode.INVALID_CONFIG, "for a topic use 'retention.ms'"),
        (op(SET, "remote.storage.enable", "true"), ErrorCode.INVALID_CONFIG, "not supported yet"),
        (op(SET, "min.insync.replicas", "4"), ErrorCode.INVALID_CONFIG, "the topic has 3 replicas: set"),
        (op(SET, "min.compaction.lag.ms", "11"), ErrorCode.INVALID_CONFIG, "is above max.compaction.lag.ms (10)"),
        (op(APPEND, "retention.ms", "1"), ErrorCode.INVALID_CONFIG, "nothing can be appended to retention.ms"),
        (op(SUBTRACT, "segment.ms", "1"), ErrorCode.INVALID_CONFIG, "nothing can be subtracted from segment.ms"),
        (op(APPEND, "remote.log.copy.disable", "true"), ErrorCode.INVALID_CONFIG, "not supported yet"),
        (op(SET, "leader.replication.throttled.replicas", "0-1"), ErrorCode.INVALID_CONFIG, "list of partition:broker"),
        (op(APPEND, "cleanup.policy", "drop"), ErrorCode.INVALID_CONFIG, "delete or compact"),
        (op(SET, "retention.ms"), ErrorCode.INVALID_REQUEST, "config 'retention.ms' has no value"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_changed(
    alteration: AlterableConfig, code: ErrorCode, message: str
) -> None:
    image = orders(max_compaction_lag_ms="10")
    decision = alter(image, of(op(SET, "segment.bytes", "100"), alteration))
    (result,) = decision.response.responses
    assert (result.error_code, result.resource_name) == (code, "orders")
    assert message in (result.error_message or "")
    assert "\n" not in (result.error_message or "")
    assert not decision.records


def test_each_topic_is_altered_on_its_own() -> None:
    image = with_topic(orders(), [1], topic="bills", topic_id=BILLS)
    decision = alter(
        image,
        of(op(SET, "retention.ms", "1"), topic="bills"),
        of(op(SET, "retention.ms", "1"), topic="nowhere"),
        of(op(SET, "retention.ms", "1"), topic="a/b"),
        of(op(SET, "retention.ms", "1"), topic=""),
        of(op(SET, "retention.ms", "1")),
    )
    assert [result.error_code for result in decision.response.responses] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
    ]
    assert decision.records == [
        TopicConfigSet(topic_id=BILLS, key="retention.ms", value="1"),
        TopicConfigSet(topic_id=ORDERS, key="retention.ms", value="1"),
    ]


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ([of(op(SET, "retention.ms", "1")), of(op(SET, "segment.bytes", "100"))], "'orders' is in the request 2 times"),
        ([of(op(SET, "retention.ms", "1"), op(DELETE, "retention.ms"))], "'retention.ms' is in the request 2 times"),
        ([of(kind=ConfigResourceType.BROKER)], "'orders' is not a broker id"),
        ([of(kind=ConfigResourceType.BROKER_LOGGER)], "altering configs of a broker logger is not supported"),
        ([of(*[op(SET, "retention.ms", "1")] * (ALTERATIONS_PER_REQUEST_MAX + 1))], "more than 10000 configs"),
    ],
)
def test_a_request_that_cannot_be_meant_is_refused(resources: list[AlterConfigsResource], message: str) -> None:
    decision = alter(orders(), *resources)
    for result in decision.response.responses:
        assert result.error_code is ErrorCode.INVALID_REQUEST
        assert message in (result.error_message or "")
    assert not decision.records


def test_a_lowered_minimum_ends_the_eligible_replicas_in_the_same_breath() -> None:
    image = orders(min_insync_replicas="2")
    for broker_id in (3, 2):
        image = image.replay(fence_broker(image, BrokerId(broker_id), epoch_of(image, broker_id)).records)
    assert partition(image).elr == (2,)
    image = image.replay(alter(image, of(op(SET, "min.insync.replicas", "1"))).records)
    assert (partition(image).isr, partition(image).elr, partition(image).leader_epoch) == ((1,), (), 0)
