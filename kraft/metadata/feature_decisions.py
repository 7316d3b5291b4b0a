"""The decision to raise the levels of features; levels never go down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NoReturn

from kraft.metadata.decision import Decision
from kraft.metadata.features import SUPPORTED_FEATURES, level_of, range_of, words
from kraft.metadata.image import MetadataImage
from kraft.metadata.records import FeatureLevelSet
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.features import FeatureRange
from kraft.wire.schema.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse

UPGRADE, _UNSAFE_DOWNGRADE = 1, 3


def update_features(
    image: MetadataImage,
    request: UpdateFeaturesRequest,
    controllers: Mapping[int, Sequence[FeatureRange]] = MappingProxyType({}),
) -> Decision[UpdateFeaturesResponse]:
    """Set these feature levels, all or none. Raises Refusal INVALID_UPDATE_VERSION.

    Every registered broker has to support them, even one that is not in service: it could not come back. `controllers`
    are the ranges that the controllers without a broker role support, by node id: a node stops when it reads a level
    that it does not support.
    """
    named = Counter(update.feature for update in request.feature_updates)
    for update in request.feature_updates:
        if not UPGRADE <= update.upgrade_type <= _UNSAFE_DOWNGRADE:
            _refuse(f"{update.feature[:100]}: unknown upgrade type {update.upgrade_type}")
        if update.max_version_level < 0:
            _refuse(f"{update.feature[:100]}: level {update.max_version_level} is negative")
    for update in request.feature_updates:
        if named[update.feature] > 1:
            _refuse(f"feature '{update.feature[:100]}' is in the request {named[update.feature]} times")
        _check(image, update, controllers)
    records = [
        FeatureLevelSet(feature=update.feature, level=update.max_version_level)
        for update in request.feature_updates
        if update.max_version_level != level_of(image, update.feature)
    ]
    response = UpdateFeaturesResponse(error_code=ErrorCode.NONE, error_message=None)
    return Decision(records=[] if request.validate_only else records, response=response)


def _check(image: MetadataImage, update: FeatureUpdateKey, controllers: Mapping[int, Sequence[FeatureRange]]) -> None:
    feature, level = update.feature, update.max_version_level
    if feature not in SUPPORTED_FEATURES:
        _refuse(f"there is no feature '{feature[:100]}': choose one of {', '.join(sorted(SUPPORTED_FEATURES))}")
    current = level_of(image, feature)
    if level < current:
        _refuse(f"{feature} is at level {current} and cannot go down to {level}: a downgrade is not supported yet")
    supported = SUPPORTED_FEATURES[feature]
    if level > supported.max_level:
        _refuse(
            f"{feature} cannot be at level {level}, because the active controller supports {words(supported)}: "
            "upgrade every node first"
        )
    for broker in sorted(image.brokers.values(), key=lambda each: each.broker_id):
        theirs = range_of(broker.features, feature)
        if not theirs.min_level <= level <= theirs.max_level:
            _refuse(
                f"{feature} cannot be at level {level}, because broker {broker.broker_id} supports {words(theirs)}: "
                "upgrade it first, or unregister it if it is gone for good"
            )
    for node_id, features in sorted(controllers.items()):
        theirs = range_of(features, feature)
        if not theirs.min_level <= level <= theirs.max_level:
            _refuse(
                f"{feature} cannot be at level {level}, because controller {node_id} supports {words(theirs)}: "
                "upgrade it first"
            )


def _refuse(problem: str) -> NoReturn:
    raise Refusal(ErrorCode.INVALID_UPDATE_VERSION, problem)
