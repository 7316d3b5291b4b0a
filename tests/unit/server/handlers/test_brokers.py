from __future__ import annotations

import pytest

from kraft.metadata.image import MetadataImage
from kraft.metadata.operator_decisions import fence_by_operator
from kraft.model.brokers import (
    BrokerActionResult,
    DescribeBrokersRequest,
    FenceBrokerRequest,
    UnfenceBrokerRequest,
)
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.handlers import brokers
from kraft.server.handlers.describe_brokers import describe_brokers
from kraft.wire.schema.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from tests.support.cluster_images import cluster, with_topic

DONE = BrokerActionResult(changed=True, leaderless=[])
FENCE = FenceBrokerRequest(broker_id=1, timeout_ms=30_000)


def fenced(image: MetadataImage) -> MetadataImage:
    return image.replay(fence_by_operator(image, FENCE).records)


async def test_brokers_are_described_with_what_they_hold() -> None:
    image = fenced(with_topic(cluster(2, 1, 3, racks={1: "a"}), [1, 2], [2, 1], [2, 1]))
    one, two, three = (await describe_brokers(image, DescribeBrokersRequest(broker_ids=[]))).brokers
    assert [each.broker_id for each in (one, two, three)] == [1, 2, 3]
    assert (one.rack, one.fenced, one.fenced_by_operator, one.broker_epoch) == ("a", True, True, 2)
    assert (one.leaders, one.replicas, one.in_sync) == (0, 3, 0)
    assert (two.leaders, two.replicas, two.in_sync, two.fenced) == (3, 3, 3, False)
    assert (three.leaders, three.replicas, three.in_sync) == (0, 0, 0)
    assert [(each.listener, each.port) for each in one.addresses] == [("GRPC", 9095)]
    assert len(one.log_directory_ids) == 1
    assert "metadata.version" in {each.feature for each in one.features}


async def test_a_broker_that_is_not_registered_is_not_described() -> None:
    request = DescribeBrokersRequest(broker_ids=[1, 9])
    with pytest.raises(Refusal, match="there is no broker 9: registered are 1, 2") as refused:
        await describe_brokers(cluster(1, 2), request)
    assert refused.value.error_code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_the_broker_that_is_asked_answers_once_its_image_shows_what_was_decided() -> None:
    unfence, unregister = UnfenceBrokerRequest(broker_id=1, timeout_ms=1), UnregisterBrokerRequest(broker_id=1)
    done = UnregisterBrokerResponse(error_code=ErrorCode.NONE, error_message=None)
    before = cluster(1, 2)
    after = fenced(before)
    assert [brokers.is_fenced(image, FENCE, DONE) for image in (before, after)] == [False, True]
    assert [brokers.is_unfenced(image, unfence, DONE) for image in (before, after)] == [True, False]
    assert [brokers.is_unregistered(image, unregister, done) for image in (before, cluster(2))] == [False, True]
