"""APIs that append and read records: their partitions' leaders answer."""

from __future__ import annotations

from typing import Any, Final

from kraft.model.access import Operation, ResourceType
from kraft.rpc.calls import FETCH, FETCH_RECORDS, PRODUCE, PRODUCE_RECORDS
from kraft.rpc.cluster_calls import REPLICA_FETCH
from kraft.server.access import record_guards
from kraft.server.access.guard import Permission
from kraft.server.apis.api import Api, DecidedBy, VisibleTo
from kraft.server.apis.broker_side import BrokerSide
from kraft.server.handlers.replica_fetch import ReplicaFetchHandler
from kraft.server.kafka_listener.apis.fetch import FetchApi
from kraft.server.kafka_listener.apis.leaders import Leaders
from kraft.server.kafka_listener.apis.produce import ProduceApi
from kraft.wire.api_keys import ApiKey

_TO_WRITE: Final = (Permission(Operation.WRITE, ResourceType.TOPIC),)
_TO_READ: Final = (Permission(Operation.READ, ResourceType.TOPIC),)


def _kafka_produce(broker: BrokerSide) -> ProduceApi:
    produce = broker.records.produce
    return ProduceApi(produce.begin, Leaders(broker.image, broker.listener), produce.refuse_unknown, broker.askers)


def _kafka_fetch(broker: BrokerSide) -> FetchApi:
    return FetchApi(
        broker.records.fetch.begin, Leaders(broker.image, broker.listener), broker.kafka_fetches, broker.askers
    )


RECORD_APIS: Final[tuple[Api[Any, Any], ...]] = (
    Api(
        key=ApiKey.PRODUCE,
        call=PRODUCE,
        decided_by=DecidedBy.LEADER,
        handler=lambda broker: broker.records.produce.handle,
        kafka_handler=_kafka_produce,
        needs=(*_TO_WRITE, Permission(Operation.WRITE, ResourceType.TRANSACTIONAL_ID)),
        guard=lambda _: record_guards.produce,
    ),
    Api(
        key=ApiKey.FETCH,
        call=FETCH,
        decided_by=DecidedBy.LEADER,
        handler=lambda broker: broker.records.fetch.handle,
        kafka_handler=_kafka_fetch,
        needs=_TO_READ,
        guard=lambda _: record_guards.fetch,
    ),
    Api(
        call=PRODUCE_RECORDS,
        decided_by=DecidedBy.LEADER,
        handler=lambda broker: broker.records.plain.produce,
        needs=_TO_WRITE,
        guard=lambda _: record_guards.produce_records,
    ),
    Api(
        call=FETCH_RECORDS,
        decided_by=DecidedBy.LEADER,
        handler=lambda broker: broker.records.plain.fetch,
        needs=_TO_READ,
        guard=lambda _: record_guards.fetch_records,
    ),
    Api(
        call=REPLICA_FETCH,
        decided_by=DecidedBy.LEADER,
        handler=lambda broker: ReplicaFetchHandler(broker.partitions).handle,
        needs=(Permission(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),),
        visible_to=VisibleTo.NODES,
    ),
)
