"""UpdateFeatures: forwarded to and decided by the active controller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import structlog

from kraft.metadata.feature_decisions import update_features
from kraft.metadata.features import level_of
from kraft.metadata.image import MetadataImage
from kraft.model.features import FeatureRange, UpdateFeaturesRequest, UpdateFeaturesResponse
from kraft.rpc.call import Served
from kraft.rpc.calls import UPDATE_FEATURES
from kraft.server.handlers.decisions import Decisions
from kraft.server.handlers.forwarding import Forwarder

log = structlog.get_logger()

FeaturesOfOthers = Callable[[MetadataImage], Awaitable[Mapping[int, Sequence[FeatureRange]]]]
"""Returns the features supported by the other controllers that are not brokers, by node id. Raises Refusal if one does
not answer."""


class FeaturesHandler:
    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder

    async def update(self, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
        answer = await self._forwarder.forward(UPDATE_FEATURES, request)
        if not request.validate_only:
            await self._forwarder.until(
                lambda image: all(level_of(image, each.feature) >= each.level for each in request.updates)
            )
        return answer

    def served(self) -> list[Served]:
        return [UPDATE_FEATURES.served_by(self.update)]


class ControllerFeaturesHandler:
    """The controller's side. Raises Refusal NOT_CONTROLLER while this node is not the active controller."""

    def __init__(self, decisions: Decisions, features_of_others: FeaturesOfOthers) -> None:
        self._decisions = decisions
        self._features_of_others = features_of_others

    async def update(self, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
        self._decisions.check_active()
        others = await self._features_of_others(self._decisions.image)
        result = await self._decisions.submit(lambda image: update_features(image, request, others))
        if result.changed and not request.validate_only:
            log.info("feature levels changed", levels={each.feature: each.level for each in result.changed})
        return result

    def served(self) -> list[Served]:
        return [UPDATE_FEATURES.served_by(self.update)]
