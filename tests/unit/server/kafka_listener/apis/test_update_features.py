from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.features import FeatureUpdate
from kraft.model.features import UpdateFeaturesRequest as Asked
from kraft.model.features import UpdateFeaturesResponse as Answer
from kraft.server.kafka_listener.apis.update_features import UpdateFeaturesApi
from kraft.wire.schema.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from tests.unit.server.kafka_listener.apis.listener import answered, versions_of

UPGRADE = FeatureUpdateKey(feature="metadata.version", max_version_level=3)


def update(handle: Any, *updates: FeatureUpdateKey, version: int = 2) -> UpdateFeaturesResponse:
    request = UpdateFeaturesRequest(timeout_ms=5_000, feature_updates=updates, validate_only=version >= 1)
    return asyncio.run(answered(UpdateFeaturesApi(handle), request, version, UpdateFeaturesResponse))


@pytest.mark.parametrize("version", versions_of(UpdateFeaturesRequest))
def test_levels_are_finalized(version: int) -> None:
    asked = []

    async def handle(request: Asked) -> Answer:
        asked.append(request)
        return Answer(changed=request.updates)

    response = update(handle, UPGRADE, version=version)
    assert asked == [
        Asked(
            updates=[FeatureUpdate(feature="metadata.version", level=3)], timeout_ms=5_000, validate_only=version >= 1
        )
    ]
    assert (response.error_code, response.error_message) == (0, None)
    results = [(each.feature, each.error_code) for each in response.results]
    assert results == ([("metadata.version", 0)] if version < 2 else [])


@pytest.mark.parametrize("version", versions_of(UpdateFeaturesRequest))
def test_a_refusal_is_of_all_of_them(version: int) -> None:
    async def refuse(request: Asked) -> Answer:
        raise Refusal(ErrorCode.INVALID_UPDATE_VERSION, "too new for broker 2")

    response = update(refuse, UPGRADE, version=version)
    assert (response.error_code, response.error_message, response.results) == (95, "too new for broker 2", ())


@pytest.mark.parametrize(
    "updated",
    [
        FeatureUpdateKey(feature="metadata.version", max_version_level=3, upgrade_type=4),
        FeatureUpdateKey(feature="metadata.version", max_version_level=3, upgrade_type=0),
        FeatureUpdateKey(feature="metadata.version", max_version_level=-1),
    ],
    ids=["type 4", "type 0", "level -1"],
)
def test_an_update_that_means_nothing_is_refused(updated: FeatureUpdateKey) -> None:
    async def handle(request: Asked) -> Answer:
        raise AssertionError("it is not to be asked")

    assert update(handle, updated).error_code == ErrorCode.INVALID_UPDATE_VERSION
