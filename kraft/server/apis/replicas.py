"""APIs about the replicas of partitions: their records, which leaders know, their places, and who leads."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from kraft.model.access import Operation, ResourceType
from kraft.rpc.calls import (
    ALTER_PARTITION_REASSIGNMENTS,
    DELETE_RECORDS,
    DESCRIBE_AWAITED_REPLICAS,
    DESCRIBE_LOG_DIRS,
    ELECT_LEADERS,
    LIST_OFFSETS,
    LIST_PARTITION_REASSIGNMENTS,
    OFFSET_FOR_LEADER_EPOCH,
)
from kraft.rpc.directory_calls import ALTER_REPLICA_LOG_DIRS
from kraft.rpc.transaction_calls import DESCRIBE_PRODUCERS
from kraft.server.access import replica_guards
from kraft.server.access.guard import Permission
from kraft.server.apis import audited
from kraft.server.apis.api import Api, DecidedBy
from kraft.server.apis.handlers import never_refused
from kraft.server.handlers import alter_replica_log_directories, partition_changes
from kraft.server.handlers.alter_replica_log_directories import AlterReplicaLogDirectoriesHandler
from kraft.server.handlers.delete_records import DeleteRecordsHandler
from kraft.server.handlers.describe_log_directories import DescribeLogDirectoriesHandler
from kraft.server.handlers.describe_producers import DescribeProducersHandler
from kraft.server.handlers.list_offsets import ListOffsetsHandler, led_elsewhere
from kraft.server.handlers.offset_for_leader_epoch import OffsetForLeaderEpochHandler
from kraft.wire.api_keys import ApiKey

REPLICA_APIS: Final[tuple[Api[Any, Any], ...]] = (
    Api(
        key=ApiKey.LIST_OFFSETS,
        call=LIST_OFFSETS,
        decided_by=DecidedBy.LEADER,
        handler=lambda broker: ListOffsetsHandler(broker.partitions, broker.slow_reads).handle,
        takes_context=True,
        needs=(Permission(Operation.DESCRIBE, ResourceType.TOPIC),),
        guard=lambda _: replica_guards.list_offsets,
        misdirected=lambda broker: partial(led_elsewhere, broker.image, broker.config.node_id),
        refused=never_refused,
    ),
    Api(
        key=ApiKey.OFFSET_FOR_LEADER_EPOCH,
        call=OFFSET_FOR_LEADER_EPOCH,
        decided_by=DecidedBy.LEADER,
        handler=lambda broker: OffsetForLeaderEpochHandler(broker.partitions).handle,
        needs=(Permission(Operation.DESCRIBE, ResourceType.TOPIC),),
        guard=lambda _: replica_guards.offset_for_leader_epoch,
        refused=never_refused,
    ),
    Api(
        key=ApiKey.DELETE_RECORDS,
        call=DELETE_RECORDS,
        decided_by=DecidedBy.LEADER,
        handler=lambda broker: DeleteRecordsHandler(broker.partitions, broker.records_deleted).handle,
        audited=audited.DELETE_RECORDS,
        needs=(Permission(Operation.DELETE, ResourceType.TOPIC),),
        guard=lambda _: replica_guards.delete_records,
        refused=never_refused,
    ),
    Api(
        key=ApiKey.DESCRIBE_PRODUCERS,
        call=DESCRIBE_PRODUCERS,
        decided_by=DecidedBy.BROKER,
        handler=lambda broker: DescribeProducersHandler(broker.partitions, broker.image).handle,
        needs=(Permission(Operation.READ, ResourceType.TOPIC),),
        guard=lambda _: replica_guards.describe_producers,
        refused=never_refused,
    ),
    Api(
        key=ApiKey.ALTER_REPLICA_LOG_DIRS,
        call=ALTER_REPLICA_LOG_DIRS,
        decided_by=DecidedBy.BROKER,
        handler=lambda broker: (
            AlterReplicaLogDirectoriesHandler(broker.directories, broker.partitions, broker.mover).handle
        ),
        audited=audited.DIRECTORIES,
        needs=(Permission(Operation.ALTER, ResourceType.CLUSTER),),
        refused=alter_replica_log_directories.refused,
    ),
    Api(
        key=ApiKey.DESCRIBE_LOG_DIRS,
        call=DESCRIBE_LOG_DIRS,
        decided_by=DecidedBy.BROKER,
        handler=lambda broker: (
            DescribeLogDirectoriesHandler(
                broker.directories, broker.partitions, broker.shortage_of, sync_s=broker.sync_s
            ).handle
        ),
        needs=(Permission(Operation.DESCRIBE, ResourceType.CLUSTER),),
    ),
    Api(
        call=DESCRIBE_AWAITED_REPLICAS,
        decided_by=DecidedBy.LEADER,
        handler=lambda broker: broker.awaited_replicas.handle,
        needs=(Permission(Operation.DESCRIBE, ResourceType.TOPIC),),
        guard=lambda _: replica_guards.describe_awaited_replicas,
    ),
    Api(
        key=ApiKey.ELECT_LEADERS,
        call=ELECT_LEADERS,
        decided_by=DecidedBy.CONTROLLER,
        handler=lambda broker: partial(partition_changes.elect, broker.forwarder, broker.topic_defaults),
        at_controller=lambda controller: partial(
            partition_changes.decide_elections, controller.decisions, controller.topic_defaults
        ),
        audited=audited.ELECTIONS,
        needs=(Permission(Operation.ALTER, ResourceType.CLUSTER),),
        refused=partition_changes.elections_refused,
    ),
    Api(
        key=ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        call=ALTER_PARTITION_REASSIGNMENTS,
        decided_by=DecidedBy.CONTROLLER,
        handler=lambda broker: partial(partition_changes.reassign, broker.forwarder, broker.topic_defaults),
        at_controller=lambda controller: partial(
            partition_changes.decide_reassignments, controller.decisions, controller.topic_defaults
        ),
        audited=audited.MOVES,
        needs=(Permission(Operation.ALTER, ResourceType.CLUSTER),),
        refused=partition_changes.reassignments_refused,
    ),
    Api(
        key=ApiKey.LIST_PARTITION_REASSIGNMENTS,
        call=LIST_PARTITION_REASSIGNMENTS,
        decided_by=DecidedBy.CONTROLLER,
        handler=lambda broker: partial(partition_changes.list_reassignments, broker.forwarder),
        at_controller=lambda controller: partial(partition_changes.listed_reassignments, controller.decisions),
        needs=(Permission(Operation.DESCRIBE, ResourceType.CLUSTER),),
    ),
)
