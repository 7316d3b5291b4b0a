from __future__ import annotations

import pytest

from kraft.model.errors import ErrorCode
from kraft.model.features import DescribeFeaturesResponse, FeatureDescription
from kraft.server.handlers.api_versions import ApiVersionsHandler, to_version
from kraft.server.kafka_listener.handled import HandledApi
from kraft.wire.api_keys import ApiKey
from kraft.wire.schema.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from tests.support.virtual_time import run_virtually
from tests.unit.server.kafka_listener.apis.listener import answered, versions_of

VERSIONS = versions_of(ApiVersionsRequest)
NAMED_VERSIONS = [version for version in VERSIONS if version >= 3]


def describe_features() -> DescribeFeaturesResponse:
    return DescribeFeaturesResponse(
        epoch=41,
        features=[
            FeatureDescription(feature="metadata.version", min_level=1, max_level=3, finalized_level=2),
            FeatureDescription(feature="from.zero", min_level=0, max_level=1, finalized_level=0),
            FeatureDescription(feature="nothing.in.common", min_level=2, max_level=-1, finalized_level=0),
        ],
    )


def ask(version: int, name: str = "librdkafka", software_version: str = "2.16.0") -> ApiVersionsResponse:
    handler = ApiVersionsHandler([ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.API_VERSIONS], describe_features)
    api = HandledApi(ApiKey.API_VERSIONS, handler.handle, takes_context=True, to_version=to_version)
    request = ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
    response: ApiVersionsResponse = run_virtually(answered(api, request, version, ApiVersionsResponse))
    return response


@pytest.mark.parametrize("version", VERSIONS)
def test_served_apis_are_listed_in_the_order_of_their_keys(version: int) -> None:
    response = ask(version)
    assert response.error_code == ErrorCode.NONE
    assert [(each.api_key, each.min_version, each.max_version) for each in response.api_keys] == [
        (ApiKey.PRODUCE, 0, 13),
        (ApiKey.METADATA, 0, 13),
        (ApiKey.API_VERSIONS, 0, 4),
    ]


@pytest.mark.parametrize("version", NAMED_VERSIONS)
def test_features_are_sent_to_clients_that_can_read_them(version: int) -> None:
    response = ask(version)
    metadata_version = SupportedFeatureKey(name="metadata.version", min_version=1, max_version=3)
    from_zero = SupportedFeatureKey(name="from.zero", min_version=0, max_version=1)
    # Older clients fail on a lowest level of 0.
    assert response.supported_features == ((metadata_version, from_zero) if version >= 4 else (metadata_version,))
    assert response.finalized_features_epoch == 41
    assert response.finalized_features == (
        FinalizedFeatureKey(name="metadata.version", min_version_level=2, max_version_level=2),
    )


@pytest.mark.parametrize("version", [version for version in VERSIONS if version < 3])
def test_older_clients_get_no_features(version: int) -> None:
    response = ask(version)
    assert (response.supported_features, response.finalized_features_epoch) == ((), -1)


@pytest.mark.parametrize("version", NAMED_VERSIONS)
@pytest.mark.parametrize("name", ["apache-kafka-java", "a", "kafka.py-3", "X9"])
def test_clients_say_what_they_are(version: int, name: str) -> None:
    assert ask(version, name, "4.3.1-SNAPSHOT").error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", NAMED_VERSIONS)
@pytest.mark.parametrize("name", ["", "-java", "java-", "a b", "a/b", "ä", "a\n"])
def test_a_client_whose_name_is_none_is_refused(version: int, name: str) -> None:
    for response in (ask(version, name=name), ask(version, software_version=name)):
        assert (response.error_code, response.api_keys) == (ErrorCode.INVALID_REQUEST, ())
