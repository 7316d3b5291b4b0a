"""Who is connected to a fake broker, and the APIs that it serves. Broker 3 is of another version."""

from __future__ import annotations

from kraft.model.clients import ClientConnection, DescribeClientsRequest, DescribeClientsResponse
from kraft.model.errors import ErrorCode
from kraft.wire.schema.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)


class FakeClients:
    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id

    def describe_clients(self, _: DescribeClientsRequest) -> DescribeClientsResponse:
        one = ClientConnection(
            listener="PLAINTEXT",
            address="10.0.0.7:51000",
            principal="User:alice",
            client_id=f"of broker {self._broker_id}",
            software_name="librdkafka",
            software_version="2.6.1",
            age_ms=1_000,
            requests=3,
            received_bytes=300,
            sent_bytes=500,
        )
        return DescribeClientsResponse(connections=[one])

    def api_versions(self, request: ApiVersionsRequest) -> ApiVersionsResponse:
        assert request.client_software_name == "kraft-python"
        produce = ApiVersion(api_key=0, min_version=0, max_version=12 if self._broker_id == 3 else 13)
        only_here = (ApiVersion(api_key=9_999, min_version=0, max_version=0),) if self._broker_id == 3 else ()
        fetch = ApiVersion(api_key=1, min_version=4, max_version=17)
        return ApiVersionsResponse(
            error_code=ErrorCode.NONE,
            api_keys=(produce, fetch, *only_here),
            supported_features=(SupportedFeatureKey(name="group.version", min_version=0, max_version=1),),
            finalized_features_epoch=7,
            finalized_features=(FinalizedFeatureKey(name="group.version", max_version_level=1, min_version_level=1),),
        )
