"""DescribeCluster: list the brokers, and name the one that takes requests for the controller.

Source: KIP-700, KIP-919 (controllers as endpoints), KIP-1073 (fenced brokers).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from kraft.metadata.image import MetadataImage
from kraft.model import metadata as values
from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerId
from kraft.server.handlers.authorized_operations import NOT_ASKED, ON_CLUSTER
from kraft.server.kafka_listener.apis.metadata import controller_for_clients
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

Handle = Callable[[values.MetadataRequest], Awaitable[values.MetadataResponse]]

_BROKERS, _CONTROLLERS = 1, 2
"""Endpoint types: what kind of address the client connected to."""

_NO_TOPICS: Final = values.MetadataRequest(topics=[])


class DescribeClusterApi:
    def __init__(self, handle: Handle, image: Callable[[], MetadataImage], listener: str, broker_id: BrokerId) -> None:
        """`handle` answers Metadata for the same `listener`."""
        self._handle = handle
        self._image = image
        self._listener = listener
        self._broker_id = broker_id

    async def __call__(self, request: DescribeClusterRequest, call: RequestContext) -> DescribeClusterResponse:
        if request.endpoint_type != _BROKERS:
            return _wrong_endpoint(request.endpoint_type)
        answer = await self._handle(_NO_TOPICS)
        brokers = [
            DescribeClusterBroker(broker_id=each.broker_id, host=each.host, port=each.port, rack=each.rack or None)
            for each in answer.brokers
        ]
        if request.include_fenced_brokers:
            brokers += self._fenced({each.broker_id for each in answer.brokers})
        asked_for_operations = request.include_cluster_authorized_operations
        return DescribeClusterResponse(
            error_code=ErrorCode.NONE,
            cluster_id=answer.cluster_id,
            controller_id=controller_for_clients(answer, self._broker_id),
            brokers=tuple(brokers),
            cluster_authorized_operations=ON_CLUSTER if asked_for_operations else NOT_ASKED,
        )

    def _fenced(self, in_service: set[int]) -> list[DescribeClusterBroker]:
        return [
            DescribeClusterBroker(
                broker_id=broker.broker_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=broker.rack or None,
                is_fenced=True,
            )
            for broker in sorted(self._image().brokers.values(), key=lambda each: each.broker_id)
            if broker.broker_id not in in_service and (endpoint := broker.endpoint(self._listener)) is not None
        ]


def _wrong_endpoint(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == _CONTROLLERS:
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        problem = "this is a broker's address, not a controller's: use it as a bootstrap server"
    else:
        code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        problem = f"unknown endpoint type {endpoint_type}"
    return DescribeClusterResponse(
        error_code=code, error_message=problem, endpoint_type=_BROKERS, cluster_id="", brokers=()
    )
