"""APIs of transactional producers, and about transactions: their coordinators decide."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from kraft.model.access import Operation, ResourceType
from kraft.model.request_context import RequestContext
from kraft.rpc.calls import INIT_PRODUCER_ID, INIT_TEMPORARY_PRODUCER_ID
from kraft.rpc.cluster_calls import ADD_PARTITIONS_TO_TXN, LIST_PRODUCER_TRANSACTIONS, WRITE_TXN_MARKERS
from kraft.rpc.transaction_calls import (
    ABORT_TRANSACTION,
    COMMIT_TRANSACTIONS,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    LIST_TRANSACTIONS,
)
from kraft.server.access import transaction_guards
from kraft.server.access.guard import Permission
from kraft.server.apis import audited
from kraft.server.apis.api import Api, DecidedBy, VisibleTo
from kraft.server.apis.broker_side import BrokerSide
from kraft.server.apis.handlers import never_refused
from kraft.server.handlers import transaction_versions as versions
from kraft.server.handlers.transactions import BROKERS_ADD_FROM
from kraft.server.handlers.txn_markers import markers_refused
from kraft.wire.api_keys import ApiKey

_IDENTITY: Final = (
    # The first without a transactional id: this, or to write to any topic.
    Permission(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER),
    Permission(Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
)


def _add_partitions(broker: BrokerSide) -> Callable[..., Awaitable[Any]]:
    transactions = broker.transactions
    if broker.askers is None:
        return transactions.add_partitions

    async def add(request: Any, context: RequestContext) -> Any:
        # The guard has asked whether the client may act as a broker.
        if context.version >= BROKERS_ADD_FROM:
            return await transactions.add_partitions_of_brokers(request)
        return await transactions.add_partitions(request, context)

    return add


TRANSACTION_APIS: Final[tuple[Api[Any, Any], ...]] = (
    Api(
        key=ApiKey.INIT_PRODUCER_ID,
        call=INIT_PRODUCER_ID,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.producer_ids.init,
        needs=_IDENTITY,
        guard=lambda _: transaction_guards.init_producer_id,
        refused=versions.init_refused,
        to_version=versions.init_to_version,
    ),
    Api(
        call=INIT_TEMPORARY_PRODUCER_ID,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.producer_ids.init_temporary,
        needs=_IDENTITY,
        guard=lambda _: transaction_guards.init_producer_id,
    ),
    Api(
        key=ApiKey.ADD_PARTITIONS_TO_TXN,
        decided_by=DecidedBy.COORDINATOR,
        handler=_add_partitions,
        takes_context=True,
        needs=(
            Permission(Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
            Permission(Operation.WRITE, ResourceType.TOPIC),
        ),
        guard=lambda _: transaction_guards.add_partitions_to_txn,
        refused=versions.partitions_refused,
        to_version=versions.partitions_to_version,
    ),
    Api(
        call=ADD_PARTITIONS_TO_TXN,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.transactions.add_partitions_of_brokers,
        needs=(Permission(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),),
        visible_to=VisibleTo.NODES,
    ),
    Api(
        key=ApiKey.ADD_OFFSETS_TO_TXN,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.transactions.add_offsets,
        needs=(
            Permission(Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
            Permission(Operation.READ, ResourceType.GROUP),
        ),
        refused=versions.offsets_refused,
        to_version=versions.offsets_to_version,
    ),
    Api(
        key=ApiKey.END_TXN,
        call=END_TXN,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.transactions.end,
        takes_context=True,
        needs=(Permission(Operation.WRITE, ResourceType.TRANSACTIONAL_ID),),
        refused=versions.end_refused,
        to_version=versions.end_to_version,
    ),
    Api(
        call=COMMIT_TRANSACTIONS,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.transactions.commit_transactions,
        needs=(Permission(Operation.WRITE, ResourceType.TRANSACTIONAL_ID),),
        guard=lambda _: transaction_guards.commit_transactions,
    ),
    Api(
        key=ApiKey.WRITE_TXN_MARKERS,
        call=WRITE_TXN_MARKERS,
        decided_by=DecidedBy.LEADER,
        handler=lambda broker: broker.markers.write,
        audited=audited.WRITE_TXN_MARKERS,
        needs=(Permission(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),),
        guard=lambda _: transaction_guards.write_txn_markers,
        # A marker commits or aborts a transaction whatever its owner says.
        visible_to=VisibleTo.NODES,
        refused=markers_refused,
    ),
    Api(
        call=ABORT_TRANSACTION,
        decided_by=DecidedBy.LEADER,
        handler=lambda broker: broker.markers.abort,
        audited=audited.ABORT_TRANSACTION,
        needs=(Permission(Operation.ALTER, ResourceType.CLUSTER),),
    ),
    Api(
        key=ApiKey.DESCRIBE_TRANSACTIONS,
        call=DESCRIBE_TRANSACTIONS,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.transactions.describe,
        needs=(Permission(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),),
        guard=lambda _: transaction_guards.describe_transactions,
        refused=never_refused,
    ),
    Api(
        key=ApiKey.LIST_TRANSACTIONS,
        call=LIST_TRANSACTIONS,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.transactions.list_transactions,
        needs=(Permission(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),),
        guard=lambda _: transaction_guards.list_transactions,
    ),
    Api(
        call=LIST_PRODUCER_TRANSACTIONS,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.transactions.of_producer,
        needs=(Permission(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),),
        visible_to=VisibleTo.NODES,
    ),
)
