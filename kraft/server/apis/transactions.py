"""APIs of transactional producers, and about transactions: their coordinators decide."""

from __future__ import annotations

from typing import Any, Final

from kraft.rpc.cluster_calls import LIST_PRODUCER_TRANSACTIONS
from kraft.rpc.transaction_calls import DESCRIBE_TRANSACTIONS, END_TXN, LIST_TRANSACTIONS
from kraft.server.apis.api import Api, DecidedBy, Operation, Permission, Resource, VisibleTo
from kraft.server.apis.handlers import never_refused
from kraft.server.handlers import transaction_versions as versions
from kraft.wire.api_keys import ApiKey

TRANSACTION_APIS: Final[tuple[Api[Any, Any], ...]] = (
    Api(
        key=ApiKey.ADD_OFFSETS_TO_TXN,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.transactions.add_offsets,
        needs=(
            Permission(Operation.WRITE, Resource.TRANSACTIONAL_ID),
            Permission(Operation.READ, Resource.GROUP),
        ),
        refused=versions.offsets_refused,
        to_version=versions.offsets_to_version,
    ),
    Api(
        key=ApiKey.END_TXN,
        call=END_TXN,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.transactions.end,
        takes_version=True,
        needs=(Permission(Operation.WRITE, Resource.TRANSACTIONAL_ID),),
        refused=versions.end_refused,
        to_version=versions.end_to_version,
    ),
    Api(
        key=ApiKey.DESCRIBE_TRANSACTIONS,
        call=DESCRIBE_TRANSACTIONS,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.transactions.describe,
        needs=(Permission(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID),),
        refused=never_refused,
    ),
    Api(
        key=ApiKey.LIST_TRANSACTIONS,
        call=LIST_TRANSACTIONS,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.transactions.list_transactions,
        needs=(Permission(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID),),
    ),
    Api(
        call=LIST_PRODUCER_TRANSACTIONS,
        decided_by=DecidedBy.COORDINATOR,
        handler=lambda broker: broker.transactions.of_producer,
        needs=(Permission(Operation.CLUSTER_ACTION, Resource.CLUSTER),),
        visible_to=VisibleTo.NODES,
    ),
)
