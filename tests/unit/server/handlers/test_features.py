from __future__ import annotations

import asyncio

import pytest

from kraft.metadata.image import EMPTY_IMAGE
from kraft.metadata.records import FeatureLevelSet
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.features import FeatureDescription, FeatureUpdate, UpdateFeaturesRequest, UpdateFeaturesResponse
from kraft.server.cluster.controller_client import NoController
from kraft.server.handlers.describe_features import describe_features
from kraft.server.handlers.features import FeaturesHandler
from tests.support.cluster_images import TODAY, cluster, earlier_cluster
from tests.support.server.fake_controllers import FakeControllers
from tests.unit.server.handlers.loader import Loader

UPDATE = FeatureUpdate(feature="metadata.version", level=2)
REQUEST = UpdateFeaturesRequest(updates=[UPDATE], timeout_ms=30_000)
DONE = UpdateFeaturesResponse(changed=[UPDATE])


def handler(loader: Loader, **answers: object) -> FeaturesHandler:
    return FeaturesHandler(FakeControllers(**answers).forwarder(loader))


def metadata_version(min_level: int, max_level: int, finalized_level: int) -> FeatureDescription:
    return FeatureDescription(
        feature="metadata.version", min_level=min_level, max_level=max_level, finalized_level=finalized_level
    )


def test_features_are_described_with_what_all_brokers_support() -> None:
    described = describe_features(cluster(1, 2), 17)
    assert described.epoch == 17
    assert [each.feature for each in described.features] == [
        "eligible.leader.replicas.version",
        "group.version",
        "metadata.version",
        "transaction.version",
    ]
    assert metadata_version(1, 2, 2) in described.features
    assert metadata_version(1, 1, 1) in describe_features(earlier_cluster(TODAY, []), 1).features
    assert metadata_version(1, 2, 1) in describe_features(EMPTY_IMAGE, 1).features


async def test_a_raised_level_is_answered_when_this_broker_has_applied_it() -> None:
    loader = Loader(earlier_cluster(TODAY))
    answer = asyncio.ensure_future(handler(loader, update_features=DONE).update(REQUEST))
    await asyncio.sleep(0.5)
    assert not answer.done()
    loader.image = loader.image.replay([FeatureLevelSet(feature="metadata.version", level=2)])
    assert await answer == DONE


async def test_without_an_active_controller_the_caller_may_ask_again() -> None:
    with pytest.raises(Refusal) as refused:
        await handler(Loader(), update_features=NoController("no controller is active")).update(REQUEST)
    assert refused.value.error_code is ErrorCode.REQUEST_TIMED_OUT
