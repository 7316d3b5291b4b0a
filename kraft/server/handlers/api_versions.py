"""ApiVersions: list the APIs that a listener serves and the cluster's feature levels."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Final

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.features import DescribeFeaturesResponse
from kraft.model.request_context import RequestContext
from kraft.wire.api_versions import advertised
from kraft.wire.declaration import replace
from kraft.wire.schema.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""Pattern of a client's software name and version (KIP-511)."""

_NAMED_FROM: Final = 3
"""First version in which clients name their software."""

_ZERO_MIN_FROM: Final = 4
"""First version in which a feature's lowest level may be 0: older clients fail on it."""


class ApiVersionsHandler:
    def __init__(self, keys: Iterable[int], describe_features: Callable[[], DescribeFeaturesResponse]) -> None:
        """`keys` are complete at the first request."""
        self._keys = keys
        self._describe_features = describe_features

    @cached_property
    def _advertised(self) -> tuple[ApiVersion, ...]:
        return advertised(self._keys)

    async def handle(self, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
        if context.version >= _NAMED_FROM and not _is_named(request):
            raise Refusal(ErrorCode.INVALID_REQUEST, "the client's software name or version is malformed")
        return self.answer()

    def answer(self) -> ApiVersionsResponse:
        """Return the answer to a client that has not said anything wrong."""
        described = self._describe_features()
        features = [each for each in described.features if each.max_level > 0]
        return ApiVersionsResponse(
            error_code=ErrorCode.NONE,
            api_keys=self._advertised,
            supported_features=tuple(
                SupportedFeatureKey(name=each.feature, min_version=each.min_level, max_version=each.max_level)
                for each in features
            ),
            finalized_features_epoch=described.epoch,
            finalized_features=tuple(
                FinalizedFeatureKey(
                    name=each.feature, min_version_level=each.finalized_level, max_version_level=each.finalized_level
                )
                for each in features
                if each.finalized_level > 0
            ),
        )


def to_version(_: ApiVersionsRequest, response: ApiVersionsResponse, version: int) -> ApiVersionsResponse:
    if version >= _ZERO_MIN_FROM:
        return response
    return replace(response, supported_features=tuple(each for each in response.supported_features if each.min_version))


def _is_named(request: ApiVersionsRequest) -> bool:
    return all(_SOFTWARE.fullmatch(name) for name in (request.client_software_name, request.client_software_version))
