from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from kraft.metadata.decision import Decision
from kraft.metadata.image import EMPTY_IMAGE, MetadataImage
from kraft.metadata.records import FeatureLevelSet
from kraft.model.errors import ErrorCode
from kraft.model.features import FeatureDescription, FeatureRange
from kraft.server.handlers.describe_features import describe_features
from kraft.server.handlers.features import is_applied, to_version, update
from kraft.wire.declaration import replace
from kraft.wire.schema.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from tests.support.cluster_images import TODAY, cluster, earlier_cluster

UPDATE = FeatureUpdateKey(feature="metadata.version", max_version_level=2)
REQUEST = UpdateFeaturesRequest(feature_updates=(UPDATE,))
DONE = UpdateFeaturesResponse(error_code=ErrorCode.NONE, error_message=None)


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
    assert metadata_version(1, 5, 5) in described.features
    assert metadata_version(1, 1, 1) in describe_features(earlier_cluster(TODAY, []), 1).features
    assert metadata_version(1, 5, 1) in describe_features(EMPTY_IMAGE, 1).features


def test_levels_are_applied_once_the_image_has_them_or_higher_ones() -> None:
    before = earlier_cluster(TODAY)
    assert not is_applied(before, REQUEST, DONE)
    for level in (2, 3):
        assert is_applied(before.replay([FeatureLevelSet(feature="metadata.version", level=level)]), REQUEST, DONE)


@pytest.mark.parametrize("version", [*UpdateFeaturesRequest.versions])
def test_older_versions_name_each_feature(version: int) -> None:
    response = to_version(REQUEST, DONE, version)
    named = [(each.feature, each.error_code, each.error_message) for each in response.results]
    assert named == ([("metadata.version", ErrorCode.NONE, None)] if version < 2 else [])


async def test_the_controller_logs_the_levels_that_changed() -> None:
    class Decisions:
        image = earlier_cluster(TODAY)

        def check_active(self) -> None:
            pass

        async def submit(self, decide: Callable[[MetadataImage], Decision[Any]]) -> Any:
            decision = decide(self.image)
            self.image = self.image.replay(decision.records)
            return decision.response

    async def of_nobody(_: MetadataImage) -> Mapping[int, Sequence[FeatureRange]]:
        return {}

    decisions = Decisions()
    with capture_logs() as logged:
        for request in (replace(REQUEST, validate_only=True), REQUEST, REQUEST):
            assert await update(decisions, of_nobody, request) == DONE
    assert [(each["event"], each["levels"]) for each in logged] == [("feature levels changed", {"metadata.version": 2})]
