"""APIs for groups and their coordinators."""

from __future__ import annotations

from typing import Any, Final

from kraft.model.access import Operation, ResourceType
from kraft.rpc.call import Handler
from kraft.rpc.group_calls import (
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    DELETE_GROUPS,
    DESCRIBE_GROUP_LAGS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
)
from kraft.server.access import group_guards
from kraft.server.access.guard import Guard, Permission
from kraft.server.apis import audited, data_uses
from kraft.server.apis.api import Api, DecidedBy
from kraft.server.apis.broker_side import BrokerSide
from kraft.server.apis.handlers import never_refused
from kraft.server.apis.sides import Side
from kraft.server.handlers import classic_groups, committed_offsets, find_coordinator, groups
from kraft.wire.api_keys import ApiKey

_TO_BE_A_MEMBER: Final = (Permission(Operation.READ, ResourceType.GROUP),)
_TO_COMMIT: Final = (*_TO_BE_A_MEMBER, Permission(Operation.READ, ResourceType.TOPIC))
_TO_COMMIT_IN_TRANSACTION: Final = (Permission(Operation.WRITE, ResourceType.TRANSACTIONAL_ID), *_TO_COMMIT)


def _guard_of_heartbeats(side: Side) -> Guard:
    assert side.askers is not None, "without askers there is no guard"
    return group_guards.consumer_group_heartbeat(side.askers.of_groups)


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
            Permission(Operation.DESCRIBE, ResourceType.GROUP),
            Permission(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
        ),
        guard=lambda _: group_guards.find_coordinators,
        from_version=find_coordinator.from_version,
        to_version=find_coordinator.to_version,
    ),
    Api(
        key=ApiKey.JOIN_GROUP,
        call=JOIN_GROUP,
        uses=data_uses.MEMBERSHIP,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.groups.classic.join,
        takes_context=True,
        needs=_TO_BE_A_MEMBER,
        refused=classic_groups.join_refused,
        to_version=classic_groups.join_to_version,
    ),
    Api(
        key=ApiKey.SYNC_GROUP,
        call=SYNC_GROUP,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.groups.classic.sync,
        takes_context=True,
        needs=_TO_BE_A_MEMBER,
    ),
    Api(
        key=ApiKey.HEARTBEAT,
        call=HEARTBEAT,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.groups.classic.heartbeat,
        needs=_TO_BE_A_MEMBER,
    ),
    Api(
        key=ApiKey.LEAVE_GROUP,
        call=LEAVE_GROUP,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.groups.classic.leave,
        needs=_TO_BE_A_MEMBER,
        from_version=classic_groups.leave_from_version,
        to_version=classic_groups.leave_to_version,
    ),
    Api(
        key=ApiKey.CONSUMER_GROUP_HEARTBEAT,
        call=CONSUMER_GROUP_HEARTBEAT,
        uses=data_uses.MEMBERSHIP,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.groups.consumer.heartbeat,
        takes_context=True,
        needs=(*_TO_BE_A_MEMBER, Permission(Operation.DESCRIBE, ResourceType.TOPIC)),
        guard=_guard_of_heartbeats,
    ),
    Api(
        key=ApiKey.LIST_GROUPS,
        call=LIST_GROUPS,
        decided_by=DecidedBy.BROKER,
        handler=lambda broker: broker.groups.groups.list_groups,
        needs=(Permission(Operation.DESCRIBE, ResourceType.GROUP),),
        guard=lambda _: group_guards.list_groups,
    ),
    Api(
        key=ApiKey.DESCRIBE_GROUPS,
        call=DESCRIBE_GROUPS,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.groups.groups.describe,
        needs=(Permission(Operation.DESCRIBE, ResourceType.GROUP),),
        guard=lambda _: group_guards.describe_groups,
        refused=never_refused,
        to_version=groups.descriptions_to_version,
    ),
    Api(
        key=ApiKey.CONSUMER_GROUP_DESCRIBE,
        call=CONSUMER_GROUP_DESCRIBE,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.groups.consumer.describe,
        needs=(Permission(Operation.DESCRIBE, ResourceType.GROUP),),
        guard=lambda _: group_guards.describe_consumer_groups,
        refused=never_refused,
    ),
    Api(
        call=DESCRIBE_GROUP_LAGS,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.groups.lags.handle,
        needs=(Permission(Operation.DESCRIBE, ResourceType.GROUP), Permission(Operation.DESCRIBE, ResourceType.TOPIC)),
        guard=lambda _: group_guards.describe_group_lags,
    ),
    Api(
        key=ApiKey.DELETE_GROUPS,
        call=DELETE_GROUPS,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.groups.groups.delete,
        audited=audited.DELETE_GROUPS,
        needs=(Permission(Operation.DELETE, ResourceType.GROUP),),
        guard=lambda _: group_guards.delete_groups,
        refused=never_refused,
    ),
    Api(
        key=ApiKey.OFFSET_COMMIT,
        call=OFFSET_COMMIT,
        uses=data_uses.COMMITS,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.groups.offsets.commit,
        takes_context=True,
        needs=_TO_COMMIT,
        guard=lambda side: group_guards.offsets_guard(
            side.image,
            _TO_COMMIT,
            committed_offsets.commit_refused,
            refused_whole=committed_offsets.commit_refused,
        ),
        refused=committed_offsets.commit_refused,
    ),
    Api(
        key=ApiKey.TXN_OFFSET_COMMIT,
        call=TXN_OFFSET_COMMIT,
        uses=data_uses.COMMITS,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.groups.offsets.commit_in_transaction,
        takes_context=True,
        needs=_TO_COMMIT_IN_TRANSACTION,
        guard=lambda side: group_guards.offsets_guard(
            side.image,
            _TO_COMMIT_IN_TRANSACTION,
            committed_offsets.transactional_commit_refused,
            refused_whole=committed_offsets.transactional_commit_refused,
        ),
        refused=committed_offsets.transactional_commit_refused,
        to_version=committed_offsets.transactional_commit_to_version,
    ),
    Api(
        key=ApiKey.OFFSET_FETCH,
        call=OFFSET_FETCH,
        uses=data_uses.OFFSETS,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.groups.offsets.fetch,
        takes_context=True,
        needs=(Permission(Operation.DESCRIBE, ResourceType.GROUP), Permission(Operation.DESCRIBE, ResourceType.TOPIC)),
        guard=lambda side: group_guards.offset_fetch(side.image),
        refused=never_refused,
        from_version=committed_offsets.fetch_from_version,
        to_version=committed_offsets.fetch_to_version,
    ),
    Api(
        key=ApiKey.OFFSET_DELETE,
        call=OFFSET_DELETE,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.groups.offsets.delete,
        audited=audited.OFFSET_DELETE,
        needs=(Permission(Operation.DELETE, ResourceType.GROUP), Permission(Operation.READ, ResourceType.TOPIC)),
        guard=lambda side: group_guards.offset_delete(side.image),
    ),
)
