"""Calls of the public gRPC API about the clients of a broker, and what it serves them, one row each."""

from __future__ import annotations

from typing import Final

from kraft.model.clients import DescribeClientsRequest, DescribeClientsResponse
from kraft.rpc.call import Call, service_of
from kraft.rpc.pb import admin_pb2
from kraft.wire.schema.api_versions import ApiVersionsRequest, ApiVersionsResponse

_ADMIN: Final = service_of(admin_pb2.DESCRIPTOR, "Admin")

DESCRIBE_CLIENTS: Final = Call(_ADMIN, "DescribeClients", DescribeClientsRequest, DescribeClientsResponse)
API_VERSIONS: Final = Call(_ADMIN, "ApiVersions", ApiVersionsRequest, ApiVersionsResponse)
