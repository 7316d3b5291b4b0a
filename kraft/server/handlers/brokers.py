"""Brokers as operators see them: described as this broker knows them, fenced and forgotten by the active controller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

from kraft.metadata.image import BrokerRegistration, MetadataImage
from kraft.model.broker_requests import (
    BrokerActionResult,
    BrokerAddress,
    BrokerDescription,
    DescribeBrokersRequest,
    DescribeBrokersResponse,
    FenceBrokerRequest,
    UnfenceBrokerRequest,
    UnregisterBrokerRequest,
)
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId
from kraft.rpc.peers import AdminPeer
from kraft.server.cluster.controller_client import ControllerClient, NoController
from kraft.server.cluster.metadata_loader import MetadataLoader

LOCALLY_KNOWN_MAX_S: Final = 2.0
TIMEOUT_MAX_S: Final = 60.0


def describe_brokers(image: MetadataImage, request: DescribeBrokersRequest) -> DescribeBrokersResponse:
    """Raises Refusal BROKER_ID_NOT_REGISTERED for one that is not there."""
    broker_ids = [BrokerId(broker_id) for broker_id in sorted(set(request.broker_ids))] or sorted(image.brokers)
    for broker_id in broker_ids:
        if broker_id not in image.brokers:
            there = ", ".join(str(known) for known in sorted(image.brokers)) or "none"
            problem = f"there is no broker {broker_id}: registered are {there}"
            raise Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, problem)
    holdings = _Holdings(image)
    return DescribeBrokersResponse(brokers=[_described(image.brokers[each], holdings) for each in broker_ids])


class BrokersHandler:
    def __init__(self, loader: MetadataLoader, controllers: ControllerClient) -> None:
        self._loader = loader
        self._controllers = controllers

    async def describe(self, request: DescribeBrokersRequest) -> DescribeBrokersResponse:
        return describe_brokers(self._loader.image, request)

    async def fence(self, request: FenceBrokerRequest) -> BrokerActionResult:
        answer = await self._ask(lambda peer, timeout_s: peer.fence_broker(request, timeout_s), request.timeout_ms)
        await self._until(lambda image: _is_kept_fenced(image, request.broker_id))
        return answer

    async def unfence(self, request: UnfenceBrokerRequest) -> BrokerActionResult:
        answer = await self._ask(lambda peer, timeout_s: peer.unfence_broker(request, timeout_s), request.timeout_ms)
        await self._until(lambda image: not _is_kept_fenced(image, request.broker_id))
        return answer

    async def unregister(self, request: UnregisterBrokerRequest) -> BrokerActionResult:
        answer = await self._ask(lambda peer, timeout_s: peer.unregister_broker(request, timeout_s), request.timeout_ms)
        await self._until(lambda image: image.broker(request.broker_id) is None)
        return answer

    async def _ask(
        self, ask: Callable[[AdminPeer, float], Awaitable[BrokerActionResult]], timeout_ms: int
    ) -> BrokerActionResult:
        try:
            return await self._controllers.call_admin(ask, min(max(timeout_ms, 0) / 1_000, TIMEOUT_MAX_S))
        except NoController as error:
            raise Refusal(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error

    async def _until(self, holds: Callable[[MetadataImage], bool]) -> None:
        """Who then asks this broker is told the new state, if it can be had."""
        await self._loader.until(holds, LOCALLY_KNOWN_MAX_S)


class _Holdings:
    """What every broker leads and holds, counted in one go over the partitions."""

    def __init__(self, image: MetadataImage) -> None:
        self.leaders: Counter[BrokerId] = Counter()
        self.replicas: Counter[BrokerId] = Counter()
        self.in_sync: Counter[BrokerId] = Counter()
        for topic in image.topics.values():
            for partition in topic.partitions.values():
                self.leaders[partition.leader] += 1
                self.replicas.update(partition.replicas)
                self.in_sync.update(partition.isr)


def _described(broker: BrokerRegistration, holdings: _Holdings) -> BrokerDescription:
    return BrokerDescription(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        addresses=[
            BrokerAddress(listener=endpoint.listener, host=endpoint.host, port=endpoint.port)
            for endpoint in broker.endpoints
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        fenced_by_operator=broker.fenced_by_operator,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        leaders=holdings.leaders[broker.broker_id],
        replicas=holdings.replicas[broker.broker_id],
        in_sync=holdings.in_sync[broker.broker_id],
        log_directory_ids=list(broker.directory_ids),
        features=list(broker.features),
    )


def _is_kept_fenced(image: MetadataImage, broker_id: int) -> bool:
    registration = image.broker(broker_id)
    return registration is not None and registration.fenced_by_operator
