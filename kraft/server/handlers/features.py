"""UpdateFeatures: forwarded to and decided by the active controller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import structlog

from kraft.metadata.decision import Decision
from kraft.metadata.feature_decisions import update_features
from kraft.metadata.features import level_of
from kraft.metadata.image import MetadataImage
from kraft.metadata.records import FeatureLevelSet
from kraft.model.errors import ErrorCode
from kraft.model.features import FeatureRange
from kraft.server.handlers.decisions import Decisions
from kraft.wire.declaration import replace
from kraft.wire.schema.update_features import UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse

log = structlog.get_logger()

FeaturesOfOthers = Callable[[MetadataImage], Awaitable[Mapping[int, Sequence[FeatureRange]]]]
"""Returns the features supported by the other controllers that are not brokers, by node id. Raises Refusal if one does
not answer."""

_NO_RESULTS_FROM: Final = 2
"""First version without a result per feature."""


def is_applied(image: MetadataImage, request: UpdateFeaturesRequest, _: UpdateFeaturesResponse) -> bool:
    return all(level_of(image, each.feature) >= each.max_version_level for each in request.feature_updates)


def to_version(asked: UpdateFeaturesRequest, done: UpdateFeaturesResponse, version: int) -> UpdateFeaturesResponse:
    """Name each feature, in versions that do."""
    if version >= _NO_RESULTS_FROM:
        return done
    results = (
        UpdatableFeatureResult(feature=each.feature, error_code=ErrorCode.NONE, error_message=None)
        for each in asked.feature_updates
    )
    return replace(done, results=tuple(results))


async def update(
    decisions: Decisions, features_of_others: FeaturesOfOthers, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    """Decide, on the controller. Raises Refusal NOT_CONTROLLER while this node is not the active controller."""
    decisions.check_active()
    others = await features_of_others(decisions.image)
    levels: dict[str, int] = {}

    def decide(image: MetadataImage) -> Decision[UpdateFeaturesResponse]:
        decision = update_features(image, request, others)
        levels.update({each.feature: each.level for each in decision.records if isinstance(each, FeatureLevelSet)})
        return decision

    response = await decisions.submit(decide)
    if levels:
        log.info("feature levels changed", levels=levels)
    return response
