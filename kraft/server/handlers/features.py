"""UpdateFeatures: decided by the active controller."""

from __future__ import annotations

from kraft.metadata.features import level_of
from kraft.model.features import UpdateFeaturesRequest, UpdateFeaturesResponse
from kraft.rpc.call import Served
from kraft.rpc.calls import UPDATE_FEATURES
from kraft.server.handlers.forwarding import Forwarder


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
