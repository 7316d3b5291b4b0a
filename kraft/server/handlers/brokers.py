"""FenceBroker, UnfenceBroker and UnregisterBroker: forwarded to and decided by the active controller."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from kraft.log.topic_config import TopicConfig
from kraft.metadata.change_counts import ChangeCounts
from kraft.metadata.image import MetadataImage
from kraft.metadata.operator_decisions import fence_by_operator, unfence_by_operator, unregister_broker
from kraft.model.brokers import BrokerActionResult, FenceBrokerRequest, UnfenceBrokerRequest, UnregisterBrokerRequest
from kraft.model.ids import BrokerId
from kraft.rpc.call import Served
from kraft.rpc.calls import FENCE_BROKER, UNFENCE_BROKER, UNREGISTER_BROKER
from kraft.server.handlers.decisions import Decisions
from kraft.server.handlers.forwarding import Forwarder

log = structlog.get_logger()


class BrokersHandler:
    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder

    async def fence(self, request: FenceBrokerRequest) -> BrokerActionResult:
        answer = await self._forwarder.forward(FENCE_BROKER, request)
        await self._forwarder.until(lambda image: _is_fenced_by_operator(image, request.broker_id))
        return answer

    async def unfence(self, request: UnfenceBrokerRequest) -> BrokerActionResult:
        answer = await self._forwarder.forward(UNFENCE_BROKER, request)
        await self._forwarder.until(lambda image: not _is_fenced_by_operator(image, request.broker_id))
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


def _is_fenced_by_operator(image: MetadataImage, broker_id: int) -> bool:
    registration = image.broker(broker_id)
    return registration is not None and registration.fenced_by_operator


class ControllerBrokersHandler:
    """The controller's side. Raises Refusal NOT_CONTROLLER while this node is not the active controller."""

    def __init__(
        self,
        decisions: Decisions,
        *,
        has_live_session: Callable[[BrokerId], bool],
        topic_defaults: Callable[[MetadataImage], TopicConfig],
    ) -> None:
        self._decisions = decisions
        self._has_live_session = has_live_session
        self._topic_defaults = topic_defaults

    async def fence(self, request: FenceBrokerRequest) -> BrokerActionResult:
        changes = ChangeCounts()
        result = await self._decisions.submit(
            lambda image: changes.of(image, fence_by_operator(image, request, defaults=self._topic_defaults(image)))
        )
        if result.changed:
            log.warning("operator fence set", broker=request.broker_id, **changes.facts())
        return result

    async def unfence(self, request: UnfenceBrokerRequest) -> BrokerActionResult:
        result = await self._decisions.submit(lambda image: unfence_by_operator(image, request))
        if result.changed:
            log.info("operator fence removed", broker=request.broker_id)
        return result

    async def unregister(self, request: UnregisterBrokerRequest) -> BrokerActionResult:
        result = await self._decisions.submit(
            lambda image: unregister_broker(
                image, request, session_is_alive=self._has_live_session(BrokerId(request.broker_id))
            )
        )
        log.info("broker unregistered", broker=request.broker_id)
        return result

    def served(self) -> list[Served]:
        return [
            FENCE_BROKER.served_by(self.fence),
            UNFENCE_BROKER.served_by(self.unfence),
            UNREGISTER_BROKER.served_by(self.unregister),
        ]
