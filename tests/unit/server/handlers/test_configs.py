from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from kraft.log.topic_config import KAFKA_DEFAULTS
from kraft.metadata.records import TopicConfigSet
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
from kraft.server.cluster.controller_client import NoController
from kraft.server.handlers.configs import AlterConfigsHandler
from kraft.server.handlers.forwarding import LOCALLY_KNOWN_MAX_S
from tests.support.cluster_images import ORDERS, cluster, with_topic
from tests.support.server.fake_controllers import FakeControllers
from tests.unit.server.handlers.loader import Loader

TOPIC = ConfigResourceType.TOPIC
BEFORE = with_topic(cluster(1), [1])
AFTER = BEFORE.replay([TopicConfigSet(topic_id=ORDERS, key="cleanup.policy", value="delete,compact")])
REQUEST = IncrementalAlterConfigsRequest(
    resources=[
        ResourceAlteration(
            resource_type=TOPIC,
            resource_name="orders",
            alterations=[
                ConfigAlteration(key="cleanup.policy", operation=ConfigOperation.APPEND, value="compact"),
                ConfigAlteration(key="retention.ms", operation=ConfigOperation.DELETE),
            ],
        )
    ],
    timeout_ms=30_000,
)


def answer(code: ErrorCode = ErrorCode.NONE) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        results=[ResourceAlterationResult(resource_type=TOPIC, resource_name="orders", error_code=code)]
    )


def handler(loader: Loader, given: object) -> AlterConfigsHandler:
    forwarder = FakeControllers(incremental_alter_configs=given).forwarder(loader)
    return AlterConfigsHandler(forwarder, {}, KAFKA_DEFAULTS)


async def test_altered_configs_are_answered_when_this_broker_has_applied_them() -> None:
    loader = Loader(BEFORE)
    answered = asyncio.ensure_future(handler(loader, answer()).handle(REQUEST))
    await asyncio.sleep(0.5)
    assert not answered.done()
    loader.image = AFTER
    assert await answered == answer()


async def test_a_broker_that_hears_late_of_it_answers_all_the_same() -> None:
    began = asyncio.get_running_loop().time()
    assert await handler(Loader(BEFORE), answer()).handle(REQUEST) == answer()
    assert asyncio.get_running_loop().time() - began == pytest.approx(LOCALLY_KNOWN_MAX_S, abs=0.1)


async def test_what_is_only_checked_or_refused_or_undone_meanwhile_is_not_waited_for() -> None:
    began = asyncio.get_running_loop().time()
    await handler(Loader(BEFORE), answer()).handle(replace(REQUEST, validate_only=True))
    await handler(Loader(BEFORE), answer(ErrorCode.INVALID_CONFIG)).handle(REQUEST)
    await handler(Loader(cluster(1)), answer()).handle(REQUEST)
    assert asyncio.get_running_loop().time() == began


async def test_without_a_controller_every_resource_has_timed_out() -> None:
    nobody = NoController("no controller is active: nobody there")
    (result,) = (await handler(Loader(BEFORE), nobody).handle(REQUEST)).results
    assert (result.error_code, result.resource_name) == (ErrorCode.REQUEST_TIMED_OUT, "orders")
    assert result.error_message == "no controller is active: nobody there"
    refusal = Refusal(ErrorCode.INVALID_REQUEST, "no")
    with pytest.raises(Refusal):
        await handler(Loader(BEFORE), refusal).handle(REQUEST)
