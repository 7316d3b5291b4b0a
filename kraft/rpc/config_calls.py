"""Calls of the public gRPC API for resources that have configs, one row each."""

from __future__ import annotations

from typing import Final

from kraft.rpc.call import Call, service_of
from kraft.rpc.pb import admin_pb2
from kraft.wire.schema.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

_ADMIN: Final = service_of(admin_pb2.DESCRIPTOR, "Admin")

LIST_CONFIG_RESOURCES: Final = Call(
    _ADMIN, "ListConfigResources", ListConfigResourcesRequest, ListConfigResourcesResponse
)
