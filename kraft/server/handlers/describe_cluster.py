"""DescribeCluster: list the brokers, and name the one that takes requests for the controller.

Source: KIP-700, KIP-919 (controllers as endpoints), KIP-1073 (fenced brokers).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kraft.metadata.broker_registration import BrokerRegistration
from kraft.metadata.image import CurrentImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.handlers.authorized_operations import NOT_ASKED, ON_CLUSTER
from kraft.wire.schema.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS, _CONTROLLERS = 1, 2
"""Endpoint types: what kind of address the client connected to."""


ControllerAmong = Callable[[Iterable[int]], int]
"""Returns which of the brokers that clients see they are to take for the controller."""


class DescribeClusterHandler:
    def __init__(self, image: CurrentImage, listener: str, controller: ControllerAmong) -> None:
        self._image = image
        self._listener = listener
        self._controller = controller

    async def handle(self, request: DescribeClusterRequest) -> DescribeClusterResponse:
        _check_endpoint(request.endpoint_type)
        image = self._image()
        in_service = self._described(image.alive_brokers(), is_fenced=False)
        fenced = [image.brokers[each] for each in sorted(image.brokers) if not image.is_alive(each)]
        return DescribeClusterResponse(
            error_code=ErrorCode.NONE,
            cluster_id=image.cluster_id,
            controller_id=self._controller(each.broker_id for each in in_service),
            brokers=(*in_service, *(self._described(fenced, is_fenced=True) if request.include_fenced_brokers else ())),
            cluster_authorized_operations=ON_CLUSTER if request.include_cluster_authorized_operations else NOT_ASKED,
        )

    def _described(self, brokers: Iterable[BrokerRegistration], *, is_fenced: bool) -> list[DescribeClusterBroker]:
        return [
            DescribeClusterBroker(
                broker_id=broker.broker_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=broker.rack or None,
                is_fenced=is_fenced,
            )
            for broker in brokers
            if (endpoint := broker.endpoint(self._listener)) is not None
        ]


def _check_endpoint(endpoint_type: int) -> None:
    if endpoint_type == _CONTROLLERS:
        problem = "this is a broker's address, not a controller's: use it as a bootstrap server"
        raise Refusal(ErrorCode.MISMATCHED_ENDPOINT_TYPE, problem)
    if endpoint_type != _BROKERS:
        raise Refusal(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"unknown endpoint type {endpoint_type}")


def refused(_: DescribeClusterRequest, refusal: Refusal) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        error_code=refusal.error_code, error_message=refusal.message, cluster_id="", brokers=()
    )
