"""Calls between the nodes of a cluster, one row each."""

from __future__ import annotations

from typing import Final

from kraft.metadata.imported_users import ImportUsersRequest, ImportUsersResult
from kraft.model.allocate_producer_ids import AllocateProducerIdsRequest, ProducerIdBlock
from kraft.model.alter_partition import AlterPartitionRequest, AlterPartitionResult
from kraft.model.append_audit import AppendAuditRequest, AppendAuditResponse
from kraft.model.fail_replicas import FailReplicasRequest, FailReplicasResult
from kraft.model.follow_metadata import FollowMetadataRequest, MetadataBatch
from kraft.model.heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResult
from kraft.model.liveness import LivenessRequest, LivenessResponse
from kraft.model.producer_transactions import ProducerTransactionsRequest, ProducerTransactionsResponse
from kraft.model.register_broker import RegisterBrokerRequest, RegistrationResult
from kraft.model.replica_fetch import ReplicaFetchRequest, ReplicaFetchResponse
from kraft.rpc.call import Call, Exchange, Packed, ServerStream, service_of
from kraft.rpc.pb import controller_pb2, replication_pb2
from kraft.rpc.replica_fetch_frames import request_pieces, response_pieces, unpack_request, unpack_response
from kraft.wire.schema.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kraft.wire.schema.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

# Only the active controller answers, except for FOLLOW_METADATA.
_CONTROLLER: Final = service_of(controller_pb2.DESCRIPTOR, "Controller")

REGISTER_BROKER: Final = Call(_CONTROLLER, "RegisterBroker", RegisterBrokerRequest, RegistrationResult)
HEARTBEAT: Final = Call(_CONTROLLER, "Heartbeat", BrokerHeartbeatRequest, BrokerHeartbeatResult)
ALTER_PARTITION: Final = Call(_CONTROLLER, "AlterPartition", AlterPartitionRequest, AlterPartitionResult)
FAIL_REPLICAS: Final = Call(_CONTROLLER, "FailReplicas", FailReplicasRequest, FailReplicasResult)
ALLOCATE_PRODUCER_IDS: Final = Call(_CONTROLLER, "AllocateProducerIds", AllocateProducerIdsRequest, ProducerIdBlock)
IMPORT_USERS: Final = Call(_CONTROLLER, "ImportUsers", ImportUsersRequest, ImportUsersResult)

LIVENESS_STREAM: Final = ServerStream(_CONTROLLER, "LivenessStream", LivenessRequest, LivenessResponse)
"""One response once the call counts as the broker's liveness stream, and no other. The broker then waits for the end of
the call with no deadline but the connection's keepalive pings.
"""

FOLLOW_METADATA: Final = ServerStream(_CONTROLLER, "FollowMetadata", FollowMetadataRequest, MetadataBatch)
"""Committed entries in order, and a beat at intervals while there are none. It does not end by itself, so the caller
limits its wait for each batch.
"""

_REPLICATION: Final = service_of(replication_pb2.DESCRIPTOR, "Replication")

REPLICA_FETCH: Final = Exchange(
    _REPLICATION.full_name,
    "ReplicaFetch",
    Packed[ReplicaFetchRequest](request_pieces, unpack_request),
    Packed[ReplicaFetchResponse](response_pieces, unpack_response),
)
"""One exchange for each pair of brokers. Its method has another name than the call of protobuf messages that it
replaced, so the two are never taken for each other.
"""

ADD_PARTITIONS_TO_TXN: Final = Call(
    _REPLICATION, "AddPartitionsToTxn", AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
)
WRITE_TXN_MARKERS: Final = Call(_REPLICATION, "WriteTxnMarkers", WriteTxnMarkersRequest, WriteTxnMarkersResponse)
APPEND_AUDIT: Final = Call(_REPLICATION, "AppendAudit", AppendAuditRequest, AppendAuditResponse)
LIST_PRODUCER_TRANSACTIONS: Final = Call(
    _REPLICATION, "ListProducerTransactions", ProducerTransactionsRequest, ProducerTransactionsResponse
)
