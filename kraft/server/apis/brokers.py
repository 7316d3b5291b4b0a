"""APIs about brokers: what they are and hold, and whether they are in service."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from kraft.model.access import Operation, ResourceType
from kraft.rpc.calls import DESCRIBE_BROKERS, FENCE_BROKER, UNFENCE_BROKER, UNREGISTER_BROKER
from kraft.rpc.client_calls import DESCRIBE_CLIENTS
from kraft.server.access.guard import Permission
from kraft.server.apis import audited
from kraft.server.apis.api import Api, DecidedBy
from kraft.server.apis.handlers import forwarded, from_metadata_in_turns
from kraft.server.handlers import brokers
from kraft.server.handlers.describe_brokers import describe_brokers
from kraft.wire.api_keys import ApiKey

BROKER_APIS: Final[tuple[Api[Any, Any], ...]] = (
    Api(
        call=DESCRIBE_BROKERS,
        decided_by=DecidedBy.BROKER,
        handler=from_metadata_in_turns(describe_brokers),
        at_controller=from_metadata_in_turns(describe_brokers),
        needs=(Permission(Operation.DESCRIBE, ResourceType.CLUSTER),),
    ),
    Api(
        call=DESCRIBE_CLIENTS,
        decided_by=DecidedBy.BROKER,
        handler=lambda broker: broker.operators.clients.handle,
        needs=(Permission(Operation.DESCRIBE, ResourceType.CLUSTER),),
    ),
    Api(
        call=FENCE_BROKER,
        decided_by=DecidedBy.CONTROLLER,
        handler=forwarded(FENCE_BROKER, brokers.is_fenced),
        at_controller=lambda controller: partial(brokers.fence, controller.decisions, controller.topic_defaults),
        audited=audited.BROKER,
        needs=(Permission(Operation.ALTER, ResourceType.CLUSTER),),
    ),
    Api(
        call=UNFENCE_BROKER,
        decided_by=DecidedBy.CONTROLLER,
        handler=forwarded(UNFENCE_BROKER, brokers.is_unfenced),
        at_controller=lambda controller: partial(brokers.unfence, controller.decisions),
        audited=audited.BROKER,
        needs=(Permission(Operation.ALTER, ResourceType.CLUSTER),),
    ),
    Api(
        key=ApiKey.UNREGISTER_BROKER,
        call=UNREGISTER_BROKER,
        decided_by=DecidedBy.CONTROLLER,
        handler=forwarded(UNREGISTER_BROKER, brokers.is_unregistered),
        at_controller=lambda controller: partial(brokers.unregister, controller.decisions, controller.has_live_session),
        audited=audited.BROKER,
        needs=(Permission(Operation.ALTER, ResourceType.CLUSTER),),
    ),
)
