"""APIs for groups and their coordinators."""

from __future__ import annotations

from typing import Any, Final

from kraft.rpc.group_calls import DELETE_GROUPS, FIND_COORDINATOR, LIST_GROUPS
from kraft.server.apis.api import Api, BrokerSide, DecidedBy, Handler, Operation, Permission, Resource
from kraft.server.handlers import find_coordinator, groups
from kraft.wire.api_keys import ApiKey


def _find_coordinator(broker: BrokerSide) -> Handler[Any, Any]:
    handler = find_coordinator.FindCoordinatorHandler(
        broker.image, broker.listener, broker.internal_topics, broker.known_to_lead
    )
    return handler.handle


GROUP_APIS: Final[tuple[Api[Any, Any], ...]] = (
    Api(
        key=ApiKey.FIND_COORDINATOR,
        call=FIND_COORDINATOR,
        decided_by=DecidedBy.BROKER,
        handler=_find_coordinator,
        needs=(
            Permission(Operation.DESCRIBE, Resource.GROUP),
            Permission(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID),
        ),
        from_version=find_coordinator.from_version,
        to_version=find_coordinator.to_version,
    ),
    Api(
        key=ApiKey.LIST_GROUPS,
        call=LIST_GROUPS,
        decided_by=DecidedBy.BROKER,
        handler=lambda broker: broker.groups.groups.list_groups,
        needs=(Permission(Operation.DESCRIBE, Resource.GROUP),),
    ),
    Api(
        key=ApiKey.DELETE_GROUPS,
        call=DELETE_GROUPS,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.groups.groups.delete,
        needs=(Permission(Operation.DELETE, Resource.GROUP),),
        refused=groups.deletion_refused,
    ),
)
