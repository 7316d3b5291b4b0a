"""APIs about the replicas of partitions, which their leaders answer, or each broker of its own."""

from __future__ import annotations

from typing import Any, Final

from kraft.rpc.calls import DELETE_RECORDS, OFFSET_FOR_LEADER_EPOCH
from kraft.rpc.transaction_calls import DESCRIBE_PRODUCERS
from kraft.server.apis.api import Api, DecidedBy, Operation, Permission, Resource
from kraft.server.apis.handlers import never_refused
from kraft.server.handlers.alter_replica_log_directories import AlterReplicaLogDirectoriesHandler
from kraft.server.handlers.delete_records import DeleteRecordsHandler
from kraft.server.handlers.describe_producers import DescribeProducersHandler
from kraft.server.handlers.offset_for_leader_epoch import OffsetForLeaderEpochHandler
from kraft.wire.api_keys import ApiKey

REPLICA_APIS: Final[tuple[Api[Any, Any], ...]] = (
    Api(
        key=ApiKey.OFFSET_FOR_LEADER_EPOCH,
        call=OFFSET_FOR_LEADER_EPOCH,
        decided_by=DecidedBy.LEADER,
        handler=lambda broker: OffsetForLeaderEpochHandler(broker.partitions).handle,
        needs=(Permission(Operation.DESCRIBE, Resource.TOPIC),),
        refused=never_refused,
    ),
    Api(
        key=ApiKey.DELETE_RECORDS,
        call=DELETE_RECORDS,
        decided_by=DecidedBy.LEADER,
        handler=lambda broker: DeleteRecordsHandler(broker.partitions, broker.records_deleted).handle,
        needs=(Permission(Operation.DELETE, Resource.TOPIC),),
        refused=never_refused,
    ),
    Api(
        key=ApiKey.DESCRIBE_PRODUCERS,
        call=DESCRIBE_PRODUCERS,
        decided_by=DecidedBy.BROKER,
        handler=lambda broker: DescribeProducersHandler(broker.partitions, broker.image).handle,
        needs=(Permission(Operation.READ, Resource.TOPIC),),
        refused=never_refused,
    ),
    Api(
        key=ApiKey.ALTER_REPLICA_LOG_DIRS,
        decided_by=DecidedBy.BROKER,
        handler=lambda broker: (
            AlterReplicaLogDirectoriesHandler(broker.directories, broker.partitions, broker.mover).handle
        ),
        needs=(Permission(Operation.ALTER, Resource.CLUSTER),),
        refused=never_refused,
    ),
)
