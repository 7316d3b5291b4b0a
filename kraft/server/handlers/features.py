"""DescribeFeatures and UpdateFeatures."""

from __future__ import annotations

from typing import Final

from kraft.metadata.features import SUPPORTED_FEATURES, level_of, range_of
from kraft.metadata.image import MetadataImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.feature_requests import (
    DescribeFeaturesResponse,
    FeatureDescription,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kraft.server.cluster.controller_client import ControllerClient, NoController
from kraft.server.cluster.metadata_loader import MetadataLoader

LOCALLY_KNOWN_MAX_S: Final = 2.0
TIMEOUT_MAX_S: Final = 60.0


def describe_features(image: MetadataImage, epoch: int) -> DescribeFeaturesResponse:
    features = [_described(image, feature) for feature in sorted({*SUPPORTED_FEATURES, *image.features})]
    return DescribeFeaturesResponse(epoch=epoch, features=features)


class FeaturesHandler:
    def __init__(self, loader: MetadataLoader, controllers: ControllerClient) -> None:
        self._loader = loader
        self._controllers = controllers

    async def describe(self) -> DescribeFeaturesResponse:
        return describe_features(self._loader.image, self._loader.published_index)

    async def update(self, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
        try:
            answer = await self._controllers.call_admin(
                lambda peer, timeout_s: peer.update_features(request, timeout_s),
                min(max(request.timeout_ms, 0) / 1_000, TIMEOUT_MAX_S),
            )
        except NoController as error:
            raise Refusal(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error
        if not request.validate_only:
            await self._loader.until(
                lambda image: all(level_of(image, each.feature) >= each.level for each in request.updates),
                LOCALLY_KNOWN_MAX_S,
            )
        return answer


def _described(image: MetadataImage, feature: str) -> FeatureDescription:
    ranges = [range_of(broker.features, feature) for broker in image.brokers.values()]
    if not ranges:
        ranges = [range_of(SUPPORTED_FEATURES.values(), feature)]
    return FeatureDescription(
        feature=feature,
        min_level=max(each.min_level for each in ranges),
        max_level=min(each.max_level for each in ranges),
        finalized_level=level_of(image, feature),
    )
