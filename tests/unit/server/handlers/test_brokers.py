from __future__ import annotations

import asyncio

import pytest

from kraft.metadata.image import MetadataImage
from kraft.metadata.operator_decisions import fence_by_operator
from kraft.metadata.records import OperatorFenceSet
from kraft.model.brokers import (
    BrokerActionResult,
    DescribeBrokersRequest,
    FenceBrokerRequest,
    UnfenceBrokerRequest,
    UnregisterBrokerRequest,
)
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId
from kraft.server.cluster.controller_client import NoController
from kraft.server.handlers.brokers import BrokersHandler
from kraft.server.handlers.describe_brokers import describe_brokers
from tests.support.cluster_images import cluster, with_topic
from tests.support.server.fake_controllers import FakeControllers
from tests.unit.server.handlers.loader import Loader

DONE = BrokerActionResult(changed=True, leaderless=[])
FENCE = FenceBrokerRequest(broker_id=1, timeout_ms=30_000)


def handler(loader: Loader, **answers: object) -> BrokersHandler:
    return BrokersHandler(FakeControllers(**answers).forwarder(loader))


def fenced(image: MetadataImage) -> MetadataImage:
    return image.replay(fence_by_operator(image, FENCE).records)


def test_brokers_are_described_with_what_they_hold() -> None:
    image = fenced(with_topic(cluster(2, 1, 3, racks={1: "a"}), [1, 2], [2, 1], [2, 1]))
    one, two, three = describe_brokers(image, DescribeBrokersRequest(broker_ids=[])).brokers
    assert [each.broker_id for each in (one, two, three)] == [1, 2, 3]
    assert (one.rack, one.fenced, one.fenced_by_operator, one.broker_epoch) == ("a", True, True, 2)
    assert (one.leaders, one.replicas, one.in_sync) == (0, 3, 0)
    assert (two.leaders, two.replicas, two.in_sync, two.fenced) == (3, 3, 3, False)
    assert (three.leaders, three.replicas, three.in_sync) == (0, 0, 0)
    assert [(each.listener, each.port) for each in one.addresses] == [("GRPC", 9095)]
    assert len(one.log_directory_ids) == 1
    assert "metadata.version" in {each.feature for each in one.features}


def test_a_broker_that_is_not_registered_is_not_described() -> None:
    request = DescribeBrokersRequest(broker_ids=[1, 9])
    with pytest.raises(Refusal, match="there is no broker 9: registered are 1, 2") as refused:
        describe_brokers(cluster(1, 2), request)
    assert refused.value.error_code is ErrorCode.BROKER_ID_NOT_REGISTERED


async def test_a_fenced_broker_is_answered_when_this_broker_has_applied_it() -> None:
    loader = Loader(cluster(1, 2))
    answer = asyncio.ensure_future(handler(loader, fence_broker=DONE).fence(FENCE))
    await asyncio.sleep(0.5)
    assert not answer.done()
    loader.image = fenced(loader.image)
    assert await answer == DONE


async def test_unfencing_and_unregistering_are_waited_for_in_the_same_way() -> None:
    loader = Loader(fenced(cluster(1, 2)))
    request = UnfenceBrokerRequest(broker_id=1, timeout_ms=30_000)
    answer = asyncio.ensure_future(handler(loader, unfence_broker=DONE).unfence(request))
    await asyncio.sleep(0.5)
    assert not answer.done()
    loader.image = loader.image.replay([OperatorFenceSet(broker_id=BrokerId(1), fenced=False)])
    assert await answer == DONE
    unregistering = UnregisterBrokerRequest(broker_id=9, timeout_ms=30_000)
    assert await handler(loader, unregister_broker=DONE).unregister(unregistering) == DONE


async def test_without_an_active_controller_the_caller_may_ask_again() -> None:
    nobody = NoController("no controller is active: connection refused")
    with pytest.raises(Refusal, match="connection refused") as refused:
        await handler(Loader(cluster(1)), fence_broker=nobody).fence(FENCE)
    assert refused.value.error_code is ErrorCode.REQUEST_TIMED_OUT
