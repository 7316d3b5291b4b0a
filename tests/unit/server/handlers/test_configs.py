from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraft.log.topic_config import KAFKA_DEFAULTS
from kraft.metadata.config_decisions import NodeConfigs, incremental_alter_configs
from kraft.metadata.records import TopicConfigSet
from kraft.model.configs import ConfigOperation, ConfigResourceType
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.handlers.configs import all_refused, is_applied, one_by_one_refused
from kraft.wire.schema.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.support.cluster_images import ORDERS, cluster, with_topic
from tests.support.replaced_configs import asked_to_replace

TOPIC = ConfigResourceType.TOPIC
BEFORE = with_topic(cluster(1), [1])
AFTER = BEFORE.replay([TopicConfigSet(topic_id=ORDERS, key="cleanup.policy", value="delete,compact")])
REQUEST = IncrementalAlterConfigsRequest(
    resources=(
        AlterConfigsResource(
            resource_type=TOPIC,
            resource_name="orders",
            configs=(
                AlterableConfig(name="cleanup.policy", config_operation=ConfigOperation.APPEND, value="compact"),
                AlterableConfig(name="retention.ms", config_operation=ConfigOperation.DELETE, value=None),
            ),
        ),
    ),
    validate_only=False,
)

HOLDS = is_applied(incremental_alter_configs, lambda _: NodeConfigs(topics=KAFKA_DEFAULTS))


def answer(code: ErrorCode = ErrorCode.NONE) -> IncrementalAlterConfigsResponse:
    result = AlterConfigsResourceResponse(
        error_code=code, error_message=None, resource_type=TOPIC, resource_name="orders"
    )
    return IncrementalAlterConfigsResponse(responses=(result,))


def test_altered_configs_are_applied_once_the_image_has_them() -> None:
    assert not HOLDS(BEFORE, REQUEST, answer())
    assert HOLDS(AFTER, REQUEST, answer())


def test_what_was_refused_or_is_undone_meanwhile_is_not_waited_for() -> None:
    assert HOLDS(BEFORE, REQUEST, answer(ErrorCode.INVALID_CONFIG))
    assert HOLDS(cluster(1), REQUEST, answer())


@pytest.mark.parametrize(
    ("refused", "request_"),
    [(one_by_one_refused, REQUEST), (all_refused, asked_to_replace(TOPIC, "orders", {}))],
    ids=["one by one", "all"],
)
def test_a_refused_request_is_refused_for_each_resource(refused: Callable[[Any, Refusal], Any], request_: Any) -> None:
    (result,) = refused(request_, Refusal(ErrorCode.REQUEST_TIMED_OUT, "no controller is active")).responses
    assert (result.error_code, result.error_message) == (ErrorCode.REQUEST_TIMED_OUT, "no controller is active")
    assert (result.resource_type, result.resource_name) == (TOPIC, "orders")
