"""Which value is which message between the nodes of a cluster."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.metadata import commands
from kraft.model import replica_requests as replica
from kraft.model.ids import BrokerEpoch, BrokerId
from kraft.rpc.mapping import Mapping
from kraft.rpc.pb import controller_pb2, replication_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowMetadataRequest:
    """`after_index` is the last entry that the broker already holds, 0 for none."""

    cluster_id: str
    broker_id: int
    after_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataBatch:
    """One committed entry of the metadata log, or a beat: no records, the last entry's index.

    With `in_snapshot`, a part of a snapshot that stands at `index`; `ends_snapshot` says that it is whole now.
    """

    index: int
    term: int
    records: bytes
    committed_index: int
    in_snapshot: bool = False
    ends_snapshot: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AttendRequest:
    """A broker in service that holds this call open while it lives."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Attendance:
    """The call counts from here on."""


REGISTER_BROKER_REQUEST = Mapping(commands.RegisterBrokerRequest, controller_pb2.RegisterBrokerRequest)
REGISTRATION_RESULT = Mapping(commands.RegistrationResult, controller_pb2.RegistrationResult)
HEARTBEAT_REQUEST = Mapping(commands.HeartbeatRequest, controller_pb2.HeartbeatRequest)
HEARTBEAT_RESULT = Mapping(commands.HeartbeatResult, controller_pb2.HeartbeatResult)
ALTER_PARTITION_REQUEST = Mapping(commands.AlterPartitionRequest, controller_pb2.AlterPartitionRequest)
ALTER_PARTITION_RESULT = Mapping(commands.AlterPartitionResult, controller_pb2.AlterPartitionResult)
FAIL_REPLICAS_REQUEST = Mapping(commands.FailReplicasRequest, controller_pb2.FailReplicasRequest)
FAIL_REPLICAS_RESULT = Mapping(commands.FailReplicasResult, controller_pb2.FailReplicasResult)
ALLOCATE_PRODUCER_IDS_REQUEST = Mapping(commands.AllocateProducerIdsRequest, controller_pb2.AllocateProducerIdsRequest)
PRODUCER_ID_BLOCK = Mapping(commands.ProducerIdBlock, controller_pb2.ProducerIdBlock)
ATTEND_REQUEST = Mapping(AttendRequest, controller_pb2.AttendRequest)
ATTENDANCE = Mapping(Attendance, controller_pb2.Attendance)
FOLLOW_METADATA_REQUEST = Mapping(FollowMetadataRequest, controller_pb2.FollowMetadataRequest)
METADATA_BATCH = Mapping(MetadataBatch, controller_pb2.MetadataBatch)

REPLICA_FETCH_REQUEST = Mapping(replica.ReplicaFetchRequest, replication_pb2.ReplicaFetchRequest)
REPLICA_FETCH_RESPONSE = Mapping(replica.ReplicaFetchResponse, replication_pb2.ReplicaFetchResponse)
