"""UpdateFeatures: finalize feature levels for the whole cluster (KIP-584, KIP-778, KIP-1022)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from kraft.model import features as values
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.apis.timeouts import forward_timeout_ms
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.update_features import UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse

Handle = Callable[[values.UpdateFeaturesRequest], Awaitable[values.UpdateFeaturesResponse]]

_UPGRADE, _UNSAFE_DOWNGRADE = 1, 3

_NO_RESULTS_FROM: Final = 2
"""First version without a result per feature."""


class UpdateFeaturesApi:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def __call__(self, request: UpdateFeaturesRequest, call: RequestContext) -> UpdateFeaturesResponse:
        try:
            await self._handle(_wanted(request))
        except Refusal as refusal:
            return UpdateFeaturesResponse(error_code=refusal.error_code, error_message=refusal.message)
        done = [
            UpdatableFeatureResult(feature=update.feature, error_code=ErrorCode.NONE, error_message=None)
            for update in request.feature_updates
            if call.version < _NO_RESULTS_FROM
        ]
        return UpdateFeaturesResponse(error_code=ErrorCode.NONE, error_message=None, results=tuple(done))


def _wanted(request: UpdateFeaturesRequest) -> values.UpdateFeaturesRequest:
    """Convert the request. Raises Refusal."""
    for update in request.feature_updates:
        if not _UPGRADE <= update.upgrade_type <= _UNSAFE_DOWNGRADE:
            problem = f"{update.feature[:100]}: unknown upgrade type {update.upgrade_type}"
            raise Refusal(ErrorCode.INVALID_UPDATE_VERSION, problem)
        if update.max_version_level < 0:
            problem = f"{update.feature[:100]}: level {update.max_version_level} is negative"
            raise Refusal(ErrorCode.INVALID_UPDATE_VERSION, problem)
    return values.UpdateFeaturesRequest(
        updates=[
            values.FeatureUpdate(feature=update.feature, level=update.max_version_level)
            for update in request.feature_updates
        ],
        timeout_ms=forward_timeout_ms(request.timeout_ms),
        validate_only=request.validate_only,
    )
