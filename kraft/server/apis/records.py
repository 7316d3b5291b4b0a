"""APIs that append and read records: their partitions' leaders answer."""

from __future__ import annotations

from typing import Any, Final

from kraft.model.access import Operation, ResourceType
from kraft.rpc.calls import FETCH, FETCH_RECORDS, PRODUCE, PRODUCE_RECORDS
from kraft.rpc.cluster_calls import APPEND_AUDIT, REPLICA_FETCH
from kraft.server.access import record_guards
from kraft.server.access.guard import Permission
from kraft.server.apis import data_uses
from kraft.server.apis.api import Api, DecidedBy, VisibleTo
from kraft.server.apis.broker_side import BrokerSide
from kraft.server.config.access_settings import DataAccess
from kraft.server.handlers.replica_fetch import ReplicaFetchHandler
from kraft.server.kafka_listener.apis.fetch import FetchApi
from kraft.server.kafka_listener.apis.leaders import Leaders
from kraft.server.kafka_listener.apis.produce import ProduceApi
from kraft.wire.api_keys import ApiKey

_TO_WRITE: Final = (Permission(Operation.WRITE, ResourceType.TOPIC),)
_TO_READ: Final = (Permission(Operation.READ, ResourceType.TOPIC),)


def _kafka_produce(broker: BrokerSide) -> ProduceApi:
    produce = broker.records.produce
    writes = broker.data_audits.get(DataAccess.WRITES)
    leaders = Leaders(broker.image, broker.listener)
    return ProduceApi(produce.begin, leaders, produce.refuse_unknown, broker.askers, writes)


def _kafka_fetch(broker: BrokerSide) -> FetchApi:
    reads = broker.data_audits.get(DataAccess.READS)
    leaders = Leaders(broker.image, broker.listener)
    return FetchApi(broker.records.fetch.begin, leaders, broker.kafka_fetches, broker.askers, reads)


RECORD_APIS: Final[tuple[Api[Any, Any], ...]] = (
    Api(
        key=ApiKey.PRODUCE,
        call=PRODUCE,
        uses=data_uses.WRITES,
        decided_by=DecidedBy.LEADER,
        handler=lambda broker: broker.records.produce.handle,
        kafka_handler=_kafka_produce,
        needs=(*_TO_WRITE, Permission(Operation.WRITE, ResourceType.TRANSACTIONAL_ID)),
        guard=lambda _: record_guards.produce,
    ),
    Api(
        key=ApiKey.FETCH,
        call=FETCH,
        uses=data_uses.READS,
        decided_by=DecidedBy.LEADER,
        handler=lambda broker: broker.records.fetch.handle,
        kafka_handler=_kafka_fetch,
        needs=_TO_READ,
        guard=lambda _: record_guards.fetch,
    ),
    Api(
        call=PRODUCE_RECORDS,
        uses=data_uses.PLAIN_WRITES,
        decided_by=DecidedBy.LEADER,
        handler=lambda broker: broker.records.plain.produce,
        needs=_TO_WRITE,
        guard=lambda _: record_guards.produce_records,
    ),
    Api(
        call=FETCH_RECORDS,
        uses=data_uses.PLAIN_READS,
        decided_by=DecidedBy.LEADER,
        handler=lambda broker: broker.records.plain.fetch,
        needs=_TO_READ,
        guard=lambda _: record_guards.fetch_records,
    ),
    Api(
        call=APPEND_AUDIT,
        decided_by=DecidedBy.LEADER,
        handler=lambda broker: broker.audit_appends.append,
        needs=(Permission(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),),
        visible_to=VisibleTo.NODES,
    ),
    Api(
        call=REPLICA_FETCH,
        decided_by=DecidedBy.LEADER,
        handler=lambda broker: ReplicaFetchHandler(broker.partitions, broker.leader_throttle).handle,
        needs=(Permission(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),),
        visible_to=VisibleTo.NODES,
    ),
)
