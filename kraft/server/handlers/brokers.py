"""FenceBroker, UnfenceBroker and UnregisterBroker: decided by the active controller."""

from __future__ import annotations

from kraft.metadata.image import MetadataImage
from kraft.model.brokers import BrokerActionResult, FenceBrokerRequest, UnfenceBrokerRequest, UnregisterBrokerRequest
from kraft.rpc.call import Served
from kraft.rpc.calls import FENCE_BROKER, UNFENCE_BROKER, UNREGISTER_BROKER
from kraft.server.handlers.forwarding import Forwarder


class BrokersHandler:
    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder

    async def fence(self, request: FenceBrokerRequest) -> BrokerActionResult:
        answer = await self._forwarder.forward(FENCE_BROKER, request)
        await self._forwarder.until(lambda image: _is_kept_fenced(image, request.broker_id))
        return answer

    async def unfence(self, request: UnfenceBrokerRequest) -> BrokerActionResult:
        answer = await self._forwarder.forward(UNFENCE_BROKER, request)
        await self._forwarder.until(lambda image: not _is_kept_fenced(image, request.broker_id))
        return answer

    async def unregister(self, request: UnregisterBrokerRequest) -> BrokerActionResult:
        answer = await self._forwarder.forward(UNREGISTER_BROKER, request)
        await self._forwarder.until(lambda image: image.broker(request.broker_id) is None)
        return answer

    def served(self) -> list[Served]:
        return [
            FENCE_BROKER.served_by(self.fence),
            UNFENCE_BROKER.served_by(self.unfence),
            UNREGISTER_BROKER.served_by(self.unregister),
        ]


def _is_kept_fenced(image: MetadataImage, broker_id: int) -> bool:
    registration = image.broker(broker_id)
    return registration is not None and registration.fenced_by_operator
