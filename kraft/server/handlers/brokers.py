"""FenceBroker, UnfenceBroker and UnregisterBroker: forwarded to and decided by the active controller."""

from __future__ import annotations

import structlog

from kraft.metadata.broker_configs import TopicDefaultsInEffect
from kraft.metadata.change_counts import ChangeCounts
from kraft.metadata.image import MetadataImage
from kraft.metadata.operator_decisions import fence_by_operator, unfence_by_operator, unregister_broker
from kraft.model.brokers import BrokerActionResult, FenceBrokerRequest, UnfenceBrokerRequest
from kraft.model.callbacks import BrokerCondition
from kraft.model.ids import BrokerId
from kraft.server.handlers.decisions import Decisions
from kraft.wire.schema.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

log = structlog.get_logger()

# --- at a broker: whether an image shows what was decided --------------------------------------------------------


def is_fenced(image: MetadataImage, request: FenceBrokerRequest, _: BrokerActionResult) -> bool:
    return _is_fenced_by_operator(image, request.broker_id)


def is_unfenced(image: MetadataImage, request: UnfenceBrokerRequest, _: BrokerActionResult) -> bool:
    return not _is_fenced_by_operator(image, request.broker_id)


def is_unregistered(image: MetadataImage, request: UnregisterBrokerRequest, _: UnregisterBrokerResponse) -> bool:
    return image.broker(request.broker_id) is None


def _is_fenced_by_operator(image: MetadataImage, broker_id: int) -> bool:
    registration = image.broker(broker_id)
    return registration is not None and registration.fenced_by_operator


# --- at the controller -------------------------------------------------------------------------------------------


async def fence(
    decisions: Decisions, defaults: TopicDefaultsInEffect, request: FenceBrokerRequest
) -> BrokerActionResult:
    changes = ChangeCounts()
    result = await decisions.submit(
        lambda image: changes.of(image, fence_by_operator(image, request, defaults=defaults(image)))
    )
    if result.changed:
        log.warning("operator fence set", broker=request.broker_id, **changes.facts())
    return result


async def unfence(decisions: Decisions, request: UnfenceBrokerRequest) -> BrokerActionResult:
    result = await decisions.submit(lambda image: unfence_by_operator(image, request))
    if result.changed:
        log.info("operator fence removed", broker=request.broker_id)
    return result


async def unregister(
    decisions: Decisions, has_live_session: BrokerCondition, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    response = await decisions.submit(
        lambda image: unregister_broker(image, request, session_is_alive=has_live_session(BrokerId(request.broker_id)))
    )
    log.info("broker unregistered", broker=request.broker_id)
    return response
