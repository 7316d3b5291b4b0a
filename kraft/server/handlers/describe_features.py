"""DescribeFeatures: the cluster's finalized feature levels, and the levels that its brokers support."""

from __future__ import annotations

from kraft.metadata.features import SUPPORTED_FEATURES, level_of, range_of
from kraft.metadata.image import MetadataImage
from kraft.model.features import DescribeFeaturesResponse, FeatureDescription


def describe_features(image: MetadataImage, epoch: int) -> DescribeFeaturesResponse:
    features = [_described(image, feature) for feature in sorted({*SUPPORTED_FEATURES, *image.features})]
    return DescribeFeaturesResponse(epoch=epoch, features=features)


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
